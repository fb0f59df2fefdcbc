// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/difference/difference.h"

#include <algorithm>
#include <cstdlib>
#include <future>
#include <limits>
#include <tuple>

#include "analyzer/analysis/insight/timeline.h"
#include "analyzer/describe/live_groups.h"
#include "analyzer/describe/own_frame.h"
#include "formats/model/frame_kind.h"

namespace memreel {
namespace {

/// One heap of a trace, up to an instant.
struct HeapView {
  HeapHistory history;
  Steps steps;
  std::uint64_t events = 0;
  std::vector<Holding> held;  // by stack
  PurposesOfStacks purposes;
  bool recomputes = false;
  Phase phase = Phase::other;     // of the last allocation
  std::set<Phase> phases;         // at any time
  std::vector<Bytes> step_peaks;  // by step of the whole trace
};

Holding total(const std::vector<Holding>& held) {
  Holding sum;
  for (const Holding& h : held) {
    sum.bytes += h.bytes;
    sum.count += h.count;
  }
  return sum;
}

/// Tracks a view's heap over the trace: what is held after the view's events by stack, and the peak of each step.
class Series {
 public:
  explicit Series(HeapView& view) : view_(&view) {}

  void add(std::size_t event, StackId stack, Bytes size) {
    live_ += size;
    peak_ = std::max(peak_, live_);
    if (event >= view_->events) return;
    Holding& held = view_->held[index(stack)];
    held.bytes += size;
    ++held.count;
  }

  void remove(std::size_t event, StackId stack, Bytes size) {
    live_ -= size;
    if (event >= view_->events) return;
    Holding& held = view_->held[index(stack)];
    held.bytes -= size;
    --held.count;
  }

  /// Ends the steps that are over before `event`. Returns the event before which the next one ends, or the maximum.
  std::size_t end_steps(std::size_t event) {
    const auto& ends = view_->steps.ends;
    for (; step_ < ends.size() && ends[step_] < event; ++step_)
      view_->step_peaks.push_back(std::exchange(peak_, live_));
    return step_ < ends.size() ? std::size_t{ends[step_]} + 1 : std::numeric_limits<std::size_t>::max();
  }

