// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/remedies.h"

#include <array>
#include <atomic>
#include <tuple>

#include "analyzer/analysis/insight/heap_map.h"
#include "analyzer/replay/beginning.h"
#include "analyzer/replay/engine/parallel.h"
#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/plan/plan.h"
#include "analyzer/replay/plan/planned.h"
#include "analyzer/replay/policies/torch_spec.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/replay/recorded_device.h"
#include "analyzer/replay/registry.h"
#include "analyzer/replay/torch_rules.h"
#include "analyzer/replay/tune/search_space.h"
#include "analyzer/replay/verify.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

struct Candidate {
  RemedyKind kind = RemedyKind::setting;
  PolicySpec policy;
  std::string text;
};

/// Larger than any device: such a request is corrupt, and a policy could simulate it for hours.
constexpr Bytes nonsense = 64_GiB * 1024;

/// PyTorch's pools if there are any, else those of other frameworks.
std::vector<Prepared> only_pools(const Trace& trace, std::vector<Prepared> heaps) {
  const auto is_torch = [&](const Prepared& heap) { return is_torch_heap(trace.tables, heap.heap); };
  std::erase_if(heaps, [&](const Prepared& heap) {
    return heap.level != Level::framework || is_pageable_heap(trace.tables, heap.heap) ||
           std::ranges::any_of(heap.size, [](Bytes size) { return size > nonsense; });
  });
  if (std::ranges::any_of(heaps, is_torch)) std::erase_if(heaps, [&](const Prepared& heap) { return !is_torch(heap); });
  return heaps;
}

Remedies remedies_of_pools(const Trace& trace) {
  std::vector<Prepared> heaps = prepare(trace);
  const auto is_torch = [&](const Prepared& heap) { return is_torch_heap(trace.tables, heap.heap); };
  const std::ptrdiff_t recorded = std::ranges::count_if(heaps, is_torch);
  heaps = only_pools(trace, std::move(heaps));
  const bool late = any_late(heaps);
  const bool as_recorded = !late && recorded != 0 && std::ranges::count_if(heaps, is_torch) == recorded;
  if (late) heaps = begun_afresh(heaps);
  return {.heaps = std::move(heaps), .as_recorded = as_recorded, .began_late = late || trace.losses.began_late};
}

bool uses_streams(std::span<const Prepared> heaps) {
  return std::ranges::any_of(heaps, [](const Prepared& heap) {
    return std::ranges::any_of(heap.pool_streams, [&](const PoolStream& pool_stream) {
      return pool_stream.stream != heap.pool_streams.front().stream;
    });
  });
}

/// The first value of each dimension, then the second of each...
std::vector<PolicySpec> likeliest_first(const PolicySpec& baseline, const std::vector<Dimension>& dimensions) {
  std::vector<PolicySpec> specs;
  for (std::size_t rank = 0;; ++rank) {
    std::vector<Dimension> of_rank;
    for (const Dimension& dimension : dimensions)
      if (rank < dimension.values.size())
        of_rank.push_back({.parameter = dimension.parameter, .values = {dimension.values[rank]}});
    if (of_rank.empty()) return specs;
    std::ranges::move(single_changes(baseline, of_rank), std::back_inserter(specs));
  }
}

std::vector<Candidate> torch_candidates(std::span<const Prepared> heaps, const PolicySpec& baseline,
                                        bool sets_fraction) {
  std::vector<Candidate> candidates;
  for (PolicySpec& spec : likeliest_first(baseline, search_space(heaps, baseline, sets_fraction))) {
    std::string text = name_of_settings(conf_of(spec));
    candidates.push_back({.policy = std::move(spec), .text = std::move(text)});
  }
  if (uses_streams(heaps)) {
    const auto second = candidates.begin() + std::min<std::ptrdiff_t>(1, std::ssize(candidates));
    candidates.insert(second,
                      {.kind = RemedyKind::one_stream, .policy = baseline, .text = "one stream for everything"});
  }
  return candidates;
}

std::vector<Candidate> allocator_candidates() {
  std::vector<Candidate> candidates;
  for (const char* name : {"torch.expandable", "cuda.async", "torch.native", "rmm.pool", "tf.bfc"})
    candidates.push_back({.kind = RemedyKind::allocator, .policy = {.name = name, .parameters = {}}, .text = name});
  return candidates;
}

