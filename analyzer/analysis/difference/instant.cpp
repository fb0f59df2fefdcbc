// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/difference/instant.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "analyzer/analysis/insight/timeline.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

std::int64_t growth(Bytes a, Bytes b) { return static_cast<std::int64_t>(b.count - a.count); }

}  // namespace

PurposesOfStacks purposes_of_stacks(const Trace& trace, const Categories& categories,
                                    const std::vector<Lifetime>& lives, HeapId heap, std::uint64_t events) {
  PurposesOfStacks by_stack;
  for (std::uint32_t a = 0; a < lives.size(); ++a) {
    const std::uint32_t begin = lives[a].begin;
    if (!lives[a].live_after(events) || trace.tables[trace.events.origin(begin)].heap != heap) continue;
    by_stack[{categories.category(AllocationId{a}), trace.events.stack(begin)}] += trace.events.size(begin);
  }
  return by_stack;
}

std::vector<CategoryChange> category_changes(const Purposes& a, const Purposes& b) {
  std::map<Category, CategoryChange> changes;
  for (const auto& [key, bytes] : a.live) changes[key.first].a += bytes;
  for (const auto& [key, bytes] : b.live) changes[key.first].b += bytes;
  if (std::ranges::all_of(changes, [](const auto& entry) { return entry.first == Category::unknown; })) return {};

  std::map<std::pair<Category, std::string>, std::pair<Bytes, Bytes>> places;
  for (const auto& [key, bytes] : a.live) places[key].first = bytes;
  for (const auto& [key, bytes] : b.live) places[key].second = bytes;
  for (const auto& [key, held] : places) {
    CategoryChange& change = changes[key.first];
    const std::int64_t sign = growth(change.a, change.b) < 0 ? -1 : 1;
    if (sign * growth(held.first, held.second) <= sign * growth(change.place_a, change.place_b)) continue;
    change.place = key.second;
    change.place_a = held.first;
    change.place_b = held.second;
  }
  std::vector<CategoryChange> list;
  for (auto& [category, change] : changes) {
    change.category = category;
    list.push_back(std::move(change));
  }
  std::ranges::stable_sort(list, std::ranges::greater{},
                           [](const CategoryChange& change) { return std::abs(growth(change.a, change.b)); });
  return list;
}

namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

