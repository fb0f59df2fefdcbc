// SPDX-License-Identifier: Apache-2.0
// A trace file that is replayed without being held in memory.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>

#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/replay/completed_trace.h"
#include "analyzer/replay/engine/engine.h"
#include "analyzer/replay/prepare.h"
#include "formats/model/result.h"
#include "formats/reader/trace_reader.h"

namespace memreel {

/// Every replay reads the file again and holds one block of it, the tables and the live allocations: memory does not
/// grow with the length of the trace. A replay gives the same result as one in memory of a trace completed by
/// complete_trace(), except that steps are unknown.
///
/// The file must not change meanwhile; for one still being written, replays see what was there at first.
class StreamedTrace final : public RowSource {
 public:
  /// Reads the file once, and twice more if its levels need linking. `memory_limit` and errors: as TraceReader::open().
  static Result<std::unique_ptr<StreamedTrace>> open(const std::filesystem::path& path, Bytes memory_limit = {});

  /// As from prepare(), without rows and steps.
  const std::vector<Prepared>& heaps() const { return heaps_; }
  /// Without events.
  const Trace& trace() const { return trace_; }
  /// The metrics of the recording, heap by heap.
  const std::vector<HeapHistory>& histories() const { return histories_; }
  std::uint64_t event_count() const { return event_count_; }

  std::size_t row_count(HeapId heap) const override;
  void for_each_piece(HeapId heap, const std::function<bool(const Prepared& piece)>& take) const override;

  /// The first error of rereading the file. Replays that met it are incomplete.
  Result<void> status() const;

 private:
  StreamedTrace(std::filesystem::path path, Bytes memory_limit) : path_(std::move(path)), memory_limit_(memory_limit) {}

  std::filesystem::path path_;
  Bytes memory_limit_;
  std::vector<Prepared> heaps_;
  std::vector<HeapHistory> histories_;
  std::vector<std::size_t> row_counts_;  // by HeapId
  Trace trace_;
  std::optional<CompletedStream> completed_;  // if the events differ from the recorded ones
  std::uint64_t recorded_ = 0;                // number of events in the file
  std::uint64_t event_count_ = 0;             // number of events after completion
  mutable std::mutex mutex_;                  // of status_
  mutable Result<void> status_;
};

}  // namespace memreel