/// The recorded allocator with other memory at the start: a pool can't join what it got at different times.
std::vector<Candidate> own_candidates(const Trace& trace, const Prepared& heap) {
  std::vector<Candidate> candidates;
  const std::optional<Bytes> limit = stated_limit(heap);
  const std::optional<PolicySpec> recorded = recorded_policy(trace, heap);
  if (!limit || !recorded || !recorded->parameters.contains("initial")) return candidates;
  for (const Bytes initial : {*limit, 0_B}) {
    Candidate candidate{.policy = *recorded};
    candidate.policy.parameters["initial"] = std::to_string(initial.count);
    candidate.text = recorded->name + " with initial=" + text_of(initial);
    if (candidate.policy != *recorded) candidates.push_back(std::move(candidate));
  }
  return candidates;
}

Prepared on_one_stream(Prepared heap) {
  for (PoolStream& pool_stream : heap.pool_streams) {
    pool_stream.stream = heap.pool_streams.front().stream;
    pool_stream.stream_handle = heap.pool_streams.front().stream_handle;
  }
  return heap;
}

/// As empty_cache() does; of expandable segments it would also unmap pages.
void release_free_segments(InitialState& initial) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < initial.segments.size(); ++i) {
    const InitialSegment& segment = initial.segments[i];
    const auto is_free = [](const InitialBlock& block) { return block.use == InitialUse::free; };
    if (!segment.mapped && std::ranges::all_of(segment.blocks, is_free)) continue;
    if (kept < i) initial.segments[kept] = std::move(initial.segments[i]);
    initial.pool_stream[kept++] = initial.pool_stream[i];
  }
  initial.segments.resize(kept);
  initial.pool_stream.resize(kept);
}

/// A candidate, ready to run.
struct Trial {
  BoundPolicy policy;
  std::span<const Prepared> heaps;
  Outcome outcome;
};

Trial trial_of(const PolicySpec& spec, std::span<const Prepared> heaps) {
  Trial trial{.policy = *bind_policy(spec), .heaps = heaps, .outcome = {}};
  trial.outcome.policy = trial.policy.spec;
  trial.outcome.heaps.resize(heaps.size());
  return trial;
}

/// Runs trials, the likeliest first, as long as there is time. Those without time or memory to run stay empty.
class Runner {
 public:
  Runner(std::size_t runs, unsigned threads,
         const std::function<void(std::uint64_t done, std::uint64_t total)>& on_progress)
      : runs_(runs), threads_(threads), on_progress_(on_progress) {}

  /// `give_up_above`: a replay that reserves more than this ends.
  void run(std::span<Trial> trials, std::span<const DeviceModel> devices, Bytes give_up_above) {
    if (trials.empty()) return;
    const std::size_t heaps = trials.front().heaps.size();
    static_cast<void>(in_parallel(trials.size() * heaps, threads_, [&](std::size_t i) {
      Trial& trial = trials[i / heaps];
      const Prepared& heap = trial.heaps[i % heaps];
      ReplayResult& result = trial.outcome.heaps[i % heaps];
      const std::uint64_t done = ++done_;
      if (std::chrono::steady_clock::now() > deadline()) return;
      result = trial.policy.run(heap, {.device = devices[i % heaps], .give_up_above = give_up_above});
      result.policy = trial.policy.spec;
      if (on_progress_) on_progress_(std::min<std::uint64_t>(done, runs_), runs_);  // the range takes some more
    }));
  }

  std::chrono::steady_clock::time_point deadline() const { return start_ + most_time; }

 private:
  /// Only for policies that are slow on what the program does: `rows` keeps others far below.
  static constexpr std::chrono::seconds most_time{10};

  const std::size_t runs_;
  const unsigned threads_;
  const std::function<void(std::uint64_t done, std::uint64_t total)>& on_progress_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<std::uint64_t> done_ = 0;
};

bool is_complete(const Outcome& outcome) {
  return std::ranges::all_of(outcome.heaps, [](const ReplayResult& r) { return r.events > 0 && !r.defect; });
}

/// Between the least capacity and the largest, which every candidate was replayed at.
constexpr std::size_t capacities_tried = 4;

