// SPDX-License-Identifier: Apache-2.0
// Moments of a trace in command-line syntax: "run.reel@peak", "run.reel@step:40".
#pragma once

#include <filesystem>
#include <map>
#include <variant>

#include "analyzer/analysis/analysis.h"
#include "analyzer/analysis/category/category.h"
#include "analyzer/analysis/category/classify.h"
#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/replay/steps.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel {

// A heap's memory by category, compared between two runs or instants.

/// Live bytes of one heap at an instant.
struct Purposes {
  std::map<std::pair<Category, std::string>, Bytes> live;  // by category and the place that made it (labels.h)
  /// The program repeats forward passes in its backward pass (gradient checkpointing), at any instant.
  bool recomputes = false;
};

/// The same, by stack.
using PurposesOfStacks = std::map<std::pair<Category, StackId>, Bytes>;

/// After the first `events` events. `categories`: of the trace.
PurposesOfStacks purposes_of_stacks(const Trace& trace, const Categories& categories,
                                    const std::vector<Lifetime>& lives, HeapId heap, std::uint64_t events);

struct CategoryChange {
  Category category = Category::unknown;
  Bytes a, b;
  std::string place;  // with the largest change in the direction of the whole; empty: none
  Bytes place_a, place_b;
};

/// Categories that either side holds, largest change first, in either direction. Empty if nothing is known of either.
std::vector<CategoryChange> category_changes(const Purposes& a, const Purposes& b);

/// The first moment of most live bytes; each heap has its own peak.
struct AtPeak {};
struct AtEnd {};
/// After this many steps have ended.
struct AfterStep {
  std::uint64_t number = 1;
};
/// After the event with this index, as printed in reports.
struct AtEvent {
  std::uint64_t index = 0;
};
/// This long after the trace's first event.
struct AtTime {
  Nanoseconds since_start{};
};

/// The first moment of most live bytes within a phase of a step.
struct AtPhase {
  Phase phase = Phase::other;
};
/// The same within ranges of this name.
struct AtRange {
  std::string name;
};

using Instant = std::variant<AtPeak, AtEnd, AfterStep, AtEvent, AtTime, AtPhase, AtRange>;

/// "peak", "end", "step:40", "event:1000", "12.5s", "300ms", "phase:forward", "range:NAME".
Result<Instant> parse_instant(std::string_view text);

/// "at the peak", "after step 40"...
std::string text_of(const Instant& instant);

/// The same; "at the one instant" for the peak and the end of a recording that holds nothing else.
std::string text_of(const Instant& instant, const Trace& trace);

/// The number of events up to the instant, for `heap`. Errors: the trace has no such step, event, phase or range.
Result<std::uint64_t> events_at(const Instant& instant, const Analysis& analysis, const HeapHistory& heap,
                                const Steps& steps);

struct FileAt {
  std::filesystem::path file;
  std::optional<Instant> instant;
};

/// "FILE" or "FILE@INSTANT". If a file with the whole name `text` exists, that file is meant.
Result<FileAt> parse_file_at(std::string_view text);

}  // namespace memreel