 private:
  HeapView* view_;
  Bytes live_, peak_;
  std::size_t step_ = 0;
};

/// Fills in what the views hold and the peaks of their steps, in one pass over the trace.
void follow(const Trace& trace, std::vector<HeapView>& views) {
  std::vector<Series> all_series;
  for (HeapView& view : views) {
    view.held.resize(trace.tables.stacks.size());
    all_series.emplace_back(view);
  }
  std::vector<Series*> by_origin(trace.tables.origins.size());
  for (std::size_t o = 0; o < by_origin.size(); ++o)
    for (std::size_t v = 0; v < views.size(); ++v)
      if (trace.tables.origins[o].heap == views[v].history.heap) by_origin[o] = &all_series[v];

  const Events& events = trace.events;
  const std::vector<StackId> site = same_code(trace.tables);
  std::size_t next_end = 0;  // no step of any heap ends before it
  const auto end_steps = [&](std::size_t event) {
    next_end = std::numeric_limits<std::size_t>::max();
    for (Series& series : all_series) next_end = std::min(next_end, series.end_steps(event));
  };
  for (std::size_t i = 0; i < events.count(); ++i) {
    if (i >= next_end) end_steps(i);
    const EventKind kind = events.kind(i);
    if (kind != EventKind::alloc && kind != EventKind::free_requested) continue;
    if (events.allocation(i) == AllocationId::none) continue;
    const std::uint32_t begin = trace.events.begin_of(events.allocation(i));
    Series* const series = by_origin[index(events.origin(begin))];
    if (series == nullptr) continue;
    if (kind == EventKind::alloc)
      series->add(i, site[index(events.stack(begin))], events.size(begin));
    else
      series->remove(i, site[index(events.stack(begin))], events.size(begin));
  }
  end_steps(events.count());
}

/// The phase of the heap's last allocation among the first `events` events.
Phase phase_at(const Trace& trace, const Categories& categories, HeapId heap, std::uint64_t events) {
  const auto begins = trace.events.begins();
  for (auto at = std::ranges::lower_bound(begins, events); at != begins.begin();)
    if (--at; trace.tables[trace.events.origin(*at)].heap == heap)
      return categories.phase[index(trace.events.allocation(*at))];
  return Phase::other;
}

Result<std::vector<HeapView>> views_of(const Side& side) {
  std::vector<HeapView> views;
  for (const HeapHistory& history : side.analysis.histories()) {
    HeapView view{.history = history, .steps = side.analysis.steps(history.heap)};
    Result<std::uint64_t> events = events_at(side.instant, side.analysis, history, view.steps);
    if (!events) {
      events.error().where = (side.name.empty() ? "" : side.name + ", ") + text_of(side.instant);
      return std::move(events).error();
    }
    view.events = *events;
    views.push_back(std::move(view));
  }
  const Trace& trace = side.analysis.trace();
  follow(trace, views);
  const Categories& categories = side.analysis.categories();
  for (HeapView& view : views) {
    view.purposes = purposes_of_stacks(trace, categories, side.analysis.lives(), view.history.heap, view.events);
    view.recomputes =
        std::ranges::find(categories.evidence, Evidence::recomputed_for_backward) != categories.evidence.end();
    if (!has_history(trace)) continue;  // no allocation is the last
    view.phase = phase_at(trace, categories, view.history.heap, view.events);
    for (const PhasePeak& at : phase_peaks(trace, categories, view.history.heap)) view.phases.insert(at.phase);
  }
  return views;
}

std::vector<StackId> holding(const HeapView* view) {
  std::vector<StackId> stacks;
  if (view == nullptr) return stacks;
  for (std::uint32_t s = 0; s < view->held.size(); ++s)
    if (view->held[s].count != 0) stacks.push_back(StackId{s});
  return stacks;
}

Holding held_by(const HeapView* view, StackId stack) { return view == nullptr ? Holding{} : view->held[index(stack)]; }

/// Display order.
bool more_important(const SiteChange& x, const SiteChange& y) {
  const std::int64_t of_x = change(x.a.bytes, x.b.bytes);
  const std::int64_t of_y = change(y.a.bytes, y.b.bytes);
  if (std::abs(of_x) != std::abs(of_y)) return std::abs(of_x) > std::abs(of_y);
  if (of_x != of_y) return of_x > of_y;
  return std::tie(x.stack_a, x.stack_b, x.size) < std::tie(y.stack_a, y.stack_b, y.size);
}

/// The share of the live bytes whose stack is known, at least in part.
double stacks_known(const Tables& tables, const HeapView& view) {
  Bytes known;
  for (const StackId stack : holding(&view)) {
    const bool is_empty =
        stack == StackId::none || (tables[stack].caller == StackId::none && is_preexisting(tables, stack));
    if (!is_empty) known += view.held[index(stack)].bytes;
  }
  return share_of(known, total(view.held).bytes);
}

/// Whether the stacks of one side say nothing of the other's. Of two recordings that both began late, what is older
/// has no stack in either; within one, it is older at every instant.
bool lacks_stacks(const SideState& a, const SideState& b, bool is_one_recording) {
  constexpr double few = 0.1, most = 0.5;
  if (a.live.count == 0 || b.live.count == 0) return false;
  const auto [less, more] = std::minmax(a.stacks_known, b.stacks_known);
  if (is_one_recording) return more == 0;
  return less == 0 || (less < few && more >= most);
}

SideState state_of(const Trace& trace, const HeapView* view) {
  if (view == nullptr) return {};
  const std::int32_t device = trace.tables[view->history.heap].device;
  return {.heap = view->history.heap,
          .device = device,
          .events = view->events,
          .live = total(view->held),
          .phase = view->phase,
          .steps = view->steps,
          .stacks_known = stacks_known(trace.tables, *view)};
}

/// The phase of one side's instant, B's first, that both have at some time.
std::optional<Phase> common_phase(const HeapView& a, const HeapView& b) {
  for (const Phase phase : {b.phase, a.phase})
    if (phase != Phase::other && a.phases.contains(phase) && b.phases.contains(phase)) return phase;
  return std::nullopt;
}

std::vector<StackPair> pairs_of(const Trace& trace_a, const HeapView* a, const Trace& trace_b, const HeapView* b) {
  HeldByStack held;
  if (a != nullptr && b != nullptr) held = {.a = a->held, .b = b->held};
  return match_stacks(trace_a.tables, holding(a), trace_b.tables, holding(b), held);
}

std::vector<SiteChange> changes_by_stack(std::span<const StackPair> pairs, const HeapView* a, const HeapView* b) {
  std::vector<SiteChange> sites;
  for (const auto& [stack_a, stack_b] : pairs) {
    SiteChange site{.stack_a = stack_a, .stack_b = stack_b};
    // A site without a counterpart has no stack, which may itself be a site of another pair.
    const bool is_recorded_without_stack = stack_a == StackId::none && stack_b == StackId::none;
    if (stack_a != StackId::none || is_recorded_without_stack) site.a = held_by(a, stack_a);
    if (stack_b != StackId::none || is_recorded_without_stack) site.b = held_by(b, stack_b);
    if (site.a != site.b) sites.push_back(site);
  }
  return sites;
}

std::vector<SiteChange> changes_by_size(const Side& a, const SideState& at_a, const Side& b, const SideState& at_b) {
  std::map<Bytes, SiteChange> by_size;
  const auto add = [&](const Side& side, const SideState& at, Holding SiteChange::*held) {
    const Trace& trace = side.analysis.trace();
    for (const Lifetime& life : side.analysis.lives()) {
      if (!life.live_after(at.events) || trace.tables[trace.events.origin(life.begin)].heap != at.heap) continue;
      const Bytes size = trace.events.size(life.begin);
      Holding& of_size = by_size[size].*held;
      of_size.bytes += size;
      ++of_size.count;
    }
  };
  add(a, at_a, &SiteChange::a);
  add(b, at_b, &SiteChange::b);
  std::vector<SiteChange> sites;
  for (auto& [size, site] : by_size) {
    site.size = size;
    if (site.a != site.b) sites.push_back(site);
  }
  return sites;
}

/// Of stacks of A, those of B that they are now.
using StacksNow = std::map<StackId, StackId>;

/// What a side holds, by category and place. Places of A whose code moved are where it is in B.
Purposes purposes_of(const Side& side, const HeapView& view, const StacksNow& now, const Side& b) {
  const Trace& trace = side.analysis.trace();
  const std::vector<StackId> site = same_code(trace.tables);
  Purposes purposes{.live = {}, .recomputes = view.recomputes};
  for (const auto& [key, bytes] : view.purposes) {
    const auto& [category, stack] = key;
    FrameText place = holder_frame(trace.tables, side.analysis.categories(), stack);
    if (const auto of_b = now.find(site[index(stack)]); of_b != now.end()) {
      const FrameText moved = holder_frame(b.analysis.trace().tables, b.analysis.categories(), of_b->second);
      if (moved.function == place.function) std::tie(place.file, place.line) = std::tie(moved.file, moved.line);
    }
    purposes.live[{category, label_in(trace, short_label(place))}] += bytes;
  }
  return purposes;
}

std::vector<CategoryChange> category_changes(const Side& side_a, const HeapView* a, const Side& side_b,
                                             const HeapView* b, std::span<const StackPair> pairs) {
  StacksNow now;
  for (const auto& [of_a, of_b] : pairs)
    if (of_a != StackId::none && of_b != StackId::none) now[of_a] = of_b;
  return category_changes(a != nullptr ? purposes_of(side_a, *a, now, side_b) : Purposes(),
                          b != nullptr ? purposes_of(side_b, *b, {}, side_b) : Purposes());
}

HeapDifference compare(const Side& side_a, const HeapView* a, const Side& side_b, const HeapView* b) {
  const Trace &trace_a = side_a.analysis.trace(), &trace_b = side_b.analysis.trace();
  const Trace& named_by = b != nullptr ? trace_b : trace_a;
  const Heap& heap = named_by.tables[(b != nullptr ? b : a)->history.heap];
  HeapDifference result{
      .name = named_by.tables[heap.name], .device = heap.device, .a = state_of(trace_a, a), .b = state_of(trace_b, b)};
  result.is_by_size = lacks_stacks(result.a, result.b, &trace_a == &trace_b);
  const std::vector<StackPair> pairs = result.is_by_size ? std::vector<StackPair>() : pairs_of(trace_a, a, trace_b, b);
  result.sites =
      result.is_by_size ? changes_by_size(side_a, result.a, side_b, result.b) : changes_by_stack(pairs, a, b);
  std::sort(result.sites.begin(), result.sites.end(), more_important);
  result.categories = category_changes(side_a, a, side_b, b, pairs);
  if (result.is_by_size)
    for (CategoryChange& change : result.categories)
      change = {.category = change.category, .a = change.a, .b = change.b, .place = {}};
  result.recomputes_a = a != nullptr && a->recomputes;
  result.recomputes_b = b != nullptr && b->recomputes;
  if (a != nullptr && b != nullptr) {
    if (a->phase != b->phase) result.common_phase = common_phase(*a, *b);
    const bool are_alike = a->steps.kind() == b->steps.kind();
    const std::size_t steps = are_alike ? std::min(a->step_peaks.size(), b->step_peaks.size()) : 0;
    for (std::size_t s = 0; s < steps; ++s) result.steps.push_back({a->step_peaks[s], b->step_peaks[s]});
  }
  return result;
}

/// The view of the corresponding heap; null if none is left.
const HeapView* counterpart(const Tables& tables, const HeapView& view, const Tables& others, const DeviceMap& devices,
                            std::span<const HeapView* const> candidates, bool same_name) {
  const Heap& heap = tables[view.history.heap];
  const auto device = devices.find(heap.device);
  if (device == devices.end()) return nullptr;
  for (const HeapView* candidate : candidates) {
    const Heap& other = others[candidate->history.heap];
    if (device->second == other.device && heap.level == other.level &&
        (!same_name || tables[heap.name] == others[other.name]))
      return candidate;
  }
  return nullptr;
}

/// Pairs the n-th with the n-th, and removes them.
void pair_in_order(std::set<std::int32_t>& a, std::set<std::int32_t>& b, DeviceMap& pairs) {
  while (!a.empty() && !b.empty()) {
    pairs[*a.begin()] = *b.begin();
    a.erase(a.begin());
    b.erase(b.begin());
  }
}

}  // namespace

Devices devices_of(const Tables& tables, std::span<const HeapHistory> histories) {
  Devices devices;
  for (const HeapHistory& history : histories) {
    const Heap& heap = tables[history.heap];
    devices.all.insert(heap.device);
    if (heap.level == Level::framework) devices.used_by_frameworks.insert(heap.device);
  }
  return devices;
}

DeviceMap match_devices(const Devices& a, const Devices& b, const DeviceMap& given) {
  constexpr std::int32_t host = -1;
  DeviceMap pairs = given;
  pairs[host] = host;
  for (const auto kind : {&Devices::used_by_frameworks, &Devices::all}) {
    std::set<std::int32_t> left_a = a.*kind, left_b = b.*kind;
    for (const auto& [of_a, of_b] : pairs) {
      left_a.erase(of_a);
      left_b.erase(of_b);
    }
    if (left_a.size() != left_b.size()) {
      for (const std::int32_t device : std::set(left_a)) {
        if (left_b.erase(device) == 0) continue;
        left_a.erase(device);
        pairs[device] = device;
      }
    }
    pair_in_order(left_a, left_b, pairs);
  }
  return pairs;
}

Result<std::vector<HeapDifference>> difference(const Side& a, const Side& b, const DeviceMap& given) {
  // A future hands on that memory ran out, and waits for its thread if it ran out here.
  auto beside = std::async(std::launch::async, [&] { return views_of(a); });
  const Result<std::vector<HeapView>> views_b = views_of(b);
  const Result<std::vector<HeapView>> views_a = beside.get();
  const Trace &trace_a = a.analysis.trace(), &trace_b = b.analysis.trace();
  const Devices devices_a = devices_of(trace_a.tables, a.analysis.histories()),
                devices_b = devices_of(trace_b.tables, b.analysis.histories());
  for (const auto& [of_a, of_b] : given) {
    const bool known_a = devices_a.all.contains(of_a);
    if (known_a && devices_b.all.contains(of_b)) continue;
    return Error{.what = std::string(known_a ? "the second" : "the first") + " trace has no device " +
                         std::to_string(known_a ? of_b : of_a),
                 .where = std::to_string(of_a) + "=" + std::to_string(of_b)};
  }
  if (!views_a) return views_a.error();
  if (!views_b) return views_b.error();
  const DeviceMap devices = match_devices(devices_a, devices_b, given);

  std::vector<const HeapView*> left;
  for (const HeapView& view : *views_b) left.push_back(&view);
  std::vector<const HeapView*> partner(views_a->size());
  for (const bool same_name : {true, false}) {
    for (std::size_t i = 0; i < partner.size(); ++i) {
      if (partner[i] != nullptr) continue;
      partner[i] = counterpart(trace_a.tables, (*views_a)[i], trace_b.tables, devices, left, same_name);
      std::erase(left, partner[i]);
    }
  }
  std::vector<HeapDifference> result;
  for (std::size_t i = 0; i < partner.size(); ++i) result.push_back(compare(a, &(*views_a)[i], b, partner[i]));
  for (const HeapView* view : left) result.push_back(compare(a, nullptr, b, view));
  return result;
}

}  // namespace memreel
