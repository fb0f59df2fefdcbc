#include "viewer/model/findings.h"

#include <algorithm>

#include "analyzer/history/lifetimes.h"
#include "analyzer/replay/memory_summary.h"
#include "formats/reader/load.h"

namespace memreel::viewer {
namespace {

/// Whether the recorded allocator was reproduced, on every device.
bool is_exact(const Trace& trace) {
  const auto summaries = memory_summaries(trace);
  return summaries && !summaries->empty() && std::ranges::all_of(*summaries, &MemorySummary::exact);
}

Verdict verdict_on(const Trace& trace, const Findings& findings, const Classification* known) {
  const std::vector<HeapHistory> heaps = heap_histories(trace);
  memreel::Findings evidence{.heaps = heaps,
                             .leaks = &findings.leaks,
                             .fragmentation = &findings.fragmentation,
                             .ooms = &findings.ooms,
                             .remedies = &findings.remedies,
                             .exact = is_exact(trace)};
  Holders holders;
  if (const HeapHistory* const heap = deciding_heap(trace.tables, heaps)) {
    const std::vector<Lifetime> lives = lifetimes(trace);
    std::vector<CategoryShare> shares;
    // Events added to the file since it was classified are not known.
    if (known != nullptr && known->categories.evidence.size() == trace.allocation_events.size())
      shares = category_shares(trace, lives, known->categories, heap->heap, heap->peak_live_event + 1);
    holders = holders_at_peak(trace, lives, *heap, shares);
    evidence.holders = &holders;
  }
  return make_verdict(trace, evidence);
}

}  // namespace

std::optional<Findings> judge_file(const std::shared_ptr<ByteFile>& file, Bytes memory_limit,
                                   const std::shared_ptr<const Classification>& known, const Progress& progress) {
  Findings findings;
  const auto trace = load_checked(file, "the trace", memory_limit);
  if (!trace) {
    findings.problem = trace.error().message();
    return findings;
  }
  progress.set(0.2);
  if (progress.cancelled()) return std::nullopt;
  findings.leaks = find_leaks(*trace);
  findings.of_allocation.resize(trace->allocation_events.size());
  for (const LeakFinding& finding : findings.leaks.findings)
    for (const AllocationId id : finding.allocations) findings.of_allocation[index(id)] = finding.verdict;
  progress.set(0.4);
  if (progress.cancelled()) return std::nullopt;
  const RecordedBlocks blocks = recorded_blocks(*trace);
  findings.fragmentation = find_fragmentation(*trace, blocks);
  progress.set(0.5);
  if (progress.cancelled()) return std::nullopt;
  findings.remedies = untried_remedies(*trace);
  findings.ooms = judge_failures(*trace, blocks, findings.remedies);
  replay_remedies(*trace, findings.remedies, remedy_rows, 0, [&](std::uint64_t done, std::uint64_t total) {
    progress.set(0.5 + 0.4 * static_cast<double>(done) / static_cast<double>(std::max<std::uint64_t>(total, 1)));
  });
  if (progress.cancelled()) return std::nullopt;
  find_survivors(*trace, findings.remedies, findings.ooms);
  findings.verdict = verdict_on(*trace, findings, known.get());
  return findings;
}

}  // namespace memreel::viewer
