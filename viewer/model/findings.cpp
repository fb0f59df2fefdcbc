// SPDX-License-Identifier: Apache-2.0
#include "viewer/model/findings.h"

#include <algorithm>

#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/analysis/insight/kept_by.h"
#include "analyzer/replay/memory_summary.h"
#include "viewer/model/labels.h"
#include "viewer/model/typed_input.h"

namespace memreel::viewer {
namespace {

void add(LiveByCategory& live, Category category, Bytes size) {
  CategoryHolding& holding = live.at(static_cast<std::size_t>(category));
  holding.bytes += size;
  ++holding.count;
}

}  // namespace

std::string Classification::layer(const Tables& tables, StackId stack, std::uint16_t call) const {
  constexpr std::size_t longest = 1000;
  if (index(stack) >= categories->stacks().size()) return {};
  std::string path = layer_path(tables, *categories, stack, call);
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

std::optional<Classification> classify_trace(WholeTrace& whole, const Progress& progress) {
  Classification classification;
  if (const Result<void> fits = whole.check_memory(); !fits) {
    classification.problem = fits.error().message();
    return classification;
  }
  auto categories = whole.categories([&] { return progress.cancelled(); });
  if (!categories) return std::nullopt;
  classification.categories = std::move(categories);
  classification.knows_any = std::ranges::any_of(classification.categories->evidence,
                                                 [](Evidence e) { return category_of(e) != Category::unknown; });
  classification.knows_layers = has_layers(classification.categories->stacks());
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

std::vector<HeapTags> tags_of(const Analysis& analysis) {
  std::vector<HeapTags> tags;
  const Trace& trace = analysis.trace();
  if (trace.tables.marks.size() <= 1) return tags;
  const Categories none;
  for (const HeapHistory& heap : analysis.histories()) {
    if (heap.allocations == 0) continue;
    std::vector<GroupPeak> peaks = group_peaks(trace, none, heap.heap, GroupBy::tag);
    if (std::ranges::any_of(peaks, [](const GroupPeak& peak) { return peak.label != "(no tag)"; }))
      tags.push_back({heap.heap, std::move(peaks)});
  }
  return tags;
}

}  // namespace

namespace {

/// All but the analysis' own results and the verdict.
Findings beside(const Analysis& analysis) {
  const Trace& trace = analysis.trace();
  Findings findings;
  findings.devices = analysis.devices();
  findings.tags = tags_of(analysis);
  findings.of_allocation.resize(trace.events.allocation_count());
  for (const LeakFinding& finding : analysis.leaks().findings) {
    for (const AllocationId id : finding.allocations) findings.of_allocation[index(id)] = finding.verdict;
    const PythonHolder* const keeper = holder_of(trace, finding.allocations);
    findings.keepers.push_back(
        keeper == nullptr ? std::nullopt
                          : std::optional(static_cast<std::uint32_t>(keeper - trace.python_holders.rows.data())));
  }
  findings.python_holders = trace.python_holders;
  return findings;
}

}  // namespace

std::optional<Findings> judge_trace(WholeTrace& whole, const Progress& progress,
                                    const std::function<void(Findings)>& first) {
  progress.set(0.2);
  const auto on_replay = [&](std::uint64_t done, std::uint64_t total) {
    progress.set(0.5 + 0.4 * static_cast<double>(done) / static_cast<double>(std::max<std::uint64_t>(total, 1)));
  };
  Analysis analysis(whole.trace(), {.leaks = {}, .activity = whole.activity(), .on_replay = on_replay});
  const auto judge_leaks = [&] {
    analysis.leaks();
    analysis.pools();
  };
  const auto judge_space = [&] {
    analysis.fragmentation();
    analysis.failures();
  };
  do_both(judge_leaks, judge_space);
  progress.set(0.5);
  if (progress.cancelled()) return std::nullopt;
  Findings findings = beside(analysis);
  // As late as possible: another job may classify meanwhile.
  const auto categories = whole.categories([&] { return progress.cancelled(); });
  if (!categories) return std::nullopt;
  analysis.set_categories(*categories);
  if (first) {
    Findings now = findings;
    static_cast<Analysis::Results&>(now) = analysis.first_results();
    now.verdict = analysis.first_verdict(Sections::all());
    first(std::move(now));
    if (progress.cancelled()) return std::nullopt;
  }
  analysis.remedies();
  if (progress.cancelled()) return std::nullopt;
  findings.tried = true;
  findings.verdict = analysis.verdict(Sections::all());
  static_cast<Analysis::Results&>(findings) = std::move(analysis).take();
  return findings;
}

std::string evidence_of(const Findings& findings, const LeakFinding& finding) {
  const auto keeper = findings.keepers[static_cast<std::size_t>(&finding - findings.leaks.findings.data())];
  if (!keeper) return finding.evidence;
  const PythonHolder& holder = findings.python_holders.rows[*keeper];
  return "kept by " + holder.text + growth_words(holder) + "; " + finding.evidence;
}

std::optional<std::uint32_t> largest_kept(const Document& document, HeapId heap, const PythonHolders& holders,
                                          std::uint32_t row) {
  std::optional<std::uint32_t> largest;
  for (const HeldBlock& block : heap_at(document, heap, document.event_count()).blocks) {
    const auto kept = std::ranges::lower_bound(holders.blocks, block.address, {}, &PythonBlock::address);
    if (kept == holders.blocks.end() || kept->holder != row || kept->address - block.address >= block.size) continue;
    if (!largest || document.size_of(*largest) < block.size) largest = block.allocation;
  }
  return largest;
}

}  // namespace memreel::viewer