/// Remedies::most_failures.
std::optional<std::uint64_t> most_failures(const Remedies& remedies, Runner& runner) {
  const auto best = std::ranges::find_if(remedies.tried, [&](const Remedy& each) { return remedies.is_usable(each); });
  if (remedies.least_devices.empty() || best == remedies.tried.end()) return std::nullopt;
  std::uint64_t most = best->outcome.failures();
  for (std::size_t i = 0; i < capacities_tried; ++i) {
    std::vector<DeviceModel> devices = remedies.least_devices;
    for (std::size_t heap = 0; heap < devices.size(); ++heap) {
      const std::uint64_t range = (remedies.devices[heap].capacity - devices[heap].capacity).count;
      devices[heap].capacity += Bytes{range / capacities_tried * i};
    }
    std::array trials{trial_of(remedies.baseline.policy, remedies.heaps),
                      trial_of(best->outcome.policy, remedies.heaps)};
    runner.run(trials, devices, RunOptions{}.give_up_above);
    const bool is_possible = is_complete(trials[0].outcome) && is_complete(trials[1].outcome) &&
                             std::ranges::equal(trials[0].outcome.heaps, remedies.baseline.heaps, {},
                                                &ReplayResult::failed_events, &ReplayResult::failed_events);
    if (is_possible) most = std::max(most, trials[1].outcome.failures());
  }
  return most;
}

/// What the best usable remedy may need on a recording that began late.
void find_late_range(const Trace& trace, Remedies& remedies, const ReplayOptions& limits) {
  const auto best = std::ranges::find_if(remedies.tried, [&](const Remedy& each) { return remedies.is_usable(each); });
  if (best == remedies.tried.end()) return;
  std::vector<Outcome*> outcomes{&best->outcome};
  const bool knows_baseline = !remedies.baseline.heaps.empty();
  if (knows_baseline) outcomes.insert(outcomes.begin(), &remedies.baseline);
  ReplayOptions options = limits;
  if (remedies.is_limited()) options.device = *std::ranges::min_element(remedies.devices, {}, &DeviceModel::capacity);
  find_late_ranges(outcomes, only_pools(trace, prepare(trace)), options);
  if (const auto& late = best->outcome.late; late && !knows_baseline)
    best->outcome.late_saved.emplace(static_cast<std::int64_t>(remedies.baseline_peak.count - late->most().count),
                                     static_cast<std::int64_t>(remedies.baseline_peak.count - late->least().count));
}

Bytes recorded_peak(std::span<const HeapHistory> histories, std::span<const Prepared> heaps) {
  Bytes peak;
  for (const HeapHistory& history : histories)
    for (const Prepared& heap : heaps)
      if (heap.heap == history.heap) peak = std::max(peak, history.peak_reserved);
  return peak;
}

bool are_sampled(std::span<const HeapHistory> histories, std::span<const Prepared> heaps) {
  return std::ranges::any_of(histories, [&](const HeapHistory& history) {
    return history.is_sampled && std::ranges::find(heaps, history.heap, &Prepared::heap) != heaps.end();
  });
}

}  // namespace

std::string_view name_of(RemedyKind kind) {
  switch (kind) {
    case RemedyKind::setting:
      return "setting";
    case RemedyKind::allocator:
      return "allocator";
    case RemedyKind::one_stream:
      break;
  }
  return "one_stream";
}

Bytes saved_by_release(const Trace& trace, HeapId id) {
  std::vector<Prepared> heaps = prepare(trace);
  const auto heap = std::ranges::find(heaps, id, &Prepared::heap);
  if (heap == heaps.end() || !heap->initial) return 0_B;
  const Result<BoundPolicy> policy = bind_policy(spec_of(TorchSettings::recorded(heap->settings)));
  if (!policy) return 0_B;
  const ReplayResult as_it_was = policy->run(*heap, {});
  release_free_segments(*heap->initial);
  const ReplayResult released = policy->run(*heap, {});
  if (as_it_was.defect || released.defect || released.peak_reserved >= as_it_was.peak_reserved) return 0_B;
  return as_it_was.peak_reserved - released.peak_reserved;
}

std::optional<Bytes> stated_limit(const Prepared& heap) {
  const auto limit = heap.settings.find("limit");
  return limit == heap.settings.end() ? std::nullopt : parse_size(limit->second);
}

