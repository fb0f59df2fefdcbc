#include "viewer/model/findings.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "analyzer/category/classify.h"
#include "analyzer/history/lifetimes.h"
#include "analyzer/replay/memory_summary.h"
#include "formats/model/files.h"
#include "formats/reader/trace_reader.h"
#include "formats/reader/trace_stream.h"
#include "viewer/model/labels.h"
#include "viewer/model/source.h"
#include "viewer/model/typed_input.h"

namespace memreel::viewer {
namespace {

/// The most that classifying takes for an event, besides the trace itself.
constexpr std::uint64_t bytes_per_event = 64;

Result<void> check_memory(const Trace& trace, std::uint64_t file_size, Bytes memory_limit) {
  const Bytes limit = memory_limit == 0_B ? trace_memory_limit(file_size) : memory_limit;
  if (Bytes{trace.events.count() * bytes_per_event} <= limit) return {};
  return over_memory_limit("the trace", "has categories that need more than", limit);
}

void add(LiveByCategory& live, Category category, Bytes size) {
  CategoryHolding& holding = live.at(static_cast<std::size_t>(category));
  holding.bytes += size;
  ++holding.count;
}

}  // namespace

std::string Classification::layer(const Tables& tables, StackId stack, std::uint16_t call) const {
  constexpr std::size_t longest = 1000;
  if (index(stack) >= categories.stacks.size()) return {};
  std::string path = layer_path(tables, categories, stack, call);
  if (path.size() > longest) {
    const std::size_t part = path.find_first_of("/.", path.size() - longest);
    path = "\u2026" + path.substr(part == std::string::npos ? path.size() - longest : part);
  }
  return path;
}

bool can_be_classified(const Document& document) { return document.event_count() <= longest_in_memory; }

bool is_due(std::optional<std::uint32_t> classified, std::uint32_t events, bool followed, double still) {
  constexpr double patience = 2;
  if (!followed || !classified) return true;
  return events >= std::uint64_t{*classified} + *classified / 8 || (events != *classified && still > patience);
}

std::optional<Classification> classify_file(const std::shared_ptr<ByteFile>& file, Bytes memory_limit,
                                            const Progress& progress) {
  Classification classification;
  const auto trace = load_checked(file, "the trace", memory_limit);
  if (progress.cancelled()) return std::nullopt;
  progress.set(0.3);
  const Result<void> fits = trace ? check_memory(*trace, file->size(), memory_limit) : trace.error();
  if (!fits) {
    classification.problem = fits.error().message();
    return classification;
  }
  classification.categories = classify(*trace, [&] { return progress.cancelled(); });
  if (progress.cancelled()) return std::nullopt;
  classification.knows_any = std::ranges::any_of(classification.categories.evidence,
                                                 [](Evidence e) { return category_of(e) != Category::unknown; });
  classification.knows_layers = has_layers(classification.categories.stacks);
  return classification;
}

LiveByCategory live_by_category(const Document& document, const Classification& classification, HeapId heap,
                                std::uint32_t events, const Sieve* sieve) {
  LiveByCategory live{};
  for (const std::uint32_t id : held_at(document, heap, events))
    if (document.requested(id) >= events && (sieve == nullptr || sieve->passes_but_category(id)))
      add(live, classification.category(id), document.size_of(id));
  return live;
}

LiveByCategory live_by_category(std::span<const HeldBlock> blocks, const Classification& classification,
                                const Sieve* sieve) {
  LiveByCategory live{};
  for (const HeldBlock& block : blocks)
    if (!block.pending && (sieve == nullptr || sieve->passes_but_category(block.allocation)))
      add(live, classification.category(block.allocation), block.size);
  return live;
}

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
