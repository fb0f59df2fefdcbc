// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/leaks.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/analysis/insight/leaks_evidence.h"
#include "analyzer/describe/own_frame.h"
#include "formats/model/lost_frees.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

constexpr std::array<std::string_view, 8> names{
    "leak", "suspected", "resident", "cache", "warm-up", "sawtooth", "unknown before attach", "unattributed"};

/// Rounds in which some of `kept` were allocated.
std::vector<std::uint32_t> births_of(const std::vector<Held>& kept) {
  std::vector<std::uint32_t> births;
  for (const Held& held : kept) {
    if (births.empty() || births.back() != held.birth) births.push_back(held.birth);
  }
  return births;
}

/// The free memory of a heap's device at the end of the trace, as far as it is recorded.
struct Headroom {
  Bytes reserved;             // by the heap
  std::optional<Bytes> free;  // the device's last sample
  std::optional<Bytes> used;
};

/// By AllocationId, the event by which the program freed it, or `never`.
std::vector<std::uint32_t> frees_of(const Trace& trace) {
  std::vector<std::uint32_t> frees(trace.events.allocation_count(), never);
  for (std::uint32_t i = 0; i < trace.events.count(); ++i) {
    const AllocationId id = trace.events.allocation(i);
    if (trace.events.kind(i) == EventKind::free_requested && id != AllocationId::none) frees[index(id)] = i;
  }
  return frees;
}

class Search {
 public:
  Search(const Trace& trace, const LeakOptions& options, const std::function<Rounds(HeapId)>& rounds_of)
      : trace_(trace), options_(options), rounds_of_(rounds_of), frees_(frees_of(trace)) {}

  LeakReport report() && {
    std::vector<char> has_allocations(trace_.tables.heaps.size());
    for (const std::uint32_t event : trace_.events.begins())
      has_allocations[index(trace_.tables[trace_.events.origin(event)].heap)] = 1;
    const std::vector<Headroom> headrooms = headrooms_of_heaps();
    std::vector<HeapInRounds> heaps;
    for (std::uint32_t heap = 0; heap < has_allocations.size(); ++heap)
      if (has_allocations[heap] != 0)
        heaps.push_back(
            in_rounds(trace_, HeapId{heap}, rounds_until(end_of_life(trace_, HeapId{heap}), rounds_of_(HeapId{heap}))));
    std::vector<std::vector<Population>> found = populations(trace_, heaps);
    for (std::size_t i = 0; i < heaps.size(); ++i) look_into(std::move(heaps[i]), std::move(found[i]));
    acquit_by_losses();
    report_.causes = group_by_cause(trace_.tables, report_.findings, births_);
    for (HeapRounds& heap : report_.heaps) heap.steps_left = steps_left(heap.heap, headrooms[index(heap.heap)]);
    for (std::uint32_t heap = 0; heap < headrooms.size(); ++heap) add_unattributed(HeapId{heap}, headrooms);
    sort();
    return std::move(report_);
  }

 private:
  using Line = std::tuple<StringId, StringId, std::uint32_t, ModuleId, std::uint64_t>;

