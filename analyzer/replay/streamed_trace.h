// A trace file that is replayed without being in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "analyzer/engine/engine.h"
#include "analyzer/history/lifetimes.h"
#include "analyzer/replay/completed_trace.h"
#include "analyzer/replay/prepare.h"
#include "formats/model/result.h"
#include "formats/reader/trace_reader.h"

namespace memreel {

/// Every replay reads the file anew and holds one block of it, the tables and what is alive: memory does not grow with
/// the length of the trace. A replay has the result that it has in memory of a trace that complete_trace() made
/// whole, except that steps are not known.
///
/// The file must not change meanwhile; of one that is being written, replays see what was there at first.
class StreamedTrace final : public RowSource {
 public:
  /// Reads the file once, and twice more where its levels are to be tied. `memory_limit` and errors: as
  /// TraceReader::open().
  static Result<std::unique_ptr<StreamedTrace>> open(const std::filesystem::path& path, Bytes memory_limit = {});

  /// As of prepare(), without rows and steps.
  const std::vector<Prepared>& heaps() const { return heaps_; }
  /// Without events.
  const Trace& trace() const { return trace_; }
  /// What the recording adds up to, heap by heap.
  const std::vector<HeapHistory>& histories() const { return histories_; }
  std::uint64_t event_count() const { return event_count_; }

  std::size_t row_count(HeapId heap) const override;
  void for_each_piece(HeapId heap, const std::function<bool(const Prepared& piece)>& take) const override;

  /// The first error of reading the file again. Replays that met it are incomplete.
  Result<void> status() const;

 private:
  StreamedTrace(std::filesystem::path path, Bytes memory_limit) : path_(std::move(path)), memory_limit_(memory_limit) {}

  std::filesystem::path path_;
  Bytes memory_limit_;
  std::vector<Prepared> heaps_;
  std::vector<HeapHistory> histories_;
  std::vector<std::size_t> row_counts_;  // by HeapId
  Trace trace_;
  std::optional<CompletedStream> completed_;  // of a trace whose events are not what they were recorded as
  std::uint64_t recorded_ = 0;                // events in the file
  std::uint64_t event_count_ = 0;             // events that they are
  mutable std::mutex mutex_;                  // of status_
  mutable Result<void> status_;
};

}  // namespace memreel
