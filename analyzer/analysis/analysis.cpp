// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/analysis.h"

#include <algorithm>

#include "analyzer/describe/live_groups.h"

namespace memreel {

const std::vector<Lifetime>& Analysis::lives() const {
  return lives_.get([&] { return lifetimes(trace_); });
}

const std::vector<HeapHistory>& Analysis::histories() const {
  return histories_.get([&] { return heap_histories(trace_); });
}

const std::vector<DeviceMemory>& Analysis::devices() const {
  return devices_.get([&] { return device_memory(trace_); });
}

const std::shared_ptr<const Activity>& Analysis::activity() const {
  if (options_.activity) return options_.activity;
  return activity_.get([&] { return std::make_shared<const Activity>(find_activity(trace_)); });
}

const Categories& Analysis::categories() const {
  if (known_categories_ != nullptr) return *known_categories_;
  return categories_.get([&] { return classify(trace_, lives(), activity()); });
}

Rounds Analysis::rounds(HeapId heap) const {
  return find_rounds(trace_, heap, [&]() -> const RoundsOfDevices& {
    return unmarked_rounds_.get([&] { return unmarked_rounds(trace_, *activity(), pools()); });
  });
}

Steps Analysis::steps(HeapId heap) const {
  Steps marked = find_steps(trace_, heap);
  if (!marked.ends.empty() && !marked.are_of_optimizers()) return marked;
  Steps shown = steps_of(rounds(heap), trace_.events.count());
  const bool take_turns = !shown.ends.empty() && shown.ends.size() < marked.ends.size();
  return marked.ends.empty() || take_turns ? shown : marked;
}

std::vector<std::uint32_t> Analysis::step_ends(const Prepared& heap) const {
  std::vector<std::uint32_t> next = steps(heap.heap).ends;
  for (std::uint32_t& event : next) ++event;
  return rows_after(heap, next);
}

const RecordedBlocks& Analysis::blocks() const {
  return blocks_.get([&] { return recorded_blocks(trace_); });
}

const LeakReport& Analysis::leaks() const {
  return leaks_.get([&] { return find_leaks(trace_, options_.leaks, [&](HeapId heap) { return rounds(heap); }); });
}

const std::vector<Fragmentation>& Analysis::fragmentation() const {
  return fragmentation_.get([&] { return find_fragmentation(trace_, histories(), lives(), blocks()); });
}

const std::vector<HeapPools>& Analysis::pools() const {
  return pools_.get([&] { return private_pools(trace_, *activity()); });
}

const std::optional<HostMemory>& Analysis::host_memory() const {
  return host_memory_.get([&] {
    return memreel::host_memory(trace_, histories(), [&] {
      const HeapHistory* const heap = deciding_heap(trace_.tables, histories(), devices());
      return heap == nullptr ? Rounds{} : rounds(heap->heap);
    });
  });
}

const std::vector<PoolError>& Analysis::pool_errors() const {
  return pool_errors_.get([&] { return memreel::pool_errors(trace_); });
}

const std::vector<MemorySummary>& Analysis::summaries() const {
  return summaries_.get([&] {
    // A long trace's requests take as much memory as its events.
    Result<std::vector<MemorySummary>> summaries =
        untried().as_recorded ? memory_summaries(trace_, untried().heaps) : memory_summaries(trace_);
    return summaries ? *std::move(summaries) : std::vector<MemorySummary>{};
  });
}

const Remedies& Analysis::untried() const {
  return remedies_.get([&] { return untried_remedies(trace_, options_.leaks.capacity); });
}

const OutOfMemories& Analysis::failures() const {
  return failures_.get([&] {
    const auto activity_if_needed = [&]() -> const Activity& { return *activity(); };
    return judge_failures(trace_, blocks(), untried(), activity_if_needed, options_.leaks.capacity);
  });
}

const Remedies& Analysis::remedies() const {
  untried();
  std::call_once(replayed_,
                 [&] { replay_remedies(trace_, histories(), remedies_.value(), remedy_rows, 0, options_.on_replay); });
  return remedies_.value();
}

const std::optional<StepPlan>& Analysis::step_plan() const {
  return step_plan_.get([&] { return plan_peak_step(remedies()); });
}

const OutOfMemories& Analysis::survivors() const {
  return survivors_.get([&] {
    OutOfMemories ooms = failures();
    find_survivors(trace_, remedies(), ooms);
    return ooms;
  });
}

Verdict Analysis::first_verdict(Sections sections) const {
  return verdict(sections, sections.ooms ? &failures() : nullptr, nullptr);
}

Verdict Analysis::verdict(Sections sections) const {
  const bool tries = sections.fragmentation || sections.ooms;
  return verdict(sections, sections.ooms ? &survivors() : nullptr, tries ? &remedies() : nullptr);
}

Verdict Analysis::verdict(Sections sections, const OutOfMemories* ooms, const Remedies* remedies) const {
  Findings findings{.heaps = histories(), .devices = devices(), .ooms = ooms, .remedies = remedies};
  Holders holders;
  const HeapHistory* const heap = deciding_heap(trace_.tables, histories(), devices());
  if (sections.live && heap != nullptr) {
    const std::uint64_t peak = heap->allocations == 0 ? 0 : heap->peak_live_event + 1;
    holders = holders_at_peak(trace_, lives(), *heap, category_shares(trace_, lives(), categories(), heap->heap, peak),
                              kept_graphs(trace_, lives(), categories(), heap->heap, peak));
    findings.holders = &holders;
    const auto device = std::ranges::find(devices(), trace_.tables[heap->heap].device, &DeviceMemory::device);
    const auto holders_after = [&](std::uint64_t events) {
      if (events == peak) return holders;
      return holders_at(trace_, lives(), heap->heap, events,
                        category_shares(trace_, lives(), categories(), heap->heap, events));
    };
    if (device != devices().end())
      findings.device = device_at_peak(trace_, lives(), *device, heap->heap, holders_after);
  }
  if (sections.leaks) findings.leaks = &leaks();
  if (sections.leaks && host_memory()) findings.resident = host_memory()->resident;
  if (sections.fragmentation) findings.fragmentation = &fragmentation();
  if (remedies != nullptr && remedies->heaps.empty()) findings.remedies = nullptr;
  if (findings.remedies != nullptr)
    findings.exact = !summaries().empty() && std::ranges::all_of(summaries(), &MemorySummary::exact);
  return make_verdict(trace_, findings);
}

Analysis::Results Analysis::first_results() const {
  return {.leaks = leaks(), .fragmentation = fragmentation(), .pools = pools(), .remedies = {}, .ooms = failures()};
}

Analysis::Results Analysis::take() && {
  return {.leaks = std::move(leaks_).take(),
          .fragmentation = std::move(fragmentation_).take(),
          .pools = std::move(pools_).take(),
          .remedies = std::move(remedies_).take(),
          .ooms = std::move(survivors_).take()};
}

}  // namespace memreel
