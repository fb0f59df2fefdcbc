// SPDX-License-Identifier: Apache-2.0
#include "analyzer/gate/measured.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "analyzer/describe/live_groups.h"
#include "analyzer/describe/own_frame.h"
#include "analyzer/replay/beginning.h"
#include "analyzer/replay/program_heaps.h"
#include "analyzer/replay/tune/outcome.h"
#include "formats/model/frame_kind.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel {

std::vector<std::string> what_is_missing(const Losses& losses, const ReadReport& read, Bytes file_size) {
  std::vector<std::string> missing;
  if (!read.later.empty())
    missing.push_back("a single run: the file holds " + text_of(std::uint64_t{read.later.size() + 1}) +
                      " recordings, one after the other");
  if (losses.history_overflowed) missing.emplace_back("the oldest events, overwritten in the recorder's ring buffer");
  if (losses.folded_events > 0)
    missing.push_back(text_of(losses.folded_events) + " older events, which the flight recorder has summed up");
  if (is_no_history(losses.skipped)) {
    missing.emplace_back(losses.skipped == all_of_a_history() ? "the history: it is a snapshot of one instant"
                                                              : "what happened between the snapshots of a series");
  } else {
    if (losses.began_late || losses.preexisting_allocations > 0)
      missing.emplace_back("the history before the recording began, when the program already held memory");
    if (!losses.skipped.empty())
      missing.push_back("events that the recorder was told to skip: " + losses.skipped.text());
  }
  if (losses.ring_full > 0) missing.push_back(counted(losses.ring_full, "event") + " that the recorder dropped");
  if (losses.hook_refused > 0) missing.push_back(counted(losses.hook_refused, "call") + " that could not be observed");
  if (losses.unsized_failures > 0)
    missing.push_back("the sizes of " + counted(losses.unsized_failures, "request") + " that failed");
  if (losses.unknown_actions > 0)
    missing.push_back(counted(losses.unknown_actions, "record") +
                      (losses.unknown_actions == 1 ? " that was" : " that were") +
                      " not read: of unknown kinds or other processes");
  if (losses.unmatched_frees > 0) missing.push_back("the allocations of " + counted(losses.unmatched_frees, "free"));
  if (read.unknown_packets > 0 || read.unknown_events > 0)
    missing.emplace_back("what a newer memreel wrote and this one can't read");
  const bool is_cut_off = read.truncated_bytes > 0 && read.damaged_packets == 0;
  if (!read.intact() && !is_cut_off) missing.emplace_back("the damaged parts of the file");
  if (!read.has_footer && file_size != 0_B)
    missing.emplace_back(is_cut_off ? "the end: the file is cut off, or the recorder was killed or is still writing"
                                    : "the end: the recorder was killed, or is still writing");
  return missing;
}

namespace {

/// The user's own frames, innermost first and as many as are shown; of all frames if there are none.
std::vector<std::string> own_stack(std::span<const FrameText> frames) {
  constexpr std::size_t most_frames = 4;
  const bool any = std::ranges::any_of(frames, [](const FrameText& frame) { return frame.owner == CodeOwner::user; });
  std::vector<std::string> texts;
  for (const FrameText& frame : frames)
    if (texts.size() < most_frames && (!any || frame.owner == CodeOwner::user)) texts.push_back(text_of(frame));
  return texts;
}

/// What functions hold, by own_stack().
using BytesOfStacks = std::map<std::vector<std::string>, Bytes>;
using SiteBytes = std::map<std::pair<std::string, std::string>, BytesOfStacks>;

void add(const Trace& trace, StackId stack, Bytes bytes, SiteBytes& sites) {
  const std::vector<FrameText> frames = frames_of(trace.tables, stack);
  const FrameText frame = own_frame(frames);
  const std::string_view file = names_operator(frame.kind) ? std::string_view() : frame.file;
  sites[{display_name(frame.kind, frame.function), std::string(base_name(file))}][own_stack(frames)] += bytes;
}

/// Adds what each function holds of `heap` after so many events.
void add_sites(const Trace& trace, const std::vector<Lifetime>& lives, HeapId heap, std::uint64_t events,
               SiteBytes& sites) {
  for (const LiveGroup& group : live_groups(trace, lives, {}, heap, events, GroupBy::stack))
    add(trace, group.stack, group.bytes, sites);
}

std::vector<SiteMetrics> largest(const SiteBytes& bytes) {
  std::vector<SiteMetrics> sites;
  for (const auto& [place, stacks] : bytes) {
    SiteMetrics& site = sites.emplace_back(SiteMetrics{.function = place.first, .file = place.second, .stack = {}});
    for (const auto& [stack, held] : stacks) {
      site.bytes += held;
      if (held <= site.of_stack) continue;
      site.of_stack = held;
      site.stack = stack;
    }
  }
  std::ranges::stable_sort(sites, std::ranges::greater(), &SiteMetrics::bytes);
  if (sites.size() > max_sites) sites.resize(max_sites);
  return sites;
}

/// What is judged: a device with all of its heaps, or one heap.
struct Subject {
  std::int32_t device = 0;
  std::vector<HeapId> heaps;
  Bytes peak_live, peak_held, live_at_peak_held;
  std::uint32_t peak_live_event = 0;
  std::uint64_t failures = 0;
  bool has_driver = false;
  bool is_sampled = false;  // peak_held is known from samples
  Bytes folded;             // live at least, before the events that a flight recorder keeps; 0: no more than since