  void look_into(HeapInRounds of, std::vector<Population> found) {
    const HeapId heap = of.heap;
    const Rounds& rounds = of.rounds;
    end_ = of.end;
    const std::size_t first = report_.findings.size();
    const std::vector<KeptByCalls> by_calls =
        kept_by_later_calls(trace_, heap, rounds, [&](AllocationId id) { return frees_[index(id)] != never; });
    const Rounds intervals = folded_rounds(trace_);
    const std::vector<Population> sums =
        intervals.count() < 2 ? std::vector<Population>() : folded_populations(trace_, heap, intervals);
    if (rounds.suffice()) learn_earlier_lives(found, sums, sums_per_step(rounds), rounds.count());
    of_calls_.clear();
    for (const KeptByCalls& kept : by_calls)
      for (const auto* const part : {&kept.earlier, &kept.judged.kept})
        for (const Held& held : *part) of_calls_.insert(held.id);
    std::map<Line, std::vector<Population>> by_line;
    for (Population& population : found) {
      const std::vector<Judged> judged = judge(population, rounds);
      if (auto swelling = swelling_of(population, rounds);
          swelling && !has_accused(judged) && !others_grow(trace_, heap, rounds, population.stack)) {
        const Judged held = as_one(judged, *swelling);
        swelling->at_last = bytes_of(held.kept);
        add(heap, population, rounds, held, swelling);
      } else if (population.stack == StackId::none || has(judged, LeakVerdict::leak)) {
        for (const Judged& j : judged) add(heap, population, rounds, j);
      } else {
        by_line[line_of(population.stack)].push_back(std::move(population));
      }
    }
    for (auto& [line, parts] : by_line) look_into_line(heap, rounds, std::move(parts));
    acquit_unfounded(heap, rounds, first);
    accuse_calls(heap, rounds, by_calls);
    claim_older(first);
    drop_freed(first);
    look_back(heap, rounds, intervals, sums);
    if (end_.life < trace_.events.count())
      for (LeakFinding& finding : std::span(report_.findings).subspan(first))
        if (accuses(finding.verdict)) finding.evidence += "; it was live when its pool was destroyed";
    report_.heaps.push_back({.heap = heap, .rounds = std::move(of.rounds), .steps_left = {}});
  }

  /// Rounds in which there was no pool any more say nothing about it.
  static Rounds rounds_until(std::uint32_t end, Rounds rounds) {
    const std::size_t later = std::erase_if(rounds.ends, [&](std::uint32_t event) { return event > end; });
    if (later == 0) return rounds;
    rounds.last_is_open = false;
    rounds.unfinished = true;
    return rounds;
  }

  /// What live memory did not grow by is no leak.
  void acquit_unfounded(HeapId heap, const Rounds& rounds, std::size_t first) {
    const std::span<LeakFinding> findings = std::span(report_.findings).subspan(first);
    for (const std::size_t f : unfounded(trace_, heap, rounds, findings)) {
      LeakFinding& finding = findings[f];
      finding.verdict = LeakVerdict::cache;
      finding.growth_bytes_per_step = 0;
      forget_freed(finding);
      finding.evidence = evidence_of_replacement(trace_, finding);
    }
  }

  /// Each lost event may be the free of one of them: more must be kept than that explains.
  void acquit_by_losses() {
    const std::uint64_t lost = most_lost_frees(trace_.losses, trace_.read);
    if (lost == 0) return;
    for (LeakFinding& finding : report_.findings) {
      if (!accuses(finding.verdict) || finding.count >= lost + fewest_rounds) continue;
      finding.verdict = LeakVerdict::cache;
      finding.growth_bytes_per_step = 0;
      finding.evidence += "; their frees may be among the " + counted(lost, "lost event");
    }
  }

  /// Unless steps accuse the same place.
  void accuse_calls(HeapId heap, const Rounds& rounds, const std::vector<KeptByCalls>& by_calls) {
    for (const KeptByCalls& kept : by_calls) {
      const auto is_accused = [&](const LeakFinding& f) {
        return f.heap == heap && accuses(f.verdict) && line_of(f.stack) == line_of(kept.population.stack);
      };
      if (std::ranges::any_of(report_.findings, is_accused)) continue;
      LeakFinding finding{.verdict = kept.judged.verdict,
                          .heap = heap,
                          .stack = kept.population.stack,
                          .count = kept.earlier.size() + kept.judged.kept.size(),
                          .growth_bytes_per_step = kept.judged.growth.slope,
                          .unit = GrowsWith::calls,
                          .growth = kept.judged.growth,
                          .swelling = {},
                          .rounds = kept.calls,
                          .evidence = {},
                          .allocations = {}};
      for (const auto* const part : {&kept.earlier, &kept.judged.kept})
        for (const Held& held : *part) {
          finding.bytes += held.size;
          finding.allocations.push_back(held.id);
        }
      if (const Suppression* suppression = options_.suppressions.match(trace_.tables, finding.stack)) {
        suppress(*suppression, finding);
        continue;
      }
      finding.oldest = kept.calls - kept.judged.growth.first;
      finding.evidence = evidence_of_calls(trace_, finding, kept, rounds.calls.line);
      births_.push_back(births_of(kept.judged.kept));
      report_.findings.push_back(std::move(finding));
    }
  }

