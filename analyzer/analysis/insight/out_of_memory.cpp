// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/out_of_memory.h"

#include <map>
#include <tuple>

#include "analyzer/replay/engine/parallel.h"
#include "analyzer/replay/recorded_device.h"
#include "formats/model/quantity.h"
#include "formats/torch/settings.h"

namespace memreel {
namespace {

/// The largest gap of `map` for which `wanted(segment)`.
std::optional<GapMap> largest_gap(const HeapMap& map, auto wanted) {
  const HeapSegment* best = nullptr;
  for (const HeapSegment& segment : map.segments)
    if (segment.largest_free > 0_B && wanted(segment) && (best == nullptr || segment.largest_free > best->largest_free))
      best = &segment;
  if (best == nullptr) return std::nullopt;
  const std::span<const HeapBlock> blocks = map.blocks_of(*best);
  const auto is_largest = [&](const HeapBlock& block) {
    return block.use == BlockUse::free && block.size == best->largest_free;
  };
  const auto gap = static_cast<std::size_t>(std::ranges::find_if(blocks, is_largest) - blocks.begin());
  if (gap == blocks.size()) return std::nullopt;
  const std::size_t first = gap - std::min(gap, GapMap::beside);
  const auto around = blocks.subspan(first, std::min(blocks.size(), gap + GapMap::beside + 1) - first);
  return GapMap{.segment = *best,
                .strip = strip_of(blocks, best->address, best->end(), GapMap::strip_width),
                .blocks = {around.begin(), around.end()},
                .gap = gap - first};
}

/// What the pool can have had. The device's own report of free memory gives that exactly. If a limit refused, it lies
/// between what was held at some time and what was refused: assume the middle.
Bytes likely_capacity(const OutOfMemory& oom) {
  const Bytes most = *oom.capacity;
  if (oom.bounded && !oom.own_limit())
    return !oom.pool_maximum && oom.device_free && !oom.sample_age ? std::min(most, oom.reserved + *oom.device_free)
                                                                   : most;
  const Bytes least = std::min(oom.least_capacity, most);
  return least + Bytes{(most - least).count / 2};
}

/// Whether live memory and the request fit together into that.
bool would_fit(const OutOfMemory& oom) {
  const Bytes likely = likely_capacity(oom);
  return oom.live <= likely && oom.requested <= likely - oom.live;
}

OomVerdict verdict_of(const OutOfMemory& oom) {
  if (oom.requested > oom.device_total.value_or(largest_device)) return OomVerdict::larger_than_device;
  if (!oom.live_is_known) return OomVerdict::unknown;
  if (oom.level == Level::driver)
    return oom.device_free && oom.requested > *oom.device_free ? OomVerdict::lack_of_memory : OomVerdict::unknown;
  if (oom.capacity && !would_fit(oom)) return OomVerdict::lack_of_memory;
  if (oom.allocated == 0_B && oom.pending == 0_B && oom.free == 0_B) return OomVerdict::unknown;  // nothing in pieces
  if (oom.capacity) return OomVerdict::fragmentation;
  if (oom.reserved == 0_B) return OomVerdict::unknown;
  return oom.free >= oom.requested ? OomVerdict::fragmentation : OomVerdict::lack_of_memory;
}

double fragmentation_index(const OutOfMemory& oom) {
  if (oom.gaps == 0 || oom.requested == 0_B) return 0;
  const double in_requests = static_cast<double>(oom.free.count) / static_cast<double>(oom.requested.count);
  return std::max(0.0, 1 - (1 + in_requests) / static_cast<double>(oom.gaps));
}

/// Derives values from the state at the moment of the failure.
void look_at(const HeapMap& map, OutOfMemory& oom) {
  oom.live = map.requested + map.outside;
  oom.allocated = map.live + map.outside;
  oom.pending = map.pending;
  oom.reserved = map.reserved;
  oom.free = map.free();
  oom.unreleasable = map.unreleasable;
  oom.largest_free = map.largest_free();
  oom.gaps = static_cast<std::uint64_t>(
      std::ranges::count_if(map.blocks, [](const HeapBlock& block) { return block.use == BlockUse::free; }));
  for (const PoolStreamUse& use : pool_streams_of(map)) {
    if (use.pool_stream != oom.pool_stream) continue;
    oom.free_in_pool_stream = use.free();
    oom.largest_in_pool_stream = use.largest_free;
  }
  oom.waited_in_vain &= oom.largest_in_pool_stream >= oom.requested;
  oom.stranded = stranded_for(map, oom.pool_stream, oom.requested);
  oom.gap_in_pool_stream =
      largest_gap(map, [&](const HeapSegment& segment) { return segment.pool_stream == oom.pool_stream; });
  oom.largest_gap = largest_gap(map, [](const HeapSegment&) { return true; });
  if (oom.gap_in_pool_stream && oom.largest_gap && oom.gap_in_pool_stream->size() == oom.largest_gap->size())
    oom.largest_gap.reset();
}

/// The last recorded allocator settings of a heap.
std::map<std::string, std::string> settings_of(const Remedies& remedies, HeapId heap) {
  const auto found = std::ranges::find(remedies.heaps, heap, &Prepared::heap);
  return found == remedies.heaps.end() ? std::map<std::string, std::string>{} : found->settings;
}

/// Whether blocks became free directly before a failure, with nothing else between but releases.
bool waits(const Trace& trace, std::uint32_t event) {
  const HeapId heap = trace.tables[trace.events.origin(event)].heap;
  while (event-- > 0) {
    const EventKind kind = trace.events.kind(event);
    if (trace.tables[trace.events.origin(event)].heap != heap || kind == EventKind::segment_free ||
        kind == EventKind::segment_unmap)
      continue;
    return kind == EventKind::free_completed;
  }
  return false;
}

OutOfMemory request_of(const Trace& trace, const Incident& incident, const CapacityBounds& bounds,
                       const std::optional<DeviceFree>& device, const Remedies& remedies) {
  const Event event = trace.events[incident.event];
  const Origin& origin = trace.tables[event.origin];
  OutOfMemory oom{.event = incident.event,
                  .heap = origin.heap,
                  .level = trace.tables[origin.heap].level,
                  .refusals = incident.refusals,
                  .pool_stream = {.pool = origin.pool, .stream = origin.stream},
                  .requested = event.size,
                  .needed = event.size,
                  .capacity = bounds.most,
                  .least_capacity = bounds.least,
                  .bounded = bounds.by_device,
                  .device_total = bounds.device,
                  .by_program = bounds.by_program,
                  .at_maximum = event.value == refused_at_maximum,
                  .live_is_known = tells_live_memory(trace)};
  if (const auto free = free_when_failed(event.value)) {
    oom.device_free = free;
  } else if (device) {
    oom.device_free = device->free;
    oom.sample_age = device->age;
  }
  if (!is_torch_heap(trace.tables, origin.heap)) return oom;
  const TorchSettings settings = TorchSettings::recorded(settings_of(remedies, origin.heap));
  const Bytes rounded = settings.round(event.size);
  oom.pool_stream.small = TorchSettings::is_small(rounded);
  oom.in_private_pool = origin.pool != PoolId::default_pool;
  oom.waited_in_vain =
      !oom.in_private_pool && settings.max_split_size == TorchSettings::unlimited && waits(trace, incident.event);
  oom.needed = settings.segment_size(rounded);
  return oom;
}

/// Whether nothing was requested after the failure.
bool is_last(const Prepared& heap, std::uint64_t event) {
  for (std::size_t row = heap.count(); row-- > 0 && heap.event[row] > event;)
    if (heap.op[row] == Op::alloc) return false;
  return true;
}

/// Adds a request that nothing serves: how it fails tells how much is free.
Prepared with_probe(Prepared heap, std::uint32_t event) {
  heap.op.push_back(Op::alloc);
  heap.slot.push_back(heap.slot_count++);
  heap.pool_stream.push_back(heap.pool_stream.back());
  heap.size.push_back(largest_device);
  heap.event.push_back(event + 1);
  if (heap.keeps_addresses) heap.address.push_back({});
  return heap;
}

/// Events of all failed requests, by heap.
std::map<HeapId, std::vector<std::uint32_t>> failed_events(const Trace& trace) {
  std::map<HeapId, std::vector<std::uint32_t>> failures;
  for (std::uint32_t i = 0; i < trace.events.count(); ++i)
    if (trace.events.kind(i) == EventKind::alloc_failed)
      failures[trace.tables[trace.events.origin(i)].heap].push_back(i);
  return failures;
}

/// Whether other settings could have served it. If the verdict is lack of memory, they would only at a limit above the
/// real one.
bool may_have_survivors(const OutOfMemory& oom) {
  return oom.capacity.has_value() && oom.verdict == OomVerdict::fragmentation;
}

/// How far `remedy` serves `further`: the history, and the rest of the step or, if that is not known, a probe of what
/// is free. Where only refusals bound the capacity, assumes the middle, as for the verdict; but it may be less.
OutOfMemory::Served serve_further(const Remedy& remedy, const Prepared& further, DeviceModel device,
                                  const OutOfMemory& oom) {
  if (!oom.rest) {
    const std::optional<ReplayFailure> failure = replay_with(remedy, further, device).first_failure;
    const Bytes free = failure ? *oom.capacity + failure->free : 0_B;
    return {.reach = Reach::request, .spare = free - (failure ? std::min(free, failure->reserved) : 0_B)};
  }
  const Bytes likely = likely_capacity(oom), most = *oom.capacity;
  const auto fits_in = [&](Bytes capacity) {
    device.capacity = capacity;
    const ReplayResult result = replay_with(remedy, further, device);
    return result.events > 0 && !result.first_failure;
  };
  if (!fits_in(likely)) return {.reach = Reach::not_step};
  const Bytes unsure = likely == most ? 0_B : Bytes{(most - std::min(most, oom.least_capacity)).count / 3};
  const Bytes margin = std::min(likely, std::max(oom.rest->margin, unsure));
  const bool later = oom.rest->shows_later_steps() && fits_in(likely - margin);
  return {.reach = later ? Reach::later_steps : Reach::step};
}

/// Sorts what serves the request into survivors and others: a history that ends in its failure does not say what else
/// the program would have needed, unless earlier steps do.
void find_survivors(const Remedies& remedies, std::span<const std::uint32_t> failures, OutOfMemory& oom) {
  const auto event = static_cast<std::uint32_t>(oom.event);
  // The request must fail in a replay of what was recorded.
  if (remedies.is_torch && survives(remedies.baseline, oom.heap, event, failures)) return;
  std::vector<std::size_t> serving;
  for (std::size_t i = 0; i < remedies.tried.size(); ++i)
    if (survives(remedies.tried[i].outcome, oom.heap, event, failures)) serving.push_back(i);
  const auto heap = std::ranges::find(remedies.heaps, oom.heap, &Prepared::heap);
  if (heap == remedies.heaps.end() || !oom.is_last) {
    oom.survivors = std::move(serving);
    return;
  }
  const DeviceModel& device = remedies.devices[static_cast<std::size_t>(heap - remedies.heaps.begin())];
  const Prepared further =
      oom.rest ? with_rest(*heap, event, *oom.rest) : with_probe(with_request_served(*heap, event), event);
  std::vector<OutOfMemory::Served> served(serving.size());
  static_cast<void>(in_parallel(serving.size(), 0, [&](std::size_t i) {
    served[i] = serve_further(remedies.tried[serving[i]], further, device, oom);
    served[i].remedy = serving[i];
  }));
  for (const OutOfMemory::Served& one : served) {
    if (one.reach == Reach::later_steps)
      oom.survivors.push_back(one.remedy);
    else
      oom.serve_only.push_back(one);
  }
  std::ranges::stable_sort(oom.serve_only, std::ranges::greater{}, [&](const OutOfMemory::Served& one) {
    return std::tuple(remedies.is_usable(remedies.tried[one.remedy]), one.reach, one.spare.count);
  });
}

/// Finds what serves the most requests, and sorts the survivors.
void find_answer(const Remedies& remedies, OutOfMemories& ooms) {
  std::vector<std::uint64_t> served(remedies.tried.size());
  for (const OutOfMemory& oom : ooms.examined)
    for (const std::size_t i : oom.survivors) ++served[i];
  const auto order = [&](std::size_t i) {
    return std::tuple(served[i] < ooms.fragmented, !remedies.tried[i].outcome.best_known, -std::int64_t(served[i]));
  };
  for (OutOfMemory& oom : ooms.examined) std::ranges::stable_sort(oom.survivors, {}, order);
  for (std::size_t i = 0; i < served.size(); ++i) {
    if (served[i] == 0) continue;
    const auto best = [&](std::size_t j) { return std::pair(served[j], remedies.tried[j].outcome.best_known); };
    if (!ooms.answer || best(i) > best(ooms.answer->remedy)) ooms.answer = {.remedy = i, .served = served[i]};
  }
}

}  // namespace

std::string_view name_of(OomVerdict verdict) {
  switch (verdict) {
    case OomVerdict::larger_than_device:
      return "larger than the device";
    case OomVerdict::lack_of_memory:
      return "lack of memory";
    case OomVerdict::fragmentation:
      return "fragmentation";
    case OomVerdict::unknown:
      break;
  }
  return "unknown";
}

const OutOfMemory* OutOfMemories::of_event(std::uint64_t event) const {
  const auto found = std::ranges::find_if(examined, [&](const OutOfMemory& oom) {
    return std::ranges::any_of(oom.refusals, [&](const Refusal& refusal) {
      return std::ranges::find(refusal.events, event) != refusal.events.end();
    });
  });
  return found == examined.end() ? nullptr : &*found;
}

OutOfMemories judge_failures(const Trace& trace, const RecordedBlocks& blocks, const Remedies& remedies,
                             const std::function<const Activity&()>& activity, std::optional<Bytes> capacity) {
  Incidents incidents = find_incidents(trace);
  const std::uint64_t unsized = trace.losses.unsized_failures;
  OutOfMemories result{.count = incidents.failed.size() + unsized, .unsized = unsized, .retried = incidents.retried};
  if (incidents.failed.empty()) return result;
  if (incidents.failed.size() > OutOfMemories::most_examined) incidents.failed.resize(OutOfMemories::most_examined);
  std::vector<std::uint32_t> told;
  for (const Incident& incident : incidents.failed) told.push_back(incident.event);
  const std::vector<CapacityBounds> bounds = capacity_bounds(trace);
  const std::vector<std::optional<DeviceFree>> device = device_free_at(trace, told);
  for (std::size_t i = 0; i < told.size(); ++i) {
    const HeapId heap = trace.tables[trace.events.origin(told[i])].heap;
    result.examined.push_back(request_of(trace, incidents.failed[i], bounds[index(heap)], device[i], remedies));
  }
  for (OutOfMemory& oom : result.examined) {
    const auto heap = std::ranges::find(remedies.heaps, oom.heap, &Prepared::heap);
    if (heap != remedies.heaps.end()) oom.pool_maximum = stated_limit(*heap);
    const std::optional<Bytes> given = capacity ? capacity : oom.pool_maximum;
    if (!given || oom.level == Level::driver) continue;
    oom.capacity = given;
    oom.bounded = true;
    // The caller knows the card, and the failure what was free of it: the rest is held by others.
    if (capacity && oom.device_free && !oom.sample_age && !oom.device_total) oom.device_total = capacity;
  }
  std::vector<std::uint64_t> instants;
  for (const OutOfMemory& oom : result.examined) instants.push_back(oom.event);
  auto next = result.examined.begin();
  for_each_snapshot(trace, instants, [&](const HeapSnapshot& snapshot) {
    OutOfMemory& oom = *next++;
    look_at(heap_map(trace.tables, snapshot, oom.heap, blocks), oom);
    oom.verdict = verdict_of(oom);
    oom.fragmentation_index = fragmentation_index(oom);
    const auto heap = std::ranges::find(remedies.heaps, oom.heap, &Prepared::heap);
    oom.is_last = heap != remedies.heaps.end() && is_last(*heap, oom.event);
    if (oom.is_last && oom.verdict != OomVerdict::unknown)
      oom.rest = rest_of_step(trace, *heap, static_cast<std::uint32_t>(oom.event), activity);
  });
  result.fragmented =
      static_cast<std::uint64_t>(std::ranges::count(result.examined, OomVerdict::fragmentation, &OutOfMemory::verdict));
  return result;
}

void find_survivors(const Trace& trace, const Remedies& remedies, OutOfMemories& ooms) {
  if (ooms.examined.empty()) return;
  const std::map<HeapId, std::vector<std::uint32_t>> failures = failed_events(trace);
  for (OutOfMemory& oom : ooms.examined)
    if (may_have_survivors(oom)) find_survivors(remedies, failures.at(oom.heap), oom);
  find_answer(remedies, ooms);
}

namespace {

/// A context and its libraries take less.
constexpr Bytes largest_overhead = 2_GiB;
/// Steps of varying size differ by less.
constexpr double noticeable_growth = 1.5;

std::string arithmetic(const OutOfMemory& oom) {
  return text_of(oom.live) + " live and " + text_of(oom.requested) + " requested";
}

std::string of_all(const OutOfMemory& oom) {
  return oom.capacity ? ", of at most " + text_of(*oom.capacity) + " that this pool could have" : "";
}

std::string larger_than_device(const OutOfMemory& oom) {
  std::string text = "Larger than the device: " + text_of(oom.requested) + " requested, but ";
  if (oom.device_total) return text + "the device has " + text_of(*oom.device_total) + " in total.";
  text += "no device has that much. The trace does not say how much this one has";
  if (oom.device_free && !oom.sample_age) text += "; " + text_of(*oom.device_free) + " of it was free";
  return text + ".";
}

std::string lack_of_memory(const OutOfMemory& oom) {
  if (oom.level == Level::driver) {
    return text_of(oom.requested) + " requested from the driver, with " + text_of(*oom.device_free) +
           " of the device's " + text_of(*oom.device_total) + " free. The program held " + text_of(oom.live) + ".";
  }
  if (!oom.capacity) return arithmetic(oom) + ", with only " + text_of(oom.free) + " free in the pool.";
  if (oom.live > *oom.capacity || oom.requested > *oom.capacity - oom.live)
    return arithmetic(oom) + ", more than the " + text_of(*oom.capacity) +
           " that this pool could have at most, however they are placed.";
  if (oom.bounded && !oom.own_limit()) return arithmetic(oom) + ", more than the pool and the device had left.";
  return arithmetic(oom) + ". What the pool could have is known only from refusals: at least " +
         text_of(oom.least_capacity) + " and at most " + text_of(*oom.capacity) + ", probably too little.";
}

/// Who has the rest of the device.
std::string outside_text(const OutOfMemory& oom) {
  if (oom.own_limit() || oom.verdict != OomVerdict::lack_of_memory || oom.level == Level::driver) return {};
  if (const auto outside = oom.held_outside())
    return outside < largest_overhead ? ""
                                      : " " + text_of(*outside) + " of the device's " + text_of(*oom.device_total) +
                                            " are held outside the pool: by other processes, or by the program itself, "
                                            "as NCCL and contexts do.";
  if (!oom.capacity || !oom.bounded) return {};
  return " If the card has more than " + text_of(*oom.capacity) +
         ", someone else holds the rest: other processes, or NCCL and contexts of this one.";
}

/// What the step does compared with earlier ones.
std::string step_text(const OutOfMemory& oom) {
  if (!oom.rest) return {};
  std::string text;
  if (oom.rest->growth >= noticeable_growth)
    text += " At this point the step asks " + text_of(oom.rest->growth, 1) + " times what any of the " +
            text_of(oom.rest->rounds) + " before it did: its batch or its length grew.";
  if (oom.rest->more > 0_B) text += " By earlier steps, the rest of it needs another " + text_of(oom.rest->more) + ".";
  return text;
}

std::string not_known(const OutOfMemory& oom) {
  if (!oom.live_is_known)
    return text_of(oom.requested) + " requested. What was allocated then was not recorded, only that this failed.";
  if (oom.level != Level::driver)
    return arithmetic(oom) + ". The trace does not say how much memory there was in total.";
  const std::string asked =
      text_of(oom.requested) + " requested from the driver while the program held " + text_of(oom.live);
  if (!oom.device_free) return asked + ". The trace has no samples of the device.";
  return asked + ". By the last sample, the device had " + text_of(*oom.device_free) +
         " free: another program has taken it since, or a limit applies.";
}

/// What a pool requested from the driver for this request and did not get.
std::string what_the_driver_refused(const OutOfMemory& oom) {
  std::string text;
  for (std::size_t i = 1; i < oom.refusals.size(); ++i) {
    const Refusal& refusal = oom.refusals[i];
    const std::uint64_t times = refusal.events.size();
    text += " The driver refused the " + text_of(refusal.requested) + " that the pool requested" +
            (times == 1   ? ""
             : times == 2 ? ", twice"
                          : ", " + text_of(times) + " times") +
            ".";
  }
  return text;
}

std::string where_the_free_memory_was(const OutOfMemory& oom) {
  if (oom.gaps == 0) return " The pool had no free memory: all of it went to rounding and unsplit remainders.";
  std::string text = " The pool had " + text_of(oom.free) + " free in " + counted(oom.gaps, "block") +
                     ". The largest usable by this request has " + text_of(oom.largest_in_pool_stream);
  if (oom.largest_free > oom.largest_in_pool_stream)
    text += ", the largest on any stream or pool " + text_of(oom.largest_free);
  text += ".";
  if (oom.needed > oom.requested && oom.capacity && *oom.capacity >= oom.reserved)
    text += " A new segment would have taken " + text_of(oom.needed) + ", and " +
            text_of(*oom.capacity - oom.reserved) + " was left.";
  if (oom.unreleasable > 0_B)
    text += " " + text_of(oom.unreleasable) + " of the free memory is unreleasable: its segments have active blocks.";
  return text;
}

std::string who_else_has_it(const OutOfMemory& oom) {
  std::string text;
  if (oom.stranded.other_streams > 0_B)
    text += " " + text_of(oom.stranded.other_streams) + " is free in blocks large enough, but on other streams.";
  if (oom.stranded.other_pools > 0_B)
    text += " " + text_of(oom.stranded.other_pools) + " is free in blocks large enough, but in other pools.";
  if (oom.pending > 0_B)
    text += " " + text_of(oom.pending) + " is awaiting free: freed, but still used by another stream.";
  if (oom.waited_in_vain)
    text +=
        " A block that fits was awaiting free and became free when this request waited for it: PyTorch then asks only "
        "the device again, and an identical retry is served.";
  if (oom.pool_maximum && oom.reserved > 0_B)
    text += " Below its maximum of " + text_of(*oom.pool_maximum) + " the pool can still get " +
            text_of(*oom.pool_maximum - std::min(*oom.pool_maximum, oom.reserved)) +
            ", but in a block of its own: what it got at different times is not joined.";
  if (oom.in_private_pool)
    text += " For a private pool, inside use_mem_pool or a capture, PyTorch neither releases its cache nor retries.";
  return text;
}

}  // namespace

std::string explanation(const OutOfMemory& oom) {
  std::string text;
  switch (oom.verdict) {
    case OomVerdict::larger_than_device:
      text = larger_than_device(oom);
      break;
    case OomVerdict::lack_of_memory:
      text = "Lack of memory: " + lack_of_memory(oom);
      break;
    case OomVerdict::fragmentation:
      text = "Fragmentation: " + arithmetic(oom) + of_all(oom) + "." + where_the_free_memory_was(oom) +
             who_else_has_it(oom);
      break;
    case OomVerdict::unknown:
      text = "Unknown: " + not_known(oom);
      break;
  }
  if (oom.own_limit() && oom.verdict != OomVerdict::larger_than_device)
    text += " The device itself had " + text_of(*oom.device_free) +
            " free: the refusal came from a limit that the program set (a memory fraction).";
  if (oom.at_maximum)
    text += " By its log the pool could not grow: it was at its maximum, if one was set; else the device refused.";
  return text + outside_text(oom) + what_the_driver_refused(oom) + step_text(oom);
}

std::string reason_of(const OutOfMemory& oom) {
  if (oom.verdict == OomVerdict::unknown) return oom.at_maximum ? "the pool could not grow" : "";
  std::string text(name_of(oom.verdict));
  if (oom.rest && oom.rest->growth >= noticeable_growth)
    return text + ", " + text_of(oom.rest->growth, 1) + " times any earlier step";
  if (oom.verdict == OomVerdict::lack_of_memory && oom.own_limit()) return "the program's own limit";
  if (oom.verdict != OomVerdict::fragmentation) return text;
  if (oom.pool_maximum) return "below the pool's maximum";
  if (oom.waited_in_vain) return "its block was awaiting free";
  if (oom.in_private_pool) return "a private pool does not retry";
  return text;
}

std::string remedy_for_lack(const OutOfMemory& oom) {
  if (oom.own_limit()) return "raise the program's limit, the device had " + text_of(*oom.device_free) + " free";
  if (const auto outside = oom.held_outside(); outside && outside >= largest_overhead)
    return "free what others hold, " + text_of(*outside) + " of the device's " + text_of(*oom.device_total);
  if (oom.pool_maximum) return "raise the pool's maximum, " + text_of(*oom.pool_maximum);
  if (oom.at_maximum) return "raise the pool's maximum, if one is set; else hold less";
  const bool exceeds_alone = oom.capacity && oom.bounded && oom.requested > *oom.capacity;
  if (oom.level == Level::framework && oom.bounded && !oom.device_total && oom.capacity)
    return (exceeds_alone ? "ask for less" : "hold less") + std::string("; if the card has over ") +
           text_of(*oom.capacity) + ", others hold it";
  if (exceeds_alone) return "make the request smaller: it alone exceeds " + text_of(*oom.capacity);
  // Where only refusals bound it, the capacity may be far below that.
  if (!oom.capacity || !oom.bounded || oom.live + oom.requested <= *oom.capacity) return "the program must hold less";
  return "the program must hold " + text_of(oom.live + oom.requested - *oom.capacity) + " less";
}

std::string_view reservation_of(Reach reach) {
  switch (reach) {
    case Reach::not_step:
      return "not the rest of the step";
    case Reach::request:
      return "the rest is not recorded";
    case Reach::step:
      return "later steps may need more";
    case Reach::later_steps:
      break;
  }
  return "";
}

std::string survivor_text(const Remedies& remedies, const OutOfMemory& oom) {
  if (!oom.survivors.empty()) return remedies.tried[oom.survivors.front()].text;
  if (!oom.serve_only.empty()) {
    const OutOfMemory::Served& served = oom.serve_only.front();
    return remedies.tried[served.remedy].text + " (" + std::string(reservation_of(served.reach)) + ")";
  }
  if (oom.verdict != OomVerdict::fragmentation || remedies.tried.empty()) return "";
  return oom.capacity ? "none of those tried" : "not tried";
}

std::string strip_of(std::span<const HeapBlock> blocks, Address begin, Address end, std::size_t width) {
  const auto total = static_cast<double>((end - begin).count);
  std::string strip;
  auto block = blocks.begin();
  for (std::size_t i = 0; i < width; ++i) {
    const auto at = [&](std::size_t n) {
      return begin + Bytes{static_cast<std::uint64_t>(total * static_cast<double>(n) / static_cast<double>(width))};
    };
    const Address from = at(i);
    const Address to = i + 1 == width ? end : std::max(at(i + 1), from + 1_B);
    Bytes used;
    while (block != blocks.end() && block->end() <= from) ++block;
    for (auto b = block; b != blocks.end() && b->address < to; ++b)
      if (b->use != BlockUse::free) used += std::min(b->end(), to) - std::max(b->address, from);
    strip += used == 0_B ? "·" : used >= to - from ? "█" : "▒";
  }
  return strip;
}

}  // namespace memreel