Remedies untried_remedies(const Trace& trace, std::optional<Bytes> capacity) {
  if (!has_history(trace)) return {};
  Remedies remedies = remedies_of_pools(trace);
  if (remedies.heaps.empty()) return remedies;
  const std::vector<CapacityBounds> bounds = capacity_bounds(trace);
  bool any_bounded = false;
  for (const Prepared& heap : remedies.heaps) {
    const std::optional<bool> by_program = bounds[index(heap.heap)].by_program;
    remedies.sets_fraction |= by_program.value_or(false);
    DeviceModel device = implied_device(heap);
    device.told &= by_program.value_or(true);
    if (const auto given = capacity ? capacity : stated_limit(heap))
      device = {.kind = DeviceModel::Kind::capacity, .capacity = *given};
    remedies.devices.push_back(device);
    const CapacityBounds& known = bounds[index(heap.heap)];
    const bool is_bounded = !capacity && !stated_limit(heap) && !known.stated && known.most &&
                            device.kind == DeviceModel::Kind::capacity && known.least < device.capacity;
    if (is_bounded) device.capacity = known.least;
    any_bounded |= is_bounded;
    remedies.least_devices.push_back(device);
  }
  if (!any_bounded) remedies.least_devices.clear();
  remedies.is_torch = is_torch_heap(trace.tables, remedies.heaps.front().heap);
  return remedies;
}

void replay_remedies(const Trace& trace, std::span<const HeapHistory> histories, Remedies& remedies, std::uint64_t rows,
                     unsigned threads,
                     const std::function<void(std::uint64_t done, std::uint64_t total)>& on_progress) {
  if (remedies.heaps.empty()) return;
  remedies.tried.clear();  // of a call that ran out of memory
  remedies.left_out = 0;
  remedies.most_failures.reset();
  const std::span<const Prepared> heaps = remedies.heaps;
  PolicySpec baseline;
  if (remedies.is_torch) baseline = spec_of(TorchSettings::recorded(heaps.front().settings));
  if (remedies.is_torch && !bind_policy(baseline)) return;
  std::vector<Candidate> candidates =
      remedies.is_torch ? torch_candidates(heaps, baseline, remedies.sets_fraction) : allocator_candidates();
  if (!remedies.is_torch) {
    std::vector<Candidate> own = own_candidates(trace, heaps.front());
    candidates.insert(candidates.begin(), own.begin(), own.end());
  }
  std::erase_if(candidates, [](const Candidate& candidate) { return !bind_policy(candidate.policy); });
  std::uint64_t rows_each = 1;
  for (const Prepared& heap : heaps) rows_each += heap.count();
  const std::size_t affordable = std::max<std::size_t>(1, rows / rows_each);
  if (candidates.size() > affordable) {
    remedies.left_out = candidates.size() - affordable;
    candidates.resize(affordable);
  }

  std::vector<Prepared> one_stream;
  if (std::ranges::any_of(candidates, [](const Candidate& c) { return c.kind == RemedyKind::one_stream; }))
    for (const Prepared& heap : heaps) one_stream.push_back(on_one_stream(heap));
  std::vector<Trial> trials;
  for (const Candidate& candidate : candidates)
    trials.push_back(trial_of(candidate.policy, candidate.kind == RemedyKind::one_stream ? one_stream : heaps));
  Runner runner((trials.size() + (remedies.is_torch ? 1 : 0)) * heaps.size(), threads, on_progress);
  Bytes give_up_above = RunOptions{}.give_up_above;
  if (remedies.is_torch) {
    Trial as_recorded = trial_of(baseline, heaps);
    runner.run(std::span(&as_recorded, 1), remedies.devices, give_up_above);
    remedies.baseline = std::move(as_recorded.outcome);
    remedies.baseline_peak = remedies.baseline.peak_reserved();
    if (misses_peak(are_sampled(histories, heaps), remedies.baseline_peak, recorded_peak(histories, heaps))) {
      remedies.baseline = {};
      remedies.baseline_peak = recorded_peak(histories, heaps);
      return;
    }
    // Peaks only grow. At a limit, it is failures that count.
    if (!remedies.is_limited()) give_up_above = remedies.baseline_peak;
  } else {
    remedies.baseline_peak = recorded_peak(histories, heaps);
  }
  runner.run(trials, remedies.devices, give_up_above);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!is_complete(trials[i].outcome)) {
      ++remedies.left_out;
      continue;
    }
    remedies.tried.push_back(
        {.kind = candidates[i].kind, .text = std::move(candidates[i].text), .outcome = std::move(trials[i].outcome)});
    Outcome& outcome = remedies.tried.back().outcome;
    if (!remedies.is_torch) continue;
    outcome.changes = changes(baseline, outcome.policy);
    outcome.best_known = only_expands(baseline, outcome.policy);
    outcome.every_release = is_widely_usable(outcome.policy, baseline, states_release(heaps));
  }
  // If requests fail, serving them counts; a difference below peak_margin does not.
  const bool fails = remedies.baseline.failures() > 0;
  const auto margin = static_cast<std::int64_t>(peak_margin * static_cast<double>(remedies.baseline_peak.count));
  const auto extra = static_cast<std::int64_t>(release_margin * static_cast<double>(remedies.baseline_peak.count));
  const auto counted = [&](const Remedy& remedy) {
    return remedies.gives_back(remedy) - (remedy.outcome.every_release ? 0 : extra);
  };
  std::int64_t most = 0;
  for (const Remedy& remedy : remedies.tried)
    if (remedy.outcome.failures() == 0) most = std::max(most, counted(remedy));
  std::ranges::stable_sort(remedies.tried, {}, [&](const Remedy& remedy) {
    const std::int64_t saved = counted(remedy);
    const bool equal_to_best = fails || saved >= most - margin;
    const Outcome& outcome = remedy.outcome;
    return std::tuple(outcome.failures(), !equal_to_best, equal_to_best && !outcome.every_release,
                      equal_to_best && !outcome.best_known, outcome.failures() > 0 ? 0 : -saved,
                      outcome.failures() > 0 ? std::pair(outcome.changes, specificity(baseline, outcome.policy))
                                             : std::pair(std::size_t{0}, 0));
  });
  if (fails && remedies.is_torch && 2 * capacities_tried * rows_each <= rows)
    remedies.most_failures = most_failures(remedies, runner);
  if (!fails && remedies.began_late)
    find_late_range(trace, remedies, {.threads = threads, .deadline = runner.deadline()});
}

