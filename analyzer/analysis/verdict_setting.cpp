// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "analyzer/analysis/insight/remedies.h"
#include "analyzer/analysis/verdict.h"
#include "analyzer/replay/tune/search_space.h"
#include "formats/torch/alloc_conf.h"

namespace memreel {
namespace {

/// "max_split_size_mb:90", "without max_split_size_mb:90", "PyTorch's defaults".
std::string change_between(const std::string& before, const std::string& after) {
  if (after.empty()) return std::string(pytorch_defaults);
  const auto texts_in = [](const std::string& conf) {
    std::set<std::string> texts;
    for (const auto& [key, value] : settings_in(conf)) texts.insert(key + ":" + value);
    return texts;
  };
  const std::set<std::string> old_settings = texts_in(before), new_settings = texts_in(after);
  std::string added, removed;
  for (const std::string& setting : new_settings)
    if (!old_settings.contains(setting)) added += (added.empty() ? "" : ",") + setting;
  for (const std::string& setting : old_settings)
    if (!new_settings.contains(setting)) removed += (removed.empty() ? "" : ",") + setting;
  return added.empty() ? "without " + removed : added;
}

/// Whether the program shares device memory with other processes, or has pools of its own (torch.cuda.MemPool): what
/// expandable segments break (search_space.h).
bool may_share_memory(const Tables& tables) {
  constexpr std::array<std::string_view, 4> signs{"IpcGetMemHandle", "IpcOpenMemHandle", "custom_all_reduce",
                                                  "CuMemAllocator"};
  const auto is_sign = [&](const std::string& text) {
    return std::ranges::any_of(signs, [&](std::string_view sign) { return text.find(sign) != std::string::npos; });
  };
  const auto is_own = [](const Pool& pool) { return !pool.inferred && pool.key_high == 0 && pool.key_low != 0; };
  return std::ranges::any_of(tables.pools, is_own) || std::ranges::any_of(tables.strings, is_sign);
}

/// Whether a replay of the recorded settings, where it chooses the addresses of segments itself, needs as much and
/// fails as often as the recorded run did: PyTorch takes the lowest of free blocks of one size.
bool repeats_recording(const Remedies& remedies, const HeapHistory& heap) {
  const auto own = std::ranges::find(remedies.heaps, heap.heap, &Prepared::heap) - remedies.heaps.begin();
  const auto& replayed = remedies.baseline.heaps;  // of each of remedies.heaps
  if (std::ssize(replayed) <= own || replayed[static_cast<std::size_t>(own)].peak_reserved != heap.peak_reserved)
    return false;
  const auto failed = [](const Prepared& heap) {
    return static_cast<std::uint64_t>(std::ranges::count(heap.op, Op::alloc_failed));
  };
  return std::ranges::equal(remedies.baseline.heaps, remedies.heaps, {}, &ReplayResult::failed_allocations, failed);
}

std::string change_of(const Remedies& remedies, const Remedy& remedy) {
  if (!remedies.is_torch || remedy.kind != RemedyKind::setting) return remedy.text;
  return change_between(conf_of(remedies.baseline.policy), conf_of(remedy.outcome.policy));
}

void set_text(const Remedies& remedies, const Remedy& remedy, Verdict::Setting& setting) {
  setting.text = remedy.text;
  setting.change = change_of(remedies, remedy);
  if (remedies.is_torch && remedy.kind == RemedyKind::setting)
    setting.needs = needs_release(remedy.outcome.policy, precede_rules(remedies.heaps));
}

/// For a history that ends in its failure: what serves the request, and how far that goes.
void answer_failure(const Remedies& remedies, const OutOfMemory& oom, Verdict::Setting& setting) {
  setting.reach = oom.rest ? Reach::not_step : Reach::request;
  const auto usable = [&](std::size_t i) { return remedies.is_usable(remedies.tried[i]); };
  if (const auto best = std::ranges::find_if(oom.survivors, usable); best != oom.survivors.end()) {
    setting.reach = Reach::later_steps;
    return set_text(remedies, remedies.tried[*best], setting);
  }
  if (!oom.serve_only.empty() && usable(oom.serve_only.front().remedy)) {
    const OutOfMemory::Served& served = oom.serve_only.front();
    setting.reach = served.reach;
    setting.spare = served.spare;
    return set_text(remedies, remedies.tried[served.remedy], setting);
  }
  if (oom.verdict == OomVerdict::lack_of_memory) setting.instead = remedy_for_lack(oom);
}

std::optional<Verdict::Setting> best_of(const Remedies& remedies, const HeapHistory& heap, const OutOfMemories* ooms,
                                        bool exact) {
  Verdict::Setting setting{.is_torch = remedies.is_torch,
                           .peak = remedies.baseline_peak,
                           .exact = exact && repeats_recording(remedies, heap)};
  setting.failed_before = remedies.is_torch ? remedies.baseline.failures() : heap.failures;
  setting.failed = setting.failed_before;
  setting.live_share = remedies.baseline_peak == 0_B ? 0
                                                     : static_cast<double>(heap.peak_live.count) /
                                                           static_cast<double>(remedies.baseline_peak.count);
  const Remedy* best = nullptr;
  for (const Remedy& remedy : remedies.tried) {
    if (!remedies.is_usable(remedy)) continue;
    if (best == nullptr) best = &remedy;
    if (setting.tried++ > 0 && remedies.gives_back(remedy) <= setting.best_saved) continue;
    setting.best_saved = remedies.gives_back(remedy);
    setting.best_needs = remedies.is_torch && !remedy.outcome.every_release ? needs_release(remedy.outcome.policy) : "";
  }
  if (best == nullptr) return std::nullopt;
  // What was reserved is not recorded: nothing to save from.
  if (remedies.baseline_peak == 0_B && setting.failed_before == 0) return std::nullopt;
  setting.late_range = best->outcome.late_saved;
  const std::int64_t saved = best->outcome.saved_of(remedies.baseline_peak).first;
  if (setting.failed_before > 0 && !remedies.is_limited()) {
    setting.instead = "what the pool could have is unknown (--capacity)";
    return setting;
  }
  if (ooms != nullptr && !ooms->examined.empty() && ooms->examined.back().is_last) {
    answer_failure(remedies, ooms->examined.back(), setting);
    return setting;
  }
  const bool serves_more = best->outcome.failures() < setting.failed_before;
  const auto is_enough = [&](std::int64_t bytes) {
    return best->outcome.failures() == setting.failed_before && bytes > 0 &&
           static_cast<double>(bytes) >= worthwhile_share(best->outcome) * static_cast<double>(setting.peak.count);
  };
  const bool saves = is_enough(saved);
  // At a limit where requests failed, serving them counts, not a lower peak.
  if (setting.failed_before > 0 ? !serves_more : !saves) {
    // What is uncertain takes more to be worth a word.
    if (setting.late_range && is_enough(setting.late_range->second / 2)) setting.unsure = change_of(remedies, *best);
    return setting;
  }
  set_text(remedies, *best, setting);
  setting.saved = Bytes{static_cast<std::uint64_t>(std::max<std::int64_t>(0, saved))};
  setting.peak = setting.late_range ? remedies.baseline_peak - setting.saved : best->outcome.peak_reserved();
  setting.failed = best->outcome.failures();
  setting.failed_at_most = remedies.most_failures.value_or(setting.failed);
  return setting;
}

/// A side effect that this program may meet, in a few words.
std::string caution_of(const Tables& tables, const Verdict::Setting& setting) {
  if (setting.change.find("expandable_segments:True") == std::string::npos) return {};
  if (ran_on_windows(tables)) return "new on Windows";
  return may_share_memory(tables) ? "not with CUDA IPC" : "";
}

/// Whether the device refused memory, though no request failed for it: PyTorch released what it could, and asked again.
/// Where it collects garbage, or has a limit of its own, releases do not show that.
bool was_full(const Remedies& remedies, const HeapHistory& heap) {
  const auto own = std::ranges::find(remedies.heaps, heap.heap, &Prepared::heap) - remedies.heaps.begin();
  if (heap.failures > 0 || remedies.sets_fraction || own >= std::ssize(remedies.least_devices)) return false;
  const auto at = static_cast<std::size_t>(own);
  return remedies.least_devices[at].capacity < remedies.devices[at].capacity &&
         TorchSettings::recorded(remedies.heaps[at].settings).garbage_collection_threshold <= 0;
}

}  // namespace

std::optional<Bytes> capacity_below_peak(const Remedies& remedies, const HeapHistory& heap) {
  const auto own = std::ranges::find(remedies.heaps, heap.heap, &Prepared::heap) - remedies.heaps.begin();
  if (own >= std::ssize(remedies.devices)) return std::nullopt;
  const DeviceModel& device = remedies.devices[static_cast<std::size_t>(own)];
  if (device.kind != DeviceModel::Kind::capacity || device.capacity >= heap.peak_reserved) return std::nullopt;
  return device.capacity;
}

std::optional<Verdict::Setting> setting_of(const Trace& trace, const Remedies& remedies, const HeapHistory& heap,
                                           const OutOfMemories* ooms, bool exact) {
  std::optional<Verdict::Setting> setting = best_of(remedies, heap, ooms, exact);
  if (setting && setting->failed_before == 0 && trace.losses.unsized_failures > 0)
    return Verdict::Setting{.is_torch = setting->is_torch, .instead = "what the failed requests asked for is unknown"};
  if (!setting || !setting->is_torch) return setting;
  for (const Prepared& each : remedies.heaps)
    if (setting->misread.empty()) setting->misread = misread_settings(each.settings);
  if (!setting->misread.empty()) return setting;
  if (was_full(remedies, heap) && setting->failed_before == 0 && setting->text.empty() && setting->unsure.empty())
    return Verdict::Setting{.is_torch = true, .instead = "the device was full, and PyTorch emptied its cache to go on"};
  if (const auto capacity = capacity_below_peak(remedies, heap); capacity && setting->failed_before == 0)
    return Verdict::Setting{
        .is_torch = true,
        .instead = text_of(*capacity) + (remedies.began_late ? " probably serves every request, recorded late"
                                                             : " serves every request, by replay")};
  setting->caution = caution_of(trace.tables, *setting);
  return setting;
}

}  // namespace memreel
