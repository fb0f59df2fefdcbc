// SPDX-License-Identifier: Apache-2.0
// How well verdicts on leaks agree with what is known to have leaked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/analysis/analysis.h"

namespace memreel::test {

inline LeakReport leaks_of(const Trace& trace, const LeakOptions& options = {}) {
  return Analysis(trace, {.leaks = options}).leaks();
}

/// Address -> bytes of the allocations that leaked; all of them are live at the end of the trace.
using LeakTruth = std::map<std::uint64_t, std::uint64_t>;

struct LeakScore {
  std::uint64_t leaked = 0, leaked_bytes = 0;    // in truth
  std::uint64_t accused = 0, accused_bytes = 0;  // by the report
  std::uint64_t right = 0, right_bytes = 0;      // both
  std::uint64_t rank = 0;                        // of the first accused stack that leaked, from 1; 0: none did

  static double ratio(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole);
  }
  double byte_recall() const { return ratio(right_bytes, leaked_bytes); }
  double byte_precision() const { return ratio(right_bytes, accused_bytes); }
  double recall() const { return ratio(right, leaked); }
  double precision() const { return ratio(right, accused); }
  /// What the project promises (docs/leaks.md).
  bool holds() const { return leaked == 0 ? accused == 0 : byte_recall() >= 0.95 && byte_precision() >= 0.85; }
};

/// A case of a labelled benchmark: NAME.reel or NAME.pickle.xz, and NAME.truth.json beside it.
struct LabelledHistory {
  std::string name;
  std::filesystem::path file;
  LeakTruth truth;
};

inline std::vector<LabelledHistory> labelled_histories(const std::filesystem::path& directory) {
  constexpr std::string_view label = ".truth.json";
  std::vector<LabelledHistory> found;
  if (!std::filesystem::is_directory(directory)) return found;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(label)) continue;
    const std::string stem = name.substr(0, name.size() - label.size());
    std::ifstream file(entry.path());
    LabelledHistory history{.name = stem, .file = directory / (stem + ".reel"), .truth = {}};
    if (!std::filesystem::exists(history.file)) history.file = directory / (stem + ".pickle.xz");
    const nlohmann::json document = nlohmann::json::parse(file);
    for (const auto& leaked : document.at("leaked"))
      history.truth[leaked.at("address").get<std::uint64_t>()] = leaked.at("bytes").get<std::uint64_t>();
    found.push_back(std::move(history));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

/// The orders in which a program may free what it still holds when it ends.
enum class LastFrees : std::uint8_t { oldest_first, newest_first, by_size };

/// The trace as it would be, had the program been recorded until it had freed everything, as at an interpreter's exit.
inline Trace freed_to_the_end(Trace trace, LastFrees order) {
  const std::vector<Lifetime> lives = lifetimes(trace);
  std::vector<Event> held;
  for (std::size_t a = 0; a < lives.size(); ++a)
    if (lives[a].requested == never) held.push_back(trace.events[trace.events.begin_of(AllocationId(a))]);
  if (order == LastFrees::newest_first) std::ranges::reverse(held);
  if (order == LastFrees::by_size) std::ranges::stable_sort(held, {}, &Event::size);
  Nanoseconds time = trace.events.count() == 0 ? Nanoseconds{} : trace.events.times().back();
  for (Event event : held) {
    event.time = time += Nanoseconds{1000};
    event.stack = StackId::none;
    for (const EventKind kind : {EventKind::free_requested, EventKind::free_completed}) {
      event.kind = kind;
      trace.events.push_back(event);
    }
  }
  return trace;
}

/// All accused allocations of a report, ascending.
inline std::vector<AllocationId> accused_of(const LeakReport& report) {
  std::vector<AllocationId> accused;
  for (const LeakFinding& finding : report.findings)
    if (accuses(finding.verdict)) accused.insert(accused.end(), finding.allocations.begin(), finding.allocations.end());
  std::ranges::sort(accused);
  return accused;
}

/// Of what is older than the recording, only what has a stack can be found.
inline LeakScore score(const Trace& trace, const LeakReport& report, const LeakTruth& truth) {
  LeakScore score;
  std::set<std::uint64_t> untold;  // older than the recording, without a stack, and never made again
  for (const std::uint32_t event : trace.events.begins()) {
    const StackId stack = trace.events.stack(event);
    const std::uint64_t address = trace.events.address(event).value;
    if (is_preexisting(trace.tables, stack) && trace.tables[stack].caller == StackId::none)
      untold.insert(address);
    else
      untold.erase(address);
  }
  for (const auto& [address, bytes] : truth) {
    if (untold.contains(address)) continue;
    ++score.leaked;
    score.leaked_bytes += bytes;
  }
  std::uint64_t stacks = 0;
  for (const LeakFinding& finding : report.findings) {
    if (!accuses(finding.verdict)) continue;
    ++stacks;
    for (const AllocationId id : finding.allocations) {
      const std::uint32_t event = trace.events.begin_of(id);
      const std::uint64_t bytes = trace.events.size(event).count;
      ++score.accused;
      score.accused_bytes += bytes;
      if (!truth.contains(trace.events.address(event).value)) continue;
      ++score.right;
      score.right_bytes += bytes;
      if (score.rank == 0) score.rank = stacks;
    }
  }
  return score;
}

}  // namespace memreel::test