  bool has(HeapId heap) const { return std::ranges::find(heaps, heap) != heaps.end(); }
};

/// Samples of what PyTorch's heap had reserved, where its segments are not recorded.
void learn_samples(const Analysis& analysis, Subject& subject) {
  for (const HeapHistory& history : analysis.histories()) {
    if (!history.is_sampled || !subject.has(history.heap)) continue;
    subject.is_sampled = true;
    if (history.peak_reserved <= subject.peak_held) continue;
    subject.peak_held = history.peak_reserved;
    subject.live_at_peak_held = history.live_at_peak_reserved;
  }
}

/// What was live before the events that are kept was reserved, too.
void learn_folded(const Trace& trace, Subject& subject) {
  for (const HeapId heap : subject.heaps) subject.folded = std::max(subject.folded, folded_peak(trace.folded, heap));
  if (subject.folded <= subject.peak_live) subject.folded = {};
  subject.peak_live = std::max(subject.peak_live, subject.folded);
  subject.peak_held = std::max(subject.peak_held, subject.folded);
  subject.live_at_peak_held = std::max(subject.live_at_peak_held, subject.folded);
}

/// Any policy needs as much, and no device that has less is large enough.
void raise_to_folded(const Subject& subject, const MeasureOptions& options, PolicyMetrics& metrics) {
  if (subject.folded == 0_B) return;
  metrics.unjudged_fragmentation = "fragmentation on device " + std::to_string(subject.device) +
                                   ", not judged: the peak is older than the events that are kept";
  metrics.peak_reserved = std::max(metrics.peak_reserved, subject.folded);
  if (metrics.late_range)
    for (Bytes* const end : {&metrics.late_range->first, &metrics.late_range->second})
      *end = std::max(*end, subject.folded);
  if (options.device && options.device->kind == DeviceModel::Kind::capacity &&
      subject.folded > options.device->capacity)
    metrics.exceeded = options.device->capacity;
}

std::vector<Subject> subjects_of(const Analysis& analysis, const std::string& only) {
  std::vector<Subject> subjects;
  const std::vector<std::int32_t> judged = judged_devices(analysis.devices());
  for (const DeviceMemory& device : analysis.devices()) {
    if (only.empty() && std::ranges::find(judged, device.device) == judged.end()) continue;
    Subject subject{.device = device.device, .heaps = {}};
    for (const DeviceHeap& heap : device.heaps)
      if (only.empty() || analysis.trace().tables[analysis.trace().tables[heap.heap].name] == only)
        subject.heaps.push_back(heap.heap);
    if (subject.heaps.empty()) continue;
    subject.has_driver = device.has_driver;
    if (only.empty()) {
      subject.peak_live = device.peak_live.live;
      subject.peak_live_event = device.peak_live.event;
      subject.peak_held = device.peak_held.held;
      subject.live_at_peak_held = device.peak_held.live;
      subject.failures = device.failures;
    } else {
      const auto history = std::ranges::find(analysis.histories(), subject.heaps.front(), &HeapHistory::heap);
      if (history == analysis.histories().end()) continue;
      subject.peak_live = history->peak_live;
      subject.peak_live_event = static_cast<std::uint32_t>(history->peak_live_event);
      const bool has_segments = history->peak_reserved > 0_B;
      subject.peak_held = has_segments ? history->peak_reserved : history->peak_live;
      subject.live_at_peak_held = has_segments ? history->live_at_peak_reserved : history->peak_live;
      subject.failures = history->failures;
    }
    learn_samples(analysis, subject);
    learn_folded(analysis.trace(), subject);
    subjects.push_back(std::move(subject));
  }
  return subjects;
}

/// The peak of each category at its own instant, over all of the subject's heaps.
void add_categories(const Analysis& analysis, const Subject& subject, std::map<Category, CategoryMetrics>& metrics) {
  const Trace& trace = analysis.trace();
  const Categories& categories = analysis.categories();
  std::array<Bytes, category_count> live{};
  std::map<Category, std::uint64_t> peak_events;
  const Events& events = trace.events;
  std::vector<char> is_of_subject(trace.tables.heaps.size());
  for (const HeapId heap : subject.heaps) is_of_subject[index(heap)] = 1;
  auto later = trace.read.later.begin();
  for (std::size_t i = 0; i < events.count(); ++i) {
    // What one recording still held says nothing of the next.
    for (; later != trace.read.later.end() && later->first_event == i; ++later) live.fill({});
    const AllocationId id = events.allocation(i);
    const bool is_more = events.kind(i) == EventKind::alloc;
    if (id == AllocationId::none || (!is_more && events.kind(i) != EventKind::free_requested)) continue;
    const std::uint32_t begin = trace.events.begin_of(id);
    if (is_of_subject[index(trace.tables[events.origin(begin)].heap)] == 0) continue;
    Bytes& of_category = live.at(static_cast<std::size_t>(categories.category(id)));
    of_category = is_more ? of_category + events.size(begin) : of_category - events.size(begin);
    if (!is_more) continue;
    const Bytes unknown = live.at(static_cast<std::size_t>(Category::unknown));
    for (auto& [category, peak] : metrics) {
      const Bytes now = live.at(static_cast<std::size_t>(category));
      peak.peak_with_unknown = std::max(peak.peak_with_unknown, category == Category::unknown ? now : now + unknown);
      if (now <= peak.peak) continue;
      peak.peak = now;
      peak_events[category] = i + 1;
    }
  }
  for (auto& [category, peak] : metrics) {
    Bytes most;
    for (const HeapId heap : subject.heaps) {
      const auto shares = category_shares(trace, analysis.lives(), categories, heap, peak_events[category]);
      const auto share = std::ranges::find(shares, category, &CategoryShare::category);
      if (share == shares.end() || share->bytes <= most) continue;
      most = share->bytes;
      const auto named = std::ranges::find_if(share->holders, [](const CategoryShare::Holder& holder) {
        return holder.label != no_stack_label && holder.label != preexisting_frame;
      });
      peak.place = named == share->holders.end() ? std::string() : named->label;
    }
  }
}

void add_leaks(const Analysis& analysis, const Subject& subject, DeviceMetrics& metrics, SiteBytes& sites) {
  const LeakReport& report = analysis.leaks();
  const Rounds* most = nullptr;  // of its heaps
  for (const HeapRounds& of : report.heaps)
    if (subject.has(of.heap) && (most == nullptr || most->count() < of.rounds.count())) most = &of.rounds;
  if (most != nullptr) metrics.steps = most->count();
  if (most != nullptr && !most->suffice()) metrics.leaks_not_judged = text_of(*most);
  if (report.unrecorded) metrics.leaks_not_judged = leaks_not_judged;
  for (const LeakFinding& finding : report.findings) {
    if (!accuses(finding.verdict) || !subject.has(finding.heap)) continue;
    metrics.leaked += finding.bytes;
    add(analysis.trace(), finding.stack, finding.bytes, sites);
  }
}

DeviceMetrics metrics_of(const Analysis& analysis, const Subject& subject, const MeasureOptions& options) {
  const Tables& tables = analysis.trace().tables;
  DeviceMetrics metrics{.device = subject.device, .peak_live = subject.peak_live, .has_driver = subject.has_driver};
  SiteBytes sites, leaks;
  for (const HeapId heap : subject.heaps) {
    metrics.heaps.push_back(tables[tables[heap].name]);
    if (subject.peak_live > 0_B && subject.folded == 0_B)
      add_sites(analysis.trace(), analysis.lives(), heap, subject.peak_live_event + 1, sites);
  }
  std::ranges::sort(metrics.heaps);
  if (options.leaks) add_leaks(analysis, subject, metrics, leaks);
  for (const Category category : options.categories) metrics.categories[category];
  if (!metrics.categories.empty()) add_categories(analysis, subject, metrics.categories);
  metrics.sites = largest(sites);
  metrics.leaks = largest(leaks);
  return metrics;
}

/// What of the memory at one instant PyTorch gives back before a request fails.
Bytes cached_at_instant(const Analysis& analysis, const Subject& subject) {
  Bytes cached;
  for (const Fragmentation& found : analysis.fragmentation())
    if (is_torch_heap(analysis.trace().tables, found.heap) && subject.has(found.heap))
      cached += found.at_peak.free() - std::min(found.at_peak.free(), found.at_peak.unreleasable);
  return cached;
}

PolicyMetrics recorded(const Subject& subject) {
  PolicyMetrics metrics{.policy = std::string(recorded_metrics),
                        .device = subject.device,
                        .peak_reserved = subject.peak_held,
                        .failed_allocations = subject.failures};
  if (subject.peak_held > 0_B)
    metrics.fragmentation_at_peak =
        1 - static_cast<double>(std::min(subject.live_at_peak_held, subject.peak_held).count) /
                static_cast<double>(subject.peak_held.count);
  return metrics;
}

/// As recorded, nothing says how its requests would have been served by a smaller device: only whether it has room.
void judge_capacity(const Analysis& analysis, const Subject& subject, Bytes capacity, bool is_instant,
                    PolicyMetrics& metrics) {
  if (subject.is_sampled && subject.peak_held > capacity && subject.peak_live <= capacity) {
    metrics.unjudged_capacity = "capacity of device " + std::to_string(subject.device) +
                                ", not judged: " + text_of(subject.peak_held) +
                                " were reserved, and the recording doesn't say what of it PyTorch could give back";
    return;
  }
  const Bytes cached = is_instant ? cached_at_instant(analysis, subject) : 0_B;
  if (metrics.peak_reserved - std::min(metrics.peak_reserved, cached) > capacity) metrics.exceeded = capacity;
}

/// What a replay of the settings that the program ran with reserves at its peak, where samples tell that the program
/// reserved something else: it then says nothing of other settings either.
std::optional<Bytes> missed_by_replay(const Analysis& analysis, std::span<const Prepared> heaps,
                                      const Subject& subject) {
  std::vector<Prepared> its;
  for (const Prepared& heap : heaps)
    if (subject.has(heap.heap)) its.push_back(heap);
  const auto policy = recorded_policy(analysis.trace(), its);
  if (!subject.is_sampled || its.empty() || !policy) return std::nullopt;
  const auto replayed = replay_devices(its, std::span(&*policy, 1), {.series_points = 0}, {});
  if (!replayed) return std::nullopt;
  Bytes peak;
  for (const DeviceReplay& replay : *replayed) peak = std::max(peak, replay.peak_reserved);
  return misses_peak(true, peak, subject.peak_held) ? std::optional(peak) : std::nullopt;
}

/// Replays of PyTorch's allocator that are known to differ from what the program did: of the settings that it ran with,
/// the recording tells the truth; those of others are not judged. Returns whether those that it ran with were replayed.
bool distrust(const Subject& subject, Bytes replayed, const std::optional<PolicySpec>& ran_with,
              std::vector<PolicyMetrics>& policies) {
  const auto is_of = [&](const PolicyMetrics& metrics) {
    return metrics.device == subject.device && metrics.policy.starts_with("torch.");
  };
  const std::size_t own = std::erase_if(policies, [&](const PolicyMetrics& metrics) {
    return is_of(metrics) && ran_with && metrics.policy == ran_with->text();
  });
  for (PolicyMetrics& metrics : policies)
    if (is_of(metrics))
      metrics.unjudged = metrics.policy + " on device " + std::to_string(subject.device) +
                         ", not judged: the program reserved " + text_of(subject.peak_held) +
                         ", and a replay of what it ran with " + text_of(replayed);
  return own > 0;
}

/// No policy goes on from what was held at a late start.
Result<std::vector<DeviceReplay>> replay_afresh(std::span<const Prepared> heaps, std::span<const PolicySpec> specs,
                                                const MeasureOptions& options, const Surroundings& around) {
  if (!any_late(heaps)) return replay_devices(heaps, specs, {.device = options.device}, around);
  const std::vector<Prepared> begun = begun_afresh(heaps);
  std::vector<DeviceReplay> all;
  for (const PolicySpec& spec : specs) {
    auto replays = replay_devices(keeps_free_memory(spec) ? begun : heaps, std::span(&spec, 1),
                                  {.device = options.device}, around);
    if (!replays) return std::move(replays).error();
    std::ranges::move(*replays, std::back_inserter(all));
  }
  return all;
}

/// Of the device's peak in each replay, for policies that keep free memory.
std::vector<BeginningRange> peak_ranges(std::span<const DeviceReplay> replays, std::span<const Prepared> heaps,
                                        std::span<const PolicySpec> specs, const MeasureOptions& options,
                                        const Surroundings& around) {
  std::vector<BeginningRange> ranges;
  for (const DeviceReplay& replay : replays) ranges.emplace_back(replay.peak_reserved);
  for_each_beginning(heaps, [&](std::span<const Prepared> begun) {
    const auto then = replay_devices(begun, specs, {.device = options.device, .series_points = 0}, around);
    for (std::size_t i = 0; then && i < ranges.size(); ++i)
      if (keeps_free_memory((*then)[i].policy)) ranges[i].add((*then)[i].peak_reserved);
  });
  return ranges;
}

}  // namespace

