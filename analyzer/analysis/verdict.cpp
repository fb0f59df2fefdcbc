// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/verdict.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "analyzer/analysis/insight/kept_by.h"
#include "analyzer/analysis/insight/remedies.h"
#include "analyzer/analysis/owner_names.h"
#include "analyzer/describe/own_frame.h"
#include "formats/model/frame_kind.h"
#include "formats/model/lost_frees.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
#include "formats/torch/alloc_conf.h"

namespace memreel {
namespace {

/// A site that holds more than this share explains nothing.
constexpr double nearly_all = 0.9;

/// XLA's and TensorFlow's arenas of host memory reserve as many addresses as the host has memory, and use little of it.
bool is_host_arena(const Tables& tables, HeapId heap) {
  const std::string& name = tables[tables[heap].name];
  return tables[heap].device < 0 && (name.ends_with("_bfc") || name == "mklcpu");
}

bool is_framework(const Tables& tables, const HeapHistory& history) {
  return tables[history.heap].level == Level::framework;
}

Bytes weight_of(const HeapHistory& heap) { return std::max(heap.peak_reserved, heap.peak_live); }

std::string innermost_label(const Tables& tables, StackId stack) {
  const std::vector<FrameText> frames = frames_of(tables, stack);
  const auto python = std::ranges::find(frames, FrameKind::python, &FrameText::kind);
  if (python != frames.end()) return place_label(*python);
  const bool has_operator = std::ranges::any_of(frames, names_operator, &FrameText::kind);
  if (frames.empty() || frames.front().function.empty() || has_operator) return site_label(tables, stack);
  return text_of(frames.front());
}

std::vector<Holder> grouped(const std::map<StackId, Bytes>& stacks, const Tables& tables,
                            std::string (*label)(const Tables&, StackId)) {
  std::map<std::string, Bytes> groups;
  for (const auto& [stack, bytes] : stacks) groups[label(tables, stack)] += bytes;
  std::vector<Holder> holders;
  for (const auto& [name, bytes] : groups) holders.push_back({.label = name, .bytes = bytes, .mostly = {}});
  std::ranges::stable_sort(holders, std::ranges::greater{}, &Holder::bytes);
  return holders;
}

/// The innermost line of the program's own, which the user can change; else as site_label().
std::string own_label(const Tables& tables, StackId stack) {
  const std::vector<FrameText> frames = frames_of(tables, stack);
  const auto own = std::ranges::find(frames, CodeOwner::user, &FrameText::owner);
  return own == frames.end() ? site_label(tables, stack) : place_label(*own) + compiled_label(frames);
}

/// The least that the heap of the first of several failures held from then to the last, and at each of them.
Bytes least_live(const Trace& trace, std::span<const OutOfMemory> failures) {
  const Events& events = trace.events;
  Bytes least = std::ranges::min(failures, {}, &OutOfMemory::live).live, live = failures.front().live;
  for (std::uint64_t i = failures.front().event; i < failures.back().event; ++i) {
    if (trace.tables[events.origin(i)].heap != failures.front().heap) continue;
    if (events.kind(i) == EventKind::alloc) live += events.size(i);
    if (events.kind(i) == EventKind::free_requested) live -= std::min(live, events.size(i));
    least = std::min(least, live);
  }
  return least;
}

/// JAX's profiles of device memory are the same for every kind of device.
bool is_on_gpu(const Tables& tables, HeapId heap) { return !tables[tables[heap].name].starts_with("jax."); }

/// Null: not known.
const Rounds* rounds_of(const Findings& findings, HeapId heap) {
  if (findings.leaks == nullptr) return nullptr;
  const auto of = std::ranges::find(findings.leaks->heaps, heap, &HeapRounds::heap);
  return of == findings.leaks->heaps.end() ? nullptr : &of->rounds;
}

std::uint32_t steps_in(const Rounds& rounds) { return rounds.count() + (rounds.unfinished ? 1 : 0); }

std::uint32_t step_of(const Rounds& rounds, std::uint64_t event) {
  const auto done = std::ranges::lower_bound(rounds.ends, event) - rounds.ends.begin();
  return std::min(steps_in(rounds), static_cast<std::uint32_t>(done) + 1);
}

/// A GPU on which no framework has memory needs what the program takes from its driver: what is mapped of another
/// process's is not that.
bool stands_for_gpu(const Tables& tables, const HeapHistory& heap, std::span<const DeviceMemory> devices) {
  const auto on = std::ranges::find(devices, tables[heap.heap].device, &DeviceMemory::device);
  return on != devices.end() && on->device >= 0 && on->driver == heap.heap && on->peak_held.held >= weight_of(heap) &&
         std::ranges::none_of(on->heaps,
                              [&](const DeviceHeap& of) { return tables[of.heap].level == Level::framework; });
}

/// By GPU, the level of the heaps that say what it needs. The driver's do on one without others, if it is to be said:
/// from a tenth of what `deciding` has.
std::map<std::int32_t, Level> levels_of_devices(const Tables& tables, std::span<const HeapHistory> heaps,
                                                std::span<const DeviceMemory> devices, const HeapHistory& deciding) {
  std::map<std::int32_t, Level> levels;
  for (const HeapHistory& heap : heaps) {
    const auto [level, device] = std::pair(tables[heap.heap].level, tables[heap.heap].device);
    const bool is_large = weight_of(heap).count >= weight_of(deciding).count / 10;
    const bool counts = level == Level::framework || !is_framework(tables, deciding) ||
                        (is_large && stands_for_gpu(tables, heap, devices));
    if (device < 0 || !counts) continue;
    Level& of = levels.try_emplace(device, level).first->second;
    of = std::max(of, level);
  }
  return levels;
}

Verdict::Decides decides(const Trace& trace, const HeapHistory& heap, const Findings& findings) {
  const Tables& tables = trace.tables;
  Verdict::Decides decides{.heap = heap.heap,
                           .device = tables[heap.heap].device,
                           .peak_live = heap.peak_live,
                           .peak_reserved = heap.peak_reserved,
                           .folded_peak = folded_peak(trace.folded, heap.heap),
                           .peak_event = heap.peak_reserved > 0_B ? heap.peak_reserved_event : heap.peak_live_event};
  decides.devices = levels_of_devices(tables, findings.heaps, findings.devices, heap).size();
  decides.are_gpus = is_on_gpu(tables, heap.heap);
  if (decides.peak_event < trace.events.count()) decides.peak_time = since_start(trace, decides.peak_event);
  if (const Rounds* const rounds = rounds_of(findings, heap.heap); rounds != nullptr && steps_in(*rounds) > 1) {
    decides.steps = steps_in(*rounds);
    decides.step = step_of(*rounds, decides.peak_event);
    decides.live_step = step_of(*rounds, heap.peak_live_event);
  }
  if (findings.ooms == nullptr) return decides;
  decides.failed = findings.ooms->count;
  decides.failure_event = decides.peak_event;  // of those without a size nothing is known
  if (findings.ooms->examined.empty()) return decides;
  const auto failed = std::ranges::find(findings.ooms->examined, heap.heap, &OutOfMemory::heap);
  const OutOfMemory& first = failed == findings.ooms->examined.end() ? findings.ooms->examined.front() : *failed;
  decides.failure_event = first.event;
  decides.fragmented = static_cast<std::uint64_t>(
      std::ranges::count(findings.ooms->examined, OomVerdict::fragmentation, &OutOfMemory::verdict));
  decides.reason = reason_of(first);
  decides.site = site_label(tables, trace.events.stack(first.event));
  decides.requested = first.requested;
  decides.live = first.live;
  const std::vector<OutOfMemory>& examined = findings.ooms->examined;
  const auto grew = [](const OutOfMemory& before, const OutOfMemory& after) {
    return after.requested > before.requested;
  };
  if (examined.size() > 1 && std::ranges::adjacent_find(examined, grew) == examined.end())
    decides.held_through = least_live(trace, examined);
  return decides;
}

/// Of one instant, what the frameworks' other heaps on the device hold, the largest first: it is not in the figures of
/// the deciding one.
std::vector<Holder> heaps_beside(const Trace& trace, const HeapHistory& heap, std::span<const HeapHistory> heaps) {
  std::vector<Holder> beside;
  if (!is_instant(trace)) return beside;
  for (const HeapHistory& other : heaps)
    if (other.heap != heap.heap && is_framework(trace.tables, other) && other.end_live > 0_B &&
        trace.tables[other.heap].device == trace.tables[heap.heap].device)
      beside.push_back({.label = heap_name(trace.tables, other.heap), .bytes = other.end_live, .mostly = {}});
  std::ranges::stable_sort(beside, std::ranges::greater{}, &Holder::bytes);
  return beside;
}

/// What the program's other devices hold when the request fails, or at the peak that is named.
std::vector<Verdict::Other> others(const Trace& trace, const Verdict& verdict, const Findings& findings) {
  const std::span<const HeapHistory> heaps = findings.heaps;
  const Verdict::Decides& decides = *verdict.decides;
  if (decides.devices < 2) return {};
  const auto deciding = std::ranges::find(heaps, decides.heap, &HeapHistory::heap);
  const std::map<std::int32_t, Level> levels = levels_of_devices(trace.tables, heaps, findings.devices, *deciding);
  std::map<std::int32_t, Bytes> live;
  for (const auto& [device, level] : levels)
    if (device != decides.device) live[device];
  std::uint64_t last = verdict.device ? verdict.device->event : decides.peak_event;
  if (findings.ooms != nullptr && !findings.ooms->examined.empty()) last = decides.failure_event;
  if (!has_history(trace)) last = trace.events.count();  // all of one instant
  const Events& events = trace.events;
  for (std::uint64_t i = 0; i <= last && i < events.count(); ++i) {
    if (events.allocation(i) == AllocationId::none) continue;
    const Heap& of = trace.tables[trace.tables[events.origin(i)].heap];
    const auto device = live.find(of.device);
    if (device == live.end() || of.level != levels.at(of.device)) continue;
    if (events.kind(i) == EventKind::alloc) device->second += events.size(i);
    if (events.kind(i) == EventKind::free_requested) device->second -= events.size(i);
  }
  std::vector<Verdict::Other> others;
  for (const auto& [device, bytes] : live) others.push_back({.device = device, .live = bytes});
  return others;
}

/// What places with the verdict sawtooth hold at the live peak, which may be far more than at the end.
void find_bursts(const Trace& trace, const LeakReport& report, const HeapHistory& heap, Verdict::Leaks& leaks) {
  std::map<StackId, Bytes> held;
  for (const LeakFinding& finding : report.findings)
    if (finding.verdict == LeakVerdict::sawtooth && finding.heap == heap.heap) held[finding.stack] = {};
  if (held.empty()) return;
  for (std::uint64_t i = 0; i <= heap.peak_live_event && i < trace.events.count(); ++i) {
    const EventKind kind = trace.events.kind(i);
    if (kind != EventKind::alloc && kind != EventKind::free_requested) continue;
    const AllocationId allocation = trace.events.allocation(i);
    if (allocation == AllocationId::none) continue;
    const std::uint32_t begin = trace.events.begin_of(allocation);
    const auto place = held.find(trace.events.stack(begin));
    if (place == held.end() || trace.tables[trace.events.origin(begin)].heap != heap.heap) continue;
    const Bytes size = trace.events.size(begin);
    if (kind == EventKind::alloc)
      place->second += size;
    else
      place->second -= std::min(size, place->second);
  }
  for (const auto& [stack, bytes] : held) leaks.in_bursts += bytes;
  const auto most = std::ranges::max_element(held, {}, [](const auto& place) { return place.second; });
  leaks.burst_site = site_label(trace.tables, most->first);
  if (leaks.in_bursts < Bytes{heap.peak_live.count / 10}) leaks.in_bursts = {};
}

std::optional<Verdict::Leaks> leaks_of(const Trace& trace, const LeakReport& report) {
  if (report.unrecorded) return Verdict::Leaks{.not_judged = std::string(leaks_not_judged), .unrecorded = true};
  if (report.heaps.empty()) return std::nullopt;
  Verdict::Leaks leaks;
  const auto most = std::ranges::max_element(report.heaps, {}, [](const HeapRounds& h) { return h.rounds.count(); });
  leaks.steps = most->rounds.count();
  if (!most->rounds.suffice() && report.causes.empty()) leaks.not_judged = text_of(most->rounds);
  leaks.causes = report.causes.size();
  leaks.suspected = true;
  leaks.on_host = !report.causes.empty();
  if (!report.causes.empty()) leaks.unit = report.causes.front().unit;
  for (const LeakCause& cause : report.causes) {
    leaks.bytes += cause.bytes;
    if (cause.unit == leaks.unit) leaks.growth_bytes_per_step += cause.growth_bytes_per_step;
  }
  for (const LeakFinding& finding : report.findings)
    if (finding.verdict == LeakVerdict::leak) leaks.suspected = false;
  for (const LeakFinding& finding : report.findings)
    if (accuses(finding.verdict) && trace.tables[finding.heap].device >= 0) leaks.on_host = false;
  if (!report.causes.empty()) leaks.site = place_of(trace.tables, report.causes.front());
  return leaks;
}

/// A leak's holder may be unknown; then no other is named in its place.
std::optional<Verdict::KeptBy> kept_by(const Trace& trace, const LeakReport* leaks) {
  if (trace.python_holders.rows.empty()) return std::nullopt;
  const auto named = [](const PythonHolder* holder, bool is_leak) -> std::optional<Verdict::KeptBy> {
    if (holder == nullptr) return std::nullopt;
    return Verdict::KeptBy{
        .text = holder->text, .growth = growth_words(*holder), .bytes = holder->bytes, .is_leak = is_leak};
  };
  if (leaks == nullptr || leaks->causes.empty()) return named(&trace.python_holders.rows.front(), false);
  std::vector<AllocationId> leaked;
  for (const LeakFinding& finding : leaks->findings)
    if (finding.cause == 0) leaked.insert(leaked.end(), finding.allocations.begin(), finding.allocations.end());
  return named(holder_of(trace, leaked), true);
}

/// "Node, dict" of "reference cycle of Node, dict, waiting for gc.collect()".
std::string classes_of_cycles(const PythonHolders& holders) {
  constexpr std::string_view before = "reference cycle of ", after = ", waiting";
  const auto row = std::ranges::find(holders.rows, reference_cycle, &PythonHolder::kind);
  if (row == holders.rows.end() || !row->text.starts_with(before)) return {};
  return row->text.substr(before.size(), row->text.rfind(after) - before.size());
}

/// A pool that a CUDA graph created for itself (c10/cuda/MemPool.cpp).
bool is_of_graph(const Pool& pool) { return !pool.inferred && pool.key_high != 0 && pool.key_low == 0; }

/// What more than half of the unused memory at the peak is: awaiting free, in private pools, on other streams.
void find_cause(const Tables& tables, const Fragmentation& found, Verdict::Fragments& fragments) {
  const FragmentationPoint& peak = found.at_peak;
  const auto most = [&](Bytes part) {
    return part > peak.reserved - peak.allocated - std::min(part, peak.reserved - peak.allocated);
  };
  if (most(peak.pending)) {
    fragments.cause = text_of(peak.pending) + " awaiting free";
    fragments.cause_site = found.awaiting.label;
    return;
  }
  std::set<std::uint32_t> pools, streams;
  bool are_graphs = true;
  Bytes in_pools, on_streams;
  for (const PoolStreamUse& use : found.pool_streams) {
    const bool is_private = use.pool_stream.pool != PoolId::default_pool;
    if (is_private) {
      pools.insert(index(use.pool_stream.pool));
      are_graphs &= is_of_graph(tables[use.pool_stream.pool]);
      in_pools += use.free();
    } else if (use.pool_stream.stream != (found.growth ? found.growth->pool_stream.stream : StreamId::default_stream)) {
      streams.insert(index(use.pool_stream.stream));
      on_streams += use.free();
    }
  }
  if (most(in_pools))
    fragments.cause =
        text_of(in_pools) + " in " +
        (are_graphs ? counted(pools.size(), "CUDA graph") + (pools.size() == 1 ? "'s pool" : "' own pools")
                    : counted(pools.size(), "private pool"));
  else if (most(on_streams))
    fragments.cause = text_of(on_streams) + " of it on " + counted(streams.size(), "other stream");
}

std::optional<Verdict::Fragments> fragments_of(const Trace& trace, const std::vector<Fragmentation>& heaps,
                                               const HeapHistory& heap, const OutOfMemories* ooms) {
  const auto found = std::ranges::find(heaps, heap.heap, &Fragmentation::heap);
  if (found == heaps.end() && heap.is_sampled)
    return Verdict::Fragments{.reserved = heap.peak_reserved,
                              .allocated = heap.live_at_peak_reserved,
                              .share = 1 - share_of(heap.live_at_peak_reserved, heap.peak_reserved)};
  if (found == heaps.end()) return std::nullopt;
  const FragmentationPoint& peak = found->at_peak;
  Verdict::Fragments fragments{.reserved = peak.reserved,
                               .allocated = peak.allocated,
                               .requested = peak.requested,
                               .unreleasable = peak.unreleasable,
                               .site = found->sites.empty() ? "" : found->sites.front().label,
                               .share = peak.fragmentation(),
                               .inherited = has_history(trace) && !found->growth,
                               .most_used = std::max(peak.allocated, heap.peak_live)};
  if (fragments.inherited && found->at_start.free() > found->at_start.unreleasable &&
      is_torch_heap(trace.tables, heap.heap))
    fragments.releasable = saved_by_release(trace, heap.heap);
  find_cause(trace.tables, *found, fragments);
  if (is_torch_heap(trace.tables, heap.heap)) {
    const Bytes cached = peak.free() - std::min(peak.free(), peak.unreleasable);
    if (fragments.cause.empty()) fragments.cached = cached;
    if (!has_history(trace)) fragments.releasable = cached;
  }
  if (ooms == nullptr) return fragments;
  const auto failure = std::ranges::find(ooms->examined, OomVerdict::fragmentation, &OutOfMemory::verdict);
  if (failure != ooms->examined.end()) {
    fragments.free_at_failure = failure->free;
    fragments.largest_at_failure = failure->largest_in_pool_stream;
  }
  return fragments;
}

/// By library, if one of them has a pool whose allocations the driver's calls don't show; otherwise without parts.
Holders holders_by_pool(const Trace& trace, const std::vector<Lifetime>& lives, const HeapHistory& heap) {
  std::map<std::string, Bytes> libraries;
  Holders holders{.by = "library"};
  for (const LiveGroup& group : live_groups(trace, lives, {}, heap.heap, heap.peak_live_event + 1, GroupBy::library)) {
    libraries[library_name(group.label)] += group.bytes;
    holders.total += group.bytes;
  }
  if (!libraries.contains(std::string(xla_pool)) && !libraries.contains(std::string(tensorflow_pool))) return holders;
  for (const auto& [name, bytes] : libraries) holders.parts.push_back({.label = name, .bytes = bytes, .mostly = {}});
  std::ranges::stable_sort(holders.parts, std::ranges::greater{}, &Holder::bytes);
  return holders;
}

/// Without parts if the category is not known for at least half of the bytes.
Holders all_by_category(std::span<const CategoryShare> shares) {
  Holders holders{.by = "category"};
  Bytes known;
  for (const CategoryShare& share : shares) {
    holders.total += share.bytes;
    if (share.category != Category::unknown) known += share.bytes;
  }
  if (known == 0_B || known < holders.total - known) return holders;
  for (const CategoryShare& share : shares) {
    const CategoryShare::Holder& first = share.holders.front();
    const bool concentrated = first.bytes > share.bytes - first.bytes && first.label != no_stack_label;
    holders.parts.push_back({std::string(words_of(share.category)), share.bytes,
                             concentrated ? first.label : std::string(), is_known_by_size(share.evidence)});
  }
  return holders;
}

/// By category, if it is known for at least half of the bytes and not the same for nearly all; otherwise without parts.
Holders holders_by_category(std::span<const CategoryShare> shares) {
  Holders holders = all_by_category(shares);
  // What is older than the recording has no place in the program that would say more.
  if (!holders.parts.empty() && share_of(holders.parts.front().bytes, holders.total) > nearly_all &&
      !holders.parts.front().by_size && shares.front().evidence != Evidence::workspace_size)
    holders.parts.clear();
  return holders;
}

/// By explaining frame; at one instant by the innermost line of the program's own, unless one holds nearly everything.
/// If the explaining frame is the same for nearly everything, by category, which says more than what code of libraries
/// it calls; else by innermost frame if these distinguish parts.
Holders holders_by_stack(const Trace& trace, const std::vector<Lifetime>& lives, HeapId heap, std::uint64_t events,
                         std::span<const CategoryShare> shares) {
  std::map<StackId, Bytes> stacks;
  Holders holders;
  for (const Lifetime& life : lives) {
    if (!life.live_after(events) || trace.tables[trace.events.origin(life.begin)].heap != heap) continue;
    stacks[trace.events.stack(life.begin)] += trace.events.size(life.begin);
    holders.total += trace.events.size(life.begin);
  }
  const auto is_everything = [&](const std::vector<Holder>& parts) {
    return !parts.empty() && share_of(parts.front().bytes, holders.total) >= nearly_all;
  };
  holders.parts = grouped(stacks, trace.tables, site_label);
  // Without a history no phase tells what the modules of a library hold, but who called them.
  if (!has_history(trace) && !is_everything(holders.parts))
    if (auto own = grouped(stacks, trace.tables, own_label); !is_everything(own)) holders.parts = std::move(own);
  for (Holder& part : holders.parts) part.label = label_in(trace, std::move(part.label));
  if (!is_everything(holders.parts)) return holders;
  std::vector<Holder> innermost = grouped(stacks, trace.tables, innermost_label);
  if (innermost.size() <= holders.parts.size()) return holders;
  if (Holders by_category = all_by_category(shares); !by_category.parts.empty()) return by_category;
  if (!is_everything(innermost)) holders = {"function", std::move(innermost), holders.total};
  return holders;
}

}  // namespace

bool Holder::names_no_place() const { return label == no_stack_label || label.starts_with(preexisting_frame); }

Holders holders_at(const Trace& trace, const std::vector<Lifetime>& lives, HeapId heap, std::uint64_t events,
                   std::span<const CategoryShare> shares) {
  Holders holders = holders_by_category(shares);
  if (!holders.parts.empty()) return holders;
  holders = holders_by_stack(trace, lives, heap, events, shares);
  // Memory that no line is known for says less than the category.
  if (holders.parts.empty() || holders.parts.front().names_no_place())
    if (Holders by_category = all_by_category(shares); !by_category.parts.empty()) return by_category;
  return holders;
}

Holders holders_at_peak(const Trace& trace, const std::vector<Lifetime>& lives, const HeapHistory& heap,
                        std::span<const CategoryShare> shares, const KeptGraphs& graphs) {
  Holders holders;
  if (trace.tables[heap.heap].level == Level::driver && holders_by_category(shares).parts.empty())
    holders = holders_by_pool(trace, lives, heap);
  if (holders.parts.empty()) holders = holders_at(trace, lives, heap.heap, heap.peak_live_event + 1, shares);
  holders.graphs = graphs;
  return holders;
}

std::vector<DevicePart> parts_of(const Trace& trace, const std::vector<Lifetime>& lives, const DeviceInstant& instant) {
  std::vector<DevicePart> parts;
  const auto is_pool = [&](const HeapPart& part) { return trace.tables[part.heap].level == Level::framework; };
  for (const HeapPart& part : instant.parts)
    if (part.held != 0_B && is_pool(part))
      parts.push_back({.name = heap_name(trace.tables, part.heap), .heap = part.heap, .bytes = part.held});
  for (const HeapPart& part : instant.parts) {
    if (part.held == 0_B || is_pool(part)) continue;
    std::map<std::string, DevicePart> libraries;
    for (const LiveGroup& group : live_groups(trace, lives, {}, part.heap, instant.event + 1, GroupBy::library)) {
      DevicePart& library = libraries[library_name(group.label)];
      library.bytes += group.bytes;
      library.communicators += group.label.find(", communicator") == std::string::npos ? 0U : 1U;
    }
    for (auto& [name, library] : libraries) {
      // Regions in which the pool's profile shows no tensor: they are older.
      const auto pool = std::ranges::find(parts, name, &DevicePart::name);
      if (pool != parts.end() && (name == xla_pool || name == tensorflow_pool)) {
        pool->bytes += library.bytes;
        continue;
      }
      library.name = name;
      library.heap = part.heap;
      parts.push_back(std::move(library));
    }
  }
  std::ranges::stable_sort(parts, std::ranges::greater{}, &DevicePart::bytes);
  return parts;
}

std::optional<Verdict::Device> device_at_peak(const Trace& trace, const std::vector<Lifetime>& lives,
                                              const DeviceMemory& device, HeapId deciding,
                                              const std::function<Holders(std::uint64_t)>& holders_after) {
  constexpr std::uint64_t worth_saying = 10;
  const DeviceInstant& peak = device.peak_held;
  Bytes outside;
  bool has_framework = false;
  for (const HeapPart& part : peak.parts) {
    const bool is_driver = trace.tables[part.heap].level == Level::driver;
    has_framework |= !is_driver;
    if (is_driver) outside += part.held;
  }
  if (!has_framework || device.device < 0 || outside.count <= peak.held.count / worth_saying) return std::nullopt;
  Verdict::Device result{.held = peak.held, .event = peak.event, .parts = {}};
  for (const DevicePart& part : parts_of(trace, lives, peak)) {
    Holder holder{.label = part.name, .bytes = part.bytes, .mostly = {}};
    if (part.communicators > 1) holder.label += " in " + text_of(part.communicators) + " communicators";
    if (part.heap == deciding && trace.tables[part.heap].level == Level::framework)
      if (const Holders holders = holders_after(peak.event + std::uint64_t{1}); !holders.parts.empty())
        holder.mostly = holders.parts.front().label;
    result.parts.push_back(std::move(holder));
  }
  return result;
}

const HeapHistory* deciding_heap(const Tables& tables, std::span<const HeapHistory> heaps,
                                 std::span<const DeviceMemory> devices) {
  const HeapHistory* best = nullptr;
  std::map<std::int32_t, Bytes> most;  // by device
  for (const HeapHistory& heap : heaps)
    most[tables[heap.heap].device] = std::max(most[tables[heap.heap].device], weight_of(heap));
  const auto is_frameworks = [&](const HeapHistory& h) {
    const bool matters = h.failures > 0 || weight_of(h).count >= most[tables[h.heap].device].count / 10;
    return is_framework(tables, h) && matters && !is_host_arena(tables, h.heap);
  };
  const auto rank = [&](const HeapHistory& h) {
    return std::tuple(is_frameworks(h) || stands_for_gpu(tables, h, devices), h.failures > 0, weight_of(h),
                      h.peak_live);
  };
  for (const HeapHistory& heap : heaps)
    if (heap.allocations > 0 || heap.failures > 0)
      if (best == nullptr || rank(heap) > rank(*best)) best = &heap;
  return best;
}

Verdict make_verdict(const Trace& trace, const Findings& findings) {
  Verdict verdict;
  verdict.incomplete = !trace.read.intact() || trace.losses.ring_full > 0 || trace.losses.history_overflowed;
  verdict.lacks_frees = may_lack_frees(trace.losses, trace.read);
  verdict.unrecorded = !tells_live_memory(trace);
  verdict.is_instant = is_instant(trace);
  const HeapHistory* const heap = deciding_heap(trace.tables, findings.heaps, findings.devices);
  if (heap == nullptr) return verdict;
  verdict.decides = decides(trace, *heap, findings);
  verdict.device = findings.device;
  verdict.decides->beside = heaps_beside(trace, *heap, findings.heaps);
  if (!verdict.decides->beside.empty()) verdict.decides->heap_name = heap_name(trace.tables, heap->heap);
  if (const Rounds* const rounds = rounds_of(findings, heap->heap); verdict.device && verdict.decides->steps > 0)
    verdict.device->step = step_of(*rounds, verdict.device->event);
  verdict.others = others(trace, verdict, findings);
  if (findings.holders != nullptr && !findings.holders->parts.empty() && trace.header.source != sums_source)
    verdict.holders = *findings.holders;
  verdict.has_optimizer = std::ranges::any_of(
      trace.tables.marks, [&](const Mark& mark) { return trace.tables[mark.name].starts_with("Optimizer."); });
  if (findings.leaks != nullptr) verdict.leaks = leaks_of(trace, *findings.leaks);
  if (verdict.leaks && findings.resident) {
    verdict.leaks->host_growth_bytes_per_step = findings.resident->growth_bytes_per_step;
    verdict.leaks->host_grown = findings.resident->grown;
  }
  if (verdict.leaks && verdict.leaks->bytes == 0_B) find_bursts(trace, *findings.leaks, *heap, *verdict.leaks);
  if (verdict.leaks && verdict.leaks->in_bursts > 0_B) verdict.leaks->cycle = classes_of_cycles(trace.python_holders);
  verdict.kept_by = kept_by(trace, findings.leaks);
  if (findings.fragmentation != nullptr)
    verdict.fragmentation = fragments_of(trace, *findings.fragmentation, *heap, findings.ooms);
  // Of a peak that is older than the events, these tell neither who held it nor what was unused or can be saved.
  if (verdict.decides->folded_peak > heap->peak_live && verdict.decides->failed == 0) {
    verdict.holders.reset();
    verdict.fragmentation.reset();
    if (findings.remedies != nullptr)
      verdict.setting = Verdict::Setting{.is_torch = is_torch_heap(trace.tables, heap->heap),
                                         .instead = "the peak is older than the events that are kept"};
    return verdict;
  }
  const bool has_remedies =
      findings.remedies != nullptr &&
      std::ranges::find(findings.remedies->heaps, heap->heap, &Prepared::heap) != findings.remedies->heaps.end();
  if (has_remedies && (!misses_peak(trace.losses.began_late, findings.remedies->baseline_peak, heap->peak_reserved) ||
                       capacity_below_peak(*findings.remedies, *heap)))
    verdict.setting = setting_of(trace, *findings.remedies, *heap, findings.ooms, findings.exact);
  else if (findings.ooms != nullptr && !findings.ooms->examined.empty() && findings.ooms->examined.front().at_maximum)
    verdict.setting = Verdict::Setting{.instead = remedy_for_lack(findings.ooms->examined.front())};
  return verdict;
}

}  // namespace memreel
