// What the analyzer makes of a trace that is still being written: what its memory is for, and what leaks so far.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/model/units.h"

namespace memreel::attach {

struct CategoryUse {
  std::int32_t device = 0;
  std::string heap, category;
  Bytes bytes;

  friend bool operator==(const CategoryUse&, const CategoryUse&) = default;
};

struct LeakSoFar {
  std::string verdict;  // "leak" or "suspected"
  Bytes bytes;
  std::uint64_t count = 0;
  double growth_per_step = 0;  // bytes
  std::string place;           // "forward (model.py:42)"; empty: no stack

  friend bool operator==(const LeakSoFar&, const LeakSoFar&) = default;
};

struct Findings {
  std::vector<CategoryUse> categories;  // alive at the end of what was read; each device, heap and category once
  std::vector<LeakSoFar> leaks;         // largest first

  friend bool operator==(const Findings&, const Findings&) = default;
};

/// Of a document memreel.report/1; none when `document` is none. Whatever it lacks is left out.
std::optional<Findings> findings_of(std::string_view document);

/// What analyses take turns at: one report at a time, and a tenth of one processor's time for all of them.
struct Turn {
  bool taken = false;
  std::chrono::steady_clock::time_point due;  // of the next
};

/// Asks the program `memreel`, which is found beside this one, for a report on `trace` again and again: in a process of
/// its own, of the lowest priority, and with bounded memory. Nothing here waits.
///
/// The arrows between rooms leave no other way, and it is the better one: the same answers as `memreel report`, and an
/// analyzer that runs out of memory takes nobody with it.
class Analysis {
 public:
  using Clock = std::chrono::steady_clock;

  /// A trace of which a report would take more memory than a watcher should: some 30 million events.
  static constexpr Bytes largest_trace{128ULL << 20U};

  /// `turn` must outlive this.
  Analysis(std::string trace, Turn& turn) : trace_(std::move(trace)), turn_(&turn) {}
  Analysis(const Analysis&) = delete;
  Analysis& operator=(const Analysis&) = delete;
  ~Analysis();

  /// Takes up what a report has said, and begins the next when the trace has grown and it is its turn.
  void advance(Clock::time_point now);

  /// When the latest report was begun.
  Clock::time_point begun() const { return begun_; }

  /// The latest; none before the first.
  const std::optional<Findings>& findings() const { return findings_; }
  /// Why there are none, or no newer ones; empty: there is no reason.
  const std::string& problem() const { return problem_; }

 private:
  void begin(Clock::time_point now);
  void end(int status, Clock::time_point now);

  std::string trace_;
  Turn* turn_;
  std::optional<Findings> findings_;
  std::string problem_;
  pid_t child_ = 0;  // 0: none runs
  int output_ = -1;  // what the child writes to, in memory
  Clock::time_point begun_;
  std::uint64_t size_ = 0;  // of the trace when the latest report was begun
};

}  // namespace memreel::attach