bool records_reserved(const Analysis& analysis, const Prepared& heap) {
  if (heap.level == Level::driver) return true;
  const auto history = std::ranges::find(analysis.histories(), heap.heap, &HeapHistory::heap);
  return history != analysis.histories().end() && history->peak_reserved > 0_B;
}

std::vector<std::int32_t> judged_devices(std::span<const DeviceMemory> devices) {
  std::vector<std::int32_t> judged;
  for (const DeviceMemory& device : devices)
    if (device.device >= 0) judged.push_back(device.device);
  if (judged.empty())
    for (const DeviceMemory& device : devices) judged.push_back(device.device);
  return judged;
}

Result<Measured> measure(const Analysis& analysis, std::span<const Prepared> heaps, std::span<const PolicySpec> specs,
                         const MeasureOptions& options) {
  Surroundings around;
  if (options.heap.empty()) around = surroundings_of(analysis.trace(), analysis.devices(), heaps);
  const Result<std::vector<DeviceReplay>> replays = replay_afresh(heaps, specs, options, around);
  if (!replays) return replays.error();
  const std::vector<BeginningRange> ranges = peak_ranges(*replays, heaps, specs, options, around);
  const std::vector<Subject> subjects = subjects_of(analysis, options.heap);
  const auto is_judged = [&](std::int32_t device) {
    return std::ranges::find(subjects, device, &Subject::device) != subjects.end();
  };
  Measured measured{.policies = {}, .devices = {}, .settings = {}, .is_instant = !has_history(analysis.trace())};
  const std::size_t of_each = specs.empty() ? 0 : replays->size() / specs.size();
  for (std::size_t i = 0; i < replays->size(); ++i) {
    const DeviceReplay& r = (*replays)[i];
    if (is_judged(r.device))
      measured.policies.push_back({.policy = specs[i / of_each].text(),
                                   .device = r.device,
                                   .peak_reserved = r.peak_reserved,
                                   .fragmentation_at_peak = r.fragmentation_at_peak,
                                   .failed_allocations = r.failed_allocations,
                                   .late_range = ranges[i].wide()});
  }
  for (const Subject& subject : subjects) {
    for (PolicyMetrics& metrics : measured.policies)
      if (metrics.device == subject.device) raise_to_folded(subject, options, metrics);
    measured.devices.push_back(metrics_of(analysis, subject, options));
    measured.failures += subject.failures;
    const bool is_replayed =
        !specs.empty() && std::ranges::find(heaps, subject.device, &Prepared::device) != heaps.end();
    const std::optional<Bytes> missed = is_replayed ? missed_by_replay(analysis, heaps, subject) : std::nullopt;
    const bool is_own_wrong =
        missed &&
        distrust(subject, *missed, recorded_policy(analysis.trace(), {heaps.begin(), heaps.end()}), measured.policies);
    if (!options.recorded && !is_own_wrong && is_replayed) continue;
    // Live memory is not what such a pool reserved.
    if (std::ranges::any_of(heaps, [&](const Prepared& heap) {
          return heap.device == subject.device && !records_reserved(analysis, heap);
        }))
      continue;
    PolicyMetrics metrics = recorded(subject);
    if (options.device && options.device->kind == DeviceModel::Kind::capacity)
      judge_capacity(analysis, subject, options.device->capacity, measured.is_instant, metrics);
    raise_to_folded(subject, options, metrics);
    measured.policies.push_back(std::move(metrics));
  }
  return measured;
}

}  // namespace memreel
