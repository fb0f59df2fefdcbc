// Moments of a trace, as people name them: "run.reel@peak", "run.reel@step:40".
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "analyzer/category/category.h"
#include "analyzer/history/lifetimes.h"
#include "analyzer/replay/steps.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel {

/// When live bytes first were at their most; each heap has a peak of its own.
struct AtPeak {};
struct AtEnd {};
/// After so many steps have ended.
struct AfterStep {
  std::uint64_t number = 1;
};
/// After the event with this index, as reports print them.
struct AtEvent {
  std::uint64_t index = 0;
};
/// So long after the trace's first event.
struct AtTime {
  Nanoseconds since_start{};
};

/// When live bytes first were at their most within a phase of a step.
struct AtPhase {
  Phase phase = Phase::other;
};
/// Likewise within ranges that the program names so.
struct AtRange {
  std::string name;
};

using Instant = std::variant<AtPeak, AtEnd, AfterStep, AtEvent, AtTime, AtPhase, AtRange>;

/// "peak", "end", "step:40", "event:1000", "12.5s", "300ms", "phase:forward", "range:NAME".
Result<Instant> parse_instant(std::string_view text);

/// "at the peak", "after step 40"...
std::string text_of(const Instant& instant);

/// How many events of the trace have happened at the instant, for `heap`. Errors: the trace has no such step, event,
/// phase or range.
Result<std::uint64_t> events_at(const Instant& instant, const Trace& trace, const HeapHistory& heap,
                                const Steps& steps);

struct FileAt {
  std::filesystem::path file;
  std::optional<Instant> instant;
};

/// "FILE" or "FILE@INSTANT". A file whose whole name is `text` exists: then that is what is meant.
Result<FileAt> parse_file_at(std::string_view text);

}  // namespace memreel
