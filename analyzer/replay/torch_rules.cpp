// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/torch_rules.h"

#include <algorithm>
#include <array>

namespace memreel {
namespace {

/// Frees that only lack their request are complete enough: they count from their completion on, as for the allocator.
constexpr EventKinds known_without{EventKind::free_requested};

/// PyTorch's allocator reported blocks to its profiler, and nothing else is known.
bool knows_blocks_only(const Trace& trace) {
  for (std::uint32_t h = 1; h < trace.tables.heaps.size(); ++h)
    if (is_torch(trace, HeapId{h}) && !trace.tables.heaps[h].observes_completion) return true;
  return false;
}

}  // namespace

bool is_torch(const Tables& tables, HeapId heap) { return is_torch_heap(tables, heap); }

bool is_torch(const Trace& trace, HeapId heap) { return is_torch(trace.tables, heap); }

bool is_torch(const Trace& trace, const Prepared& heap) { return is_torch(trace, heap.heap); }

bool is_recording(const Header& header) { return header.source == "cupti" || header.source == "interpose"; }

bool is_recording(const Trace& trace) { return is_recording(trace.header); }

std::string why_not_reproducible(const Trace& trace, const Prepared& heap) {
  const Losses& losses = trace.losses;
  const bool from_start = !heap.initial;
  if (losses.history_overflowed && from_start) return "the history overflowed its ring: its beginning is lost";
  if (losses.folded_events > 0 && from_start)
    return "the history is a flight recorder's: " + counted(losses.folded_events, "older event") +
           (losses.folded_events == 1 ? " is" : " are") +
           " summed up, and how the allocations live then were placed is unknown";
  if (losses.skipped == all_of_a_history()) return "the snapshot holds one instant, and no history";
  if (is_no_history(losses.skipped)) return "the snapshots of a series hold instants, and no history";
  if (!losses.skipped.empty() && losses.skipped != known_without)
    return "the recorder was told to skip events that a replay needs: " + losses.skipped.text();
  if (from_start && (losses.began_late || losses.preexisting_allocations > 0))
    return "the history began late: " + counted(losses.preexisting_allocations, "allocation") +
           (losses.preexisting_allocations == 1 ? " is" : " are") +
           " older than it, and how they were placed is unknown";
  if (losses.ring_full > 0)
    return counted(losses.ring_full, "event") + (losses.ring_full == 1 ? " was" : " were") + " lost while recording";
  if (is_recording(trace) && losses.hook_refused > 0)
    return counted(losses.hook_refused, "call") + " could not be observed while recording";
  if (is_recording(trace) && knows_blocks_only(trace))
    return "recorded by memreel, from outside the allocator: sizes are those of whole blocks, and pools and completion "
           "are not known (docs/frameworks.md says when they are)";
  if (!trace.read.intact()) return "the file is damaged: events are missing";
  return {};
}

bool states_release(std::span<const Prepared> heaps) {
  return std::ranges::all_of(heaps,
                             [](const Prepared& heap) { return TorchRelease::recorded(heap.settings).has_value(); });
}

std::string torch_releases(TorchRelease release) { return "PyTorch " + release.rules(); }

Result<TorchRules> torch_rules(const std::map<std::string, std::string>& settings, const std::string& asked) {
  TorchRules rules{.release = TorchSettings::recorded(settings).release};
  if (!asked.empty()) {
    const auto release = TorchRelease::parse(asked);
    if (!release)
      return Error{.what = "not a PyTorch release whose rules memreel knows: '" + asked + "'",
                   .where = "--torch-version",
                   .remedy = "name one from 2.1 on, e.g. 2.12"};
    rules = {.release = *release, .told = true, .text = torch_releases(*release) + ", as requested"};
    return rules;
  }
  rules.told = TorchRelease::recorded(settings).has_value();
  rules.text = torch_releases(rules.release) + (rules.told ? ", as stated by the snapshot" : "");
  return rules;
}

Result<TorchRules> torch_rules(const Trace& trace, std::span<const Prepared> heaps, const std::string& asked) {
  const auto heap = std::ranges::find_if(heaps, [&](const Prepared& each) { return is_torch(trace, each); });
  if (heap != heaps.end()) return torch_rules(heap->settings, asked);
  if (asked.empty()) return TorchRules{};
  return torch_rules({}, asked);
}

void set_torch_rules(std::span<PolicySpec> specs, const TorchRules& rules) {
  constexpr std::array<std::string_view, 3> policies{"torch", "torch.native", "torch.expandable"};
  if (rules.release == TorchRelease{}) return;
  const std::string key(TorchSettings::release_key);
  for (PolicySpec& spec : specs)
    if (std::ranges::find(policies, spec.name) != policies.end())
      spec.parameters.try_emplace(key, rules.release.text());
}

}  // namespace memreel
