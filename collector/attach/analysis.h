// What the analyzer finds in a trace that is still being written: memory by category, and leaks so far.
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
  std::vector<CategoryUse> categories;  // live at the end of what was read; each (device, heap, category) once
  std::vector<LeakSoFar> leaks;         // largest first

  friend bool operator==(const Findings&, const Findings&) = default;
};

/// From a memreel.report/1 document; none if `document` is none. Missing fields are left out.
std::optional<Findings> findings_of(std::string_view document);

/// Analyses share this: one report at a time, using at most a tenth of one CPU in all.
struct Turn {
  bool taken = false;
  std::chrono::steady_clock::time_point due;  // time of the next report
};

/// Repeatedly runs the `memreel` program, found next to this one, to report on `trace`: in its own process, at the
/// lowest priority, with bounded memory. Nothing here blocks.
///
/// The layering between rooms allows nothing else, and it is the better choice: answers are the same as those of
/// `memreel report`, and an analyzer that runs out of memory takes no other process down.
class Analysis {
 public:
  using Clock = std::chrono::steady_clock;

  /// Above this size a report would use more memory than a watcher should: some 30 million events.
  static constexpr Bytes largest_trace{128ULL << 20U};

  /// `turn` must outlive this.
  Analysis(std::string trace, Turn& turn) : trace_(std::move(trace)), turn_(&turn) {}
  Analysis(const Analysis&) = delete;
  Analysis& operator=(const Analysis&) = delete;
  ~Analysis();

  /// Takes the finished report's result, and starts the next one when the trace has grown and it is this analysis's
  /// turn.
  void advance(Clock::time_point now);

  /// When the latest report was started.
  Clock::time_point begun() const { return begun_; }

  /// The latest findings; none before the first report.
  const std::optional<Findings>& findings() const { return findings_; }
  /// Why there are no findings, or no newer ones; empty if there is no problem.
  const std::string& problem() const { return problem_; }

 private:
  void begin(Clock::time_point now);
  void end(int status, Clock::time_point now);

  std::string trace_;
  Turn* turn_;
  std::optional<Findings> findings_;
  std::string problem_;
  pid_t child_ = 0;  // 0: none is running
  int output_ = -1;  // memfd that the child writes to
  Clock::time_point begun_;
  std::uint64_t size_ = 0;  // of the trace when the latest report was started
};

}  // namespace memreel::attach