  /// Memory older than the recording whose stack was kept, of the same size and from the same place as what leaks.
  void claim_older(std::size_t first) {
    std::map<Line, std::vector<std::size_t>> older_at;
    for (std::size_t o = first; o < report_.findings.size(); ++o) {
      const LeakFinding& older = report_.findings[o];
      if (older.verdict == LeakVerdict::unknown_before_attach && trace_.tables[older.stack].caller != StackId::none)
        older_at[line_of(older.stack)].push_back(o);
    }
    if (older_at.empty()) return;
    for (std::size_t f = first; f < report_.findings.size(); ++f) {
      if (!accuses(report_.findings[f].verdict) || report_.findings[f].swelling ||
          report_.findings[f].stack == StackId::none)
        continue;
      const auto there = older_at.find(line_of(report_.findings[f].stack));
      if (there == older_at.end()) continue;
      std::set<Bytes> sizes;
      for (const AllocationId id : report_.findings[f].allocations)
        sizes.insert(trace_.events.size(trace_.events.begin_of(id)));
      for (const std::size_t o : there->second) {
        LeakFinding& older = report_.findings[o];
        std::erase_if(older.allocations, [&](AllocationId id) {
          const Bytes size = trace_.events.size(trace_.events.begin_of(id));
          if (!sizes.contains(size)) return false;
          LeakFinding& leak = report_.findings[f];
          leak.allocations.push_back(id);
          leak.bytes += size;
          ++leak.count;
          older.bytes -= size;
          --older.count;
          return true;
        });
      }
      std::ranges::sort(report_.findings[f].allocations);
    }
  }

  /// Only what is accused counts although it was freed in the end.
  void drop_freed(std::size_t first) {
    std::size_t kept = first;
    for (std::size_t i = first; i < report_.findings.size(); ++i) {
      LeakFinding& finding = report_.findings[i];
      if (!accuses(finding.verdict)) {
        forget_freed(finding);
        if (finding.count == 0) continue;
        if (finding.verdict == LeakVerdict::unknown_before_attach)
          finding.evidence = evidence_of(trace_, finding, {}, {}, {});
      }
      if (kept != i) {
        report_.findings[kept] = std::move(finding);
        births_[kept] = std::move(births_[i]);
      }
      ++kept;
    }
    report_.findings.resize(kept);
    births_.resize(kept);
  }

  void forget_freed(LeakFinding& finding) const {
    std::erase_if(finding.allocations, [&](AllocationId id) {
      if (frees_[index(id)] == never) return false;
      finding.bytes -= trace_.events.size(trace_.events.begin_of(id));
      --finding.count;
      return true;
    });
    finding.freed_at_end = false;
  }

  /// Without what was freed in the end. Of the accused, without what was freed while the program went on and was no
  /// older than others from there became.
  Judged without_freed(const Judged& judged, const Rounds& rounds) const {
    const bool is_accused = accuses(judged.verdict);
    Judged rest = judged;
    const auto is_freed = [&](const Held& held) {
      const std::uint32_t freed = frees_[index(held.id)];
      const bool is_old = held.birth + judged.growth.longest_life + 1 < rounds.count();
      return freed != never && !(is_accused && (is_old || freed >= end_.all));
    };
    std::erase_if(rest.earlier, is_freed);
    if (std::erase_if(rest.kept, is_freed) == 0) return rest;
    rest.growth = growth_of(rest.kept);
    rest.growth.longest_life = judged.growth.longest_life;
    return rest;
  }