std::optional<Nanoseconds> parse_time(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, double>, 4> units{
      {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  for (const auto& [unit, nanoseconds] : units) {
    if (!text.ends_with(unit)) continue;
    const std::string_view number = text.substr(0, text.size() - unit.size());
    const std::optional<double> value = parse_fraction(number, std::chars_format::general);
    if (!value) continue;
    const double time = *value * nanoseconds;
    if (!(time >= 0 && time < 9e18)) return std::nullopt;
    return Nanoseconds(std::llround(time));
  }
  return std::nullopt;
}

std::uint64_t events_until(const Trace& trace, Nanoseconds since_start) {
  const auto times = trace.events.times();
  if (times.empty()) return 0;
  const Nanoseconds until = times.front() + since_start;
  // Times need not be monotonic; the first later event ends the instant.
  std::uint64_t i = 0;
  while (i < times.size() && times[i] <= until) ++i;
  return i;
}

/// When the phase holds most in a heap; nothing if the heap allocates nothing in it.
std::optional<std::uint64_t> peak_in_phase(Phase phase, const Analysis& analysis, HeapId heap) {
  for (const PhasePeak& at : phase_peaks(analysis.trace(), analysis.categories(), heap))
    if (at.phase == phase) return at.peak.events;
  return std::nullopt;
}

/// A heap that allocates nothing in the phase is shown when the phase holds most in the largest that does.
Result<std::uint64_t> events_at_phase(Phase phase, const Analysis& analysis, HeapId heap) {
  if (const auto events = peak_in_phase(phase, analysis, heap)) return *events;
  std::vector<HeapHistory> others(analysis.histories().begin(), analysis.histories().end());
  std::ranges::stable_sort(others, std::ranges::greater{}, &HeapHistory::peak_live);
  for (const HeapHistory& other : others)
    if (const auto events = peak_in_phase(phase, analysis, other.heap)) return *events;
  std::string known;
  for (std::size_t p = 0; p < phase_count; ++p) {
    const auto other = static_cast<Phase>(p);
    if (std::ranges::find(analysis.categories().phase, other) != analysis.categories().phase.end())
      known += (known.empty() ? "" : ", ") + std::string(name_of(other));
  }
  return Error{.what = "the trace has no phase '" + std::string(name_of(phase)) + "'",
               .remedy = known.empty() ? "" : "it has: " + known};
}

Result<std::uint64_t> events_at_range(std::string_view name, const Trace& trace, HeapId heap) {
  std::optional<SpanPeak> highest;
  for (const RangePeak& range : range_peaks(trace, heap))
    if (range.name == name && (!highest || range.peak.live > highest->live)) highest = range.peak;
  if (highest) return highest->events;
  return Error{.what = "the trace has no range '" + std::string(name) + "'",
               .remedy = "memreel report lists the ranges of a trace"};
}

}  // namespace

Result<Instant> parse_instant(std::string_view text) {
  if (text == "peak") return Instant{AtPeak{}};
  if (text == "end") return Instant{AtEnd{}};
  if (text.starts_with("step:")) {
    if (const auto number = parse_integer(text.substr(5)); number && *number > 0) return Instant{AfterStep{*number}};
  } else if (text.starts_with("event:")) {
    if (const auto index = parse_integer(text.substr(6))) return Instant{AtEvent{*index}};
  } else if (text.starts_with("phase:")) {
    if (const auto phase = phase_by_name(text.substr(6))) return Instant{AtPhase{*phase}};
  } else if (text.starts_with("range:")) {
    if (text.size() > 6) return Instant{AtRange{std::string(text.substr(6))}};
  } else if (const auto time = parse_time(text)) {
    return Instant{AtTime{*time}};
  }
  return Error{.what = "unknown instant '" + std::string(text) + "'",
               .remedy =
                   "available: peak, end, step:N (from 1), event:N, phase:forward|backward|optimizer|other, "
                   "range:NAME, or a time "
                   "since the start such as 12.5s or 300ms"};
}

std::string text_of(const Instant& instant) {
  return std::visit(
      Overloaded{[](AtPeak) -> std::string { return "at the peak"; }, [](AtEnd) -> std::string { return "at the end"; },
                 [](AfterStep step) { return "after step " + text_of(step.number); },
                 [](AtEvent event) { return "after event " + text_of(event.index); },
                 [](AtTime time) {
                   return "after " + text_of_seconds(std::chrono::duration<double>(time.since_start).count());
                 },
                 [](AtPhase at) { return "at the peak of phase " + std::string(name_of(at.phase)); },
                 [](const AtRange& range) { return "at the peak of range " + range.name; }},
      instant);
}

std::string text_of(const Instant& instant, const Trace& trace) {
  const bool is_whole = std::holds_alternative<AtPeak>(instant) || std::holds_alternative<AtEnd>(instant);
  return is_whole && is_instant(trace) ? "at the one instant" : text_of(instant);
}

Result<std::uint64_t> events_at(const Instant& instant, const Analysis& analysis, const HeapHistory& heap,
                                const Steps& steps) {
  const Trace& trace = analysis.trace();
  const std::uint64_t all = trace.events.count();
  return std::visit(
      Overloaded{[&](AtPeak) -> Result<std::uint64_t> {
                   return heap.allocations == 0 ? std::uint64_t{0} : heap.peak_live_event + 1;
                 },
                 [&](AtEnd) -> Result<std::uint64_t> { return all; },
                 [&](AfterStep step) -> Result<std::uint64_t> {
                   if (steps.ends.empty())
                     return Error{.what = "the trace marks no steps, and shows none",
                                  .remedy = "name an instant by event or time"};
                   if (step.number > steps.ends.size())
                     return Error{.what = "the trace has " + counted(steps.ends.size(), "step")};
                   return std::uint64_t{steps.ends[step.number - 1]} + 1;
                 },
                 [&](AtEvent event) -> Result<std::uint64_t> {
                   if (event.index >= all) return Error{.what = "the trace has " + counted(all, "event") + ", from 0"};
                   return event.index + 1;
                 },
                 [&](AtTime time) -> Result<std::uint64_t> {
                   const Nanoseconds span = all == 0 ? Nanoseconds{} : trace.events.latest() - trace.events.time(0);
                   if (time.since_start > span)
                     return Error{.what = "the trace ends after " +
                                          text_of_seconds(std::chrono::duration<double>(span).count())};
                   return events_until(trace, time.since_start);
                 },
                 [&](AtPhase at) -> Result<std::uint64_t> { return events_at_phase(at.phase, analysis, heap.heap); },
                 [&](const AtRange& range) { return events_at_range(range.name, trace, heap.heap); }},
      instant);
}

Result<FileAt> parse_file_at(std::string_view text) {
  std::error_code ignored;
  const std::size_t at = text.rfind('@');
  if (at == std::string_view::npos || std::filesystem::exists(text, ignored))
    return FileAt{.file = std::filesystem::path(text), .instant = std::nullopt};
  Result<Instant> instant = parse_instant(text.substr(at + 1));
  if (!instant) {
    instant.error().where = std::string(text);
    return std::move(instant).error();
  }
  return FileAt{.file = std::filesystem::path(text.substr(0, at)), .instant = *instant};
}

}  // namespace memreel