std::optional<StepPlan> plan_peak_step(const Remedies& remedies) {
  constexpr std::size_t most_allocations = 50'000;
  const auto most_alive = [](const Prepared& each) { return busiest_of(each).alive; };
  const auto heap = std::ranges::max_element(remedies.heaps, {}, most_alive);
  if (heap == remedies.heaps.end()) return std::nullopt;
  const std::vector<std::uint32_t>& ends = heap->step_ends;
  const auto step = static_cast<std::size_t>(std::ranges::upper_bound(ends, busiest_of(*heap).row) - ends.begin());
  const std::optional<plan::TimeRange> rows = rows_of_step(ends, step);
  if (!rows) return std::nullopt;
  const Stretch alive = alive_within(buffers_of(*heap), *rows);
  if (alive.buffers.size() > most_allocations) return std::nullopt;
  const plan::Plan plan = plan::plan_best(alive.buffers, {.effort = plan::effort_to_compare / 10});
  StepPlan found{.step = step + 1, .allocations = alive.buffers.size(), .peak = plan.peak, .bound = plan.bound};
  const auto which = static_cast<std::size_t>(heap - remedies.heaps.begin());
  const auto consider = [&](const Outcome& outcome, const std::string& by) {
    if (outcome.heaps.size() <= which || outcome.failures() > 0 || outcome.gave_up()) return;
    const Bytes reserved = outcome.heaps[which].peak_reserved;
    if (reserved == 0_B || (found.least_reserved > 0_B && reserved >= found.least_reserved)) return;
    found.least_reserved = reserved;
    found.least_by = by;
  };
  if (remedies.is_torch) consider(remedies.baseline, "");
  for (const Remedy& remedy : remedies.tried) consider(remedy.outcome, remedy.text);
  if (found.least_reserved == 0_B) return std::nullopt;
  return found;
}

ReplayResult replay_with(const Remedy& remedy, const Prepared& heap, const DeviceModel& device) {
  const BoundPolicy policy = *bind_policy(remedy.outcome.policy);
  const RunOptions options{.device = device, .stop_at_failure = true};
  return remedy.kind == RemedyKind::one_stream ? policy.run(on_one_stream(heap), options) : policy.run(heap, options);
}

bool survives(const Outcome& outcome, HeapId heap, std::uint32_t failure, std::span<const std::uint32_t> recorded) {
  const auto result =
      std::ranges::find_if(outcome.heaps, [&](const ReplayResult& r) { return r.heap == heap && r.events > 0; });
  if (result == outcome.heaps.end()) return false;
  const std::vector<std::uint32_t>& failed = result->failed_events;
  const bool all_named = result->failed_allocations == failed.size();
  if (!all_named && (failed.empty() || failed.back() < failure)) return false;
  return std::ranges::all_of(failed, [&](std::uint32_t event) {
    return event > failure || (event < failure && std::ranges::binary_search(recorded, event));
  });
}

}  // namespace memreel
