// What would have needed less memory, or survived: found by replaying it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/engine/prepared.h"
#include "analyzer/tune/outcome.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel {

enum class RemedyKind : std::uint8_t {
  setting,     // of PyTorch's allocator
  allocator,   // another one
  one_stream,  // the program uses one stream for everything
};

/// "setting", "allocator", "one_stream".
std::string_view name_of(RemedyKind kind);

/// One thing done otherwise than when it was recorded.
struct Remedy {
  RemedyKind kind = RemedyKind::setting;
  std::string text;  // "expandable_segments:True", "cuda.async", "one stream for everything"
  Outcome outcome;
};

struct Remedies {
  std::vector<Prepared> heaps;  // what was replayed: one process's, of one kind of allocator
  bool is_torch = false;
  Outcome baseline;     // what it ran with; of allocators other than PyTorch's not known, and empty
  Bytes baseline_peak;  // reserved by it; when it is not known, when it was recorded
  std::vector<Remedy>
      tried;  // fewest failures first; then those that save most, or, where requests fail, the best known
  std::uint64_t left_out = 0;  // candidates that were not replayed because the trace is long

  /// Bytes of the peak that a remedy does without; negative when it needs more.
  std::int64_t gives_back(const Remedy& remedy) const {
    return static_cast<std::int64_t>(baseline_peak.count - remedy.outcome.peak_reserved().count);
  }
};

/// How much is replayed: rows of the trace times candidates. About two seconds on two cores.
inline constexpr std::uint64_t remedy_rows = 30'000'000;

/// Replays, at the capacity that the recorded failures imply, else without a limit: PyTorch's settings one by one with
/// the likeliest values first, the program on one stream, and the bound below which no allocator gets; for other pools
/// the allocators that replace them. Of long traces fewer, as `rows` says; the first candidate always.
///
/// Nothing is tried for programs that take their memory from the driver without a pool.
/// `on_progress` is called by any thread, after each replay.
Remedies replay_remedies(const Trace& trace, std::uint64_t rows = remedy_rows, unsigned threads = 0,
                         const std::function<void(std::uint64_t done, std::uint64_t total)>& on_progress = {});

/// Whether a request that failed when it was recorded (event `failure` of `heap`) is served in a replay, and none
/// before it fails that did not fail when it was recorded. `recorded`: events of the recorded failures, ascending.
bool survives(const Outcome& outcome, HeapId heap, std::uint32_t failure, std::span<const std::uint32_t> recorded);

}  // namespace memreel