  /// A leak found in the sums of a flight recorder is reported whatever its latest events say: they may contain none of
  /// it. Growth is given per round of `rounds`, like all other growth, if there are any.
  void look_back(HeapId heap, const Rounds& rounds, const Rounds& intervals, const std::vector<Population>& sums) {
    if (intervals.count() < 8) return;
    for (const Population& population : sums) {
      const std::vector<Judged> judged = judge(population, intervals);
      if (population.stack == StackId::none || !has(judged, LeakVerdict::leak)) continue;
      const auto is_of_it = [&](const LeakFinding& f) { return f.heap == heap && f.stack == population.stack; };
      if (std::ranges::any_of(report_.findings,
                              [&](const LeakFinding& f) { return is_of_it(f) && accuses(f.verdict); }))
        continue;
      for (std::size_t i = report_.findings.size(); i-- > 0;) {
        if (!is_of_it(report_.findings[i])) continue;
        report_.findings.erase(report_.findings.begin() + static_cast<std::ptrdiff_t>(i));
        births_.erase(births_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      const std::size_t first = report_.findings.size();
      for (const Judged& j : judged) add(heap, population, intervals, j);
      for (std::size_t i = first; i < report_.findings.size(); ++i) {
        LeakFinding& finding = report_.findings[i];
        finding.growth_bytes_per_step *= sums_per_step(rounds);
        finding.evidence += " (intervals of " + intervals.name + ", from the recorder's sums)";
      }
    }
  }

  /// 1 if there are no rounds.
  double sums_per_step(const Rounds& rounds) const {
    if (rounds.ends.size() < 2) return 1;
    const auto times = trace_.events.times();
    const auto time_of = [&](std::uint32_t end) { return times[std::min<std::size_t>(end, times.size() - 1)]; };
    const auto span = static_cast<double>((time_of(rounds.ends.back()) - time_of(rounds.ends.front())).count());
    return span / static_cast<double>(rounds.ends.size() - 1) / static_cast<double>(trace_.folded.interval.count());
  }

  /// A line can be reached on many paths, each seen too rarely to be judged well. What leaks there as a whole is
  /// reported as a whole, under its largest stack; and a suspicion must be weighed against everything the line does.
  void look_into_line(HeapId heap, const Rounds& rounds, std::vector<Population> parts) {
    std::stable_sort(parts.begin(), parts.end(), [](const Population& a, const Population& b) {
      return a.allocations - a.frees > b.allocations - b.frees;
    });
    bool may_suspect = true;
    if (parts.size() > 1) {
      const Population line = merged(parts);
      const std::vector<Judged> judged = judge(line, rounds);
      if (has(judged, LeakVerdict::leak)) {
        for (const Judged& j : judged) add(heap, line, rounds, j);
        return;
      }
      may_suspect = has(judged, LeakVerdict::suspected);
    }
    for (const Population& population : parts) {
      for (Judged& j : judge(population, rounds)) {
        if (j.verdict == LeakVerdict::suspected && !may_suspect) j.verdict = LeakVerdict::cache;
        add(heap, population, rounds, j);
      }
    }
  }

  static bool has_accused(const std::vector<Judged>& judged) {
    return has(judged, LeakVerdict::leak) || has(judged, LeakVerdict::suspected);
  }

  /// Everything kept, as suspected. What the last ones replaced was not freed as the program wound up.
  Judged as_one(const std::vector<Judged>& judged, const Swelling& swelling) const {
    Judged all{.verdict = LeakVerdict::suspected, .growth = swelling.growth, .kept = {}};
    for (const Judged& j : judged) all.kept.insert(all.kept.end(), j.kept.begin(), j.kept.end());
    std::ranges::sort(all.kept, {}, &Held::id);
    std::size_t later = all.kept.size();
    std::erase_if(all.kept, [&](const Held& held) {
      --later;
      return later >= swelling.at_a_time && frees_[index(held.id)] != never;
    });
    return all;
  }

  static Bytes bytes_of(const std::vector<Held>& kept) {
    Bytes sum;
    for (const Held& held : kept) sum += held.size;
    return sum;
  }

  static bool has(const std::vector<Judged>& judged, LeakVerdict verdict) {
    return std::any_of(judged.begin(), judged.end(), [&](const Judged& j) { return j.verdict == verdict; });
  }

  /// The line of own_frame(), which the user can change.
  Line line_of(StackId stack) const {
    const Frame& frame = trace_.tables[own_frame(trace_.tables, stack)];
    return {frame.function, frame.file, frame.line, frame.module, frame.module_offset};
  }

  void add(HeapId heap, const Population& population, const Rounds& rounds, const Judged& all,
           const std::optional<Swelling>& swelling = std::nullopt) {
    const bool is_older = is_preexisting(trace_.tables, population.stack);
    Judged judged = is_older ? all : without_freed(all, rounds);
    if (!accuses(judged.verdict) &&
        std::erase_if(judged.kept, [&](const Held& held) { return of_calls_.contains(held.id); }) > 0)
      judged.growth = growth_of(judged.kept);
    if (judged.kept.empty()) return;
    LeakFinding finding{.verdict = is_older ? LeakVerdict::unknown_before_attach : judged.verdict,
                        .heap = heap,
                        .stack = population.stack,
                        .growth = judged.growth,
                        .swelling = swelling,
                        .rounds = rounds.count(),
                        .evidence = {},
                        .allocations = {}};
    include(finding, judged.kept);
    finding.oldest = finding.rounds - std::min(finding.rounds, judged.growth.first);
    if (population.last_free != Held::alive) finding.last_free = population.last_free;
    finding.evidence = evidence_of(trace_, finding, population, rounds, judged);
    include(finding, judged.earlier);
    std::ranges::sort(finding.allocations);
    if (!judged.earlier.empty()) finding.oldest = finding.rounds;
    if (accuses(finding.verdict)) {
      if (const Suppression* suppression = options_.suppressions.match(trace_.tables, finding.stack)) {
        suppress(*suppression, finding);
        return;
      }
      finding.growth_bytes_per_step = judged.growth.slope;
    }
    births_.push_back(births_of(judged.kept));
    report_.findings.push_back(std::move(finding));
  }

  void include(LeakFinding& finding, const std::vector<Held>& kept) const {
    for (const Held& held : kept) {
      finding.bytes += held.size;
      finding.allocations.push_back(held.id);
      finding.freed_at_end = finding.freed_at_end || frees_[index(held.id)] < end_.life;
    }
    finding.count = finding.allocations.size();
  }

  void suppress(const Suppression& suppression, const LeakFinding& finding) {
    auto entry = std::find_if(report_.suppressed.begin(), report_.suppressed.end(),
                              [&](const SuppressedLeaks& s) { return s.suppression.pattern == suppression.pattern; });
    if (entry == report_.suppressed.end())
      entry = report_.suppressed.insert(entry, {.suppression = suppression, .count = 0, .bytes = {}});
    entry->count += finding.count;
    entry->bytes += finding.bytes;
  }

  std::vector<Headroom> headrooms_of_heaps() const {
    std::vector<Headroom> headrooms(trace_.tables.heaps.size());
    const Events& events = trace_.events;
    for (std::size_t i = 0; i < events.count(); ++i) {
      const EventKind kind = events.kind(i);
      if (!is_segment(kind) && kind != EventKind::memory_info) continue;
      const Origin& origin = trace_.tables[events.origin(i)];
      if (kind == EventKind::memory_info && !samples_whole_heap(trace_.tables, origin)) continue;
      Headroom& headroom = headrooms[index(origin.heap)];
      if (kind == EventKind::segment_alloc || kind == EventKind::segment_map) {
        headroom.reserved += events.size(i);
      } else if (is_segment(kind)) {
        headroom.reserved -= std::min(events.size(i), headroom.reserved);
      } else {
        headroom.used = events.size(i);
        headroom.free = Bytes{events.address_or_value(i)};
      }
    }
    return headrooms;
  }

  std::optional<double> steps_left(HeapId heap, const Headroom& headroom) const {
    double growth = 0;
    for (const LeakFinding& finding : report_.findings) {
      if (finding.heap == heap && finding.unit == GrowsWith::steps) growth += finding.growth_bytes_per_step;
    }
    std::optional<Bytes> free = headroom.free;
    if (options_.capacity) free = *options_.capacity - std::min(*options_.capacity, headroom.reserved);
    if (!free || growth <= 0) return std::nullopt;
    return static_cast<double>(free->count) / growth;
  }

  /// Used device memory that no heap on it holds. Only the driver's own heaps know what they got from the device: a
  /// framework's sample counts its own pool, and does so exactly.
  void add_unattributed(HeapId heap, const std::vector<Headroom>& headrooms) {
    const Headroom& headroom = headrooms[index(heap)];
    if (!headroom.used || trace_.tables[heap].level != Level::driver) return;
    Bytes recorded = headroom.reserved;
    for (const std::uint32_t event : live_allocations(heap)) recorded += trace_.events.size(event);
    // Memory that a framework sub-allocates counts as its segments, no longer as the driver's allocations:
    // history/levels.h.
    for (std::uint32_t other = 0; other < headrooms.size(); ++other) {
      const Heap& framework = trace_.tables[HeapId{other}];
      if (framework.level == Level::framework && framework.device == trace_.tables[heap].device)
        recorded += headrooms[other].reserved;
    }
    if (*headroom.used <= recorded) return;
    LeakFinding finding{.verdict = LeakVerdict::unattributed,
                        .heap = heap,
                        .bytes = *headroom.used - recorded,
                        .evidence = {},
                        .allocations = {}};
    finding.evidence = evidence_of(trace_, finding, {}, {}, {});
    births_.emplace_back();
    report_.findings.push_back(std::move(finding));
  }

  std::vector<std::uint32_t> live_allocations(HeapId heap) const {
    std::vector<std::uint32_t> live;
    for (std::size_t a = 0; a < frees_.size(); ++a) {
      const std::uint32_t event = trace_.events.begin_of(AllocationId(a));
      if (frees_[a] == never && trace_.tables[trace_.events.origin(event)].heap == heap) live.push_back(event);
    }
    return live;
  }

  void sort() {
    std::stable_sort(report_.findings.begin(), report_.findings.end(), [](const LeakFinding& a, const LeakFinding& b) {
      if (accuses(a.verdict) != accuses(b.verdict)) return accuses(a.verdict);
      if (a.cause != b.cause) return a.cause < b.cause;
      return a.bytes > b.bytes;
    });
  }

  const Trace& trace_;
  const LeakOptions& options_;
  const std::function<Rounds(HeapId)>& rounds_of_;
  const std::vector<std::uint32_t> frees_;  // by AllocationId
  WindUp end_{};                            // of the heap that is looked into
  std::set<AllocationId> of_calls_;         // that kept_by_later_calls() accuses there
  LeakReport report_;
  std::vector<std::vector<std::uint32_t>> births_;  // by finding
};

/// Whether it is recorded what is live.
bool tells_lives(EventKinds skipped) {
  return !skipped.contains(EventKind::alloc) &&
         !(skipped.contains(EventKind::free_requested) && skipped.contains(EventKind::free_completed));
}

}  // namespace

std::string_view name_of(LeakVerdict verdict) { return names.at(static_cast<std::size_t>(verdict)); }

LeakReport find_leaks(const Trace& trace, const LeakOptions& options, const std::function<Rounds(HeapId)>& rounds_of) {
  if (!tells_lives(trace.losses.skipped)) return {.unrecorded = true};
  LeakReport report = Search(trace, options, rounds_of).report();
  const auto is_accused = [](const LeakFinding& finding) { return accuses(finding.verdict); };
  if (may_lack_frees(trace.losses, trace.read) && std::ranges::none_of(report.findings, is_accused))
    return {.unrecorded = true};
  return report;
}

}  // namespace memreel
