// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/tune/tune.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "analyzer/replay/beginning.h"
#include "analyzer/replay/engine/parallel.h"
#include "analyzer/replay/policies/torch_host.h"
#include "analyzer/replay/recorded_device.h"
#include "analyzer/replay/registry.h"
#include "analyzer/replay/shared_device.h"
#include "analyzer/replay/torch_rules.h"
#include "analyzer/replay/tune/search_space.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

constexpr std::size_t most_min_capacities = 5;  // each takes a dozen replays
constexpr std::size_t refined = 3;

Error out_of_memory() {
  return {.what = "not enough host memory to replay these settings", .remedy = "allow more with --max-memory"};
}

/// A policy on heaps, some of which may be modified.
struct Trial {
  BoundPolicy policy;
  std::span<const Prepared> heaps;
  RunOptions options;
};

bool ends_with_failure(const Prepared& heap) {
  const auto requests = [](Op op) { return op == Op::alloc || op == Op::alloc_failed; };
  const auto last = std::find_if(heap.op.rbegin(), heap.op.rend(), requests);
  return last != heap.op.rend() && *last == Op::alloc_failed;
}

class Tuner {
 public:
  Tuner(std::span<const Prepared> heaps, const TuneOptions& options)
      : recorded_(heaps),
        begun_(any_late(heaps) ? begun_afresh(heaps) : std::vector<Prepared>()),
        heaps_(begun_.empty() ? heaps : begun_),
        options_(options),
        groups_(groups_of()) {}

  Result<TuneResult> run(const PolicySpec& asked) {
    auto trials = trials_of(std::span(&asked, 1));
    if (!trials) return std::move(trials).error();
    PolicySpec& complete = trials->front().policy.spec;
    if (complete.name == "torch.expandable") complete.name = "torch.native";  // one of its settings
    baseline_ = complete;
    auto allocators = trials_of(options_.allocators);
    if (!allocators) return std::move(allocators).error();
    std::vector<std::vector<Prepared>> changed(options_.questions.size());
    auto alternatives = alternatives_to(changed);
    if (!alternatives) return std::move(alternatives).error();

    result_.precedes_rules = precede_rules(recorded_);
    result_.ends_in_failure = std::ranges::any_of(recorded_, ends_with_failure);
    planned_ = heaps_.size() * (1 + allocators->size() + alternatives->size());
    auto outcomes = outcomes_of(*trials);
    if (!outcomes) return std::move(outcomes).error();
    result_.baseline = std::move(outcomes->front());
    result_.limited = std::ranges::any_of(result_.baseline.heaps, [](const ReplayResult& r) {
      return r.device_model.kind == DeviceModel::Kind::capacity;
    });
    outcomes = outcomes_of(*allocators);
    if (!outcomes) return std::move(outcomes).error();
    std::erase_if(*outcomes, [](const Outcome& outcome) { return !was_replayed(outcome); });
    result_.allocators = *std::move(outcomes);
    rank(result_.allocators, result_.limited);
    outcomes = outcomes_of(*alternatives);
    if (!outcomes) return std::move(outcomes).error();
    for (std::size_t i = 0; i < outcomes->size(); ++i)
      if (was_replayed(outcomes->at(i)))
        result_.alternatives.push_back(
            {.question = options_.questions[i], .calls = calls_[i], .outcome = std::move(outcomes->at(i))});
    if (has_settings(baseline_))
      if (auto fine = search(); !fine) return std::move(fine).error();
    if (baseline_.name == TorchHostSettings::policy) find_least_unrounded_peak();
    find_late_ranges();
    return std::move(result_);
  }

 private:
  DeviceModel device_of(const Prepared& heap) const {
    if (options_.device) return *options_.device;
    return implied_device(heap);
  }

  Result<std::vector<Trial>> trials_of(std::span<const PolicySpec> specs) const {
    std::vector<Trial> trials;
    for (const PolicySpec& spec : specs) {
      auto policy = bind_policy(spec);
      if (!policy) return std::move(policy).error();
      trials.push_back(
          {.policy = *std::move(policy), .heaps = keeps_free_memory(spec) ? heaps_ : recorded_, .options = {}});
    }
    return trials;
  }

  /// `changed` owns the heaps that the trials run on.
  Result<std::vector<Trial>> alternatives_to(std::vector<std::vector<Prepared>>& changed) {
    std::vector<Trial> trials;
    for (std::size_t i = 0; i < options_.questions.size(); ++i) {
      const WhatIf& question = options_.questions[i];
      const bool other = question.kind == WhatIf::Kind::policy;
      auto trial = trials_of(std::span(other ? &question.policy : &baseline_, 1));
      if (!trial) return std::move(trial).error();
      trials.push_back(std::move(trial->front()));
      trials.back().options.empty_cache_on_failure = question.kind == WhatIf::Kind::empty_cache_at_oom;
      calls_.push_back(0);
      if (other || question.kind == WhatIf::Kind::empty_cache_at_oom) continue;
      for (const Prepared& heap : heaps_) {
        if (question.kind == WhatIf::Kind::no_empty_cache) {
          calls_.back() += empty_cache_calls(heap);
          changed[i].push_back(without_empty_cache(heap));
          continue;
        }
        if (question.kind == WhatIf::Kind::empty_cache_at_steps && heap.step_ends.empty())
          return Error{.what = "the trace marks no steps, and shows none, for " + question.text,
                       .remedy =
                           "record them with torch.profiler.record_function(\"step\"), or use "
                           "empty_cache@every:5000events"};
        const auto rows = rows_of_calls(heap, question);
        calls_.back() += rows.size();
        changed[i].push_back(with_empty_cache(heap, rows));
      }
      trials.back().heaps = changed[i];
    }
    return trials;
  }

  static bool was_replayed(const Outcome& outcome) {
    return std::ranges::none_of(outcome.heaps, [](const ReplayResult& r) { return r.policy.name.empty(); });
  }

  bool is_inside(const Prepared& heap) const {
    return options_.around && std::ranges::find(options_.around->inside, heap.heap) != options_.around->inside.end();
  }

  /// Whether a given capacity is also for others on its device. Heaps inside others take nothing from it.
  bool shares_device(const Prepared& heap) const {
    return options_.around && options_.device && options_.device->kind == DeviceModel::Kind::capacity &&
           heap.device >= 0 && !is_inside(heap);
  }

  /// Indices of the heaps that are replayed together: those that share a device.
  std::vector<std::vector<std::size_t>> groups_of() const {
    std::vector<std::vector<std::size_t>> groups;
    std::map<std::int32_t, std::size_t> of_device;
    for (std::size_t i = 0; i < heaps_.size(); ++i) {
      if (!shares_device(heaps_[i])) {
        groups.push_back({i});
        continue;
      }
      const auto [group, is_new] = of_device.try_emplace(heaps_[i].device, groups.size());
      if (is_new) groups.emplace_back();
      groups[group->second].push_back(i);
    }
    return groups;
  }

  std::span<const HeldFrom> beside(const Prepared& heap) const {
    if (!shares_device(heap)) return {};
    const auto held = options_.around->beside.find(heap.device);
    return held == options_.around->beside.end() ? std::span<const HeldFrom>() : std::span(held->second);
  }
  Bytes most_beside(const Prepared& heap) const {
    Bytes most;
    for (const HeldFrom& from : beside(heap)) most = std::max(most, from.held);
    return most;
  }

  /// What the peaks of all else leave of the device that the heaps share, if its capacity is given.
  DeviceModel least_device_of(std::span<const std::size_t> group, std::size_t heap) const {
    DeviceModel device = device_of(heaps_[heap]);
    if (!shares_device(heaps_[heap])) return device;
    Bytes held = most_beside(heaps_[heap]);
    for (const std::size_t other : group)
      if (other != heap) held += result_.baseline.heaps[other].peak_reserved;
    device.capacity = device.capacity - std::min(device.capacity, held);
    return device;
  }

  /// By heap of the group.
  std::vector<ReplayResult> run(const Trial& trial, std::span<const std::size_t> group, RunOptions options) const {
    const Prepared& first = trial.heaps[group.front()];
    std::vector<ReplayResult> results;
    const auto known = std::ranges::find(policies(), trial.policy.spec.name, &PolicyInfo::name);
    const bool is_alone = group.size() == 1 && beside(first).empty();
    if (is_alone || (known != policies().end() && known->needs_whole_trace)) {
      if (is_inside(first)) options.device = DeviceModel{};
      Bytes held = most_beside(first);  // and, one heap after the other, what those before reserve
      const DeviceModel whole = options.device;
      for (const std::size_t heap : group) {
        options.device.capacity = whole.capacity - std::min(whole.capacity, held);
        results.push_back(trial.policy.run(trial.heaps[heap], options));
        held += results.back().peak_reserved;
      }
      return results;
    }
    std::vector<const Prepared*> heaps;
    for (const std::size_t heap : group) heaps.push_back(&trial.heaps[heap]);
    SharedReplay shared = SharedDevice(std::move(heaps), beside(first)).replay(trial.policy, options.device, options);
    std::uint64_t refused = 0;
    for (ReplayResult& heap : shared.heaps) {
      refused += heap.failed_allocations;
      heap.unfinished |= shared.unfinished;
    }
    // A device may be over its capacity although it refused nothing.
    shared.heaps.front().failed_allocations += shared.failed_allocations - std::min(shared.failed_allocations, refused);
    return std::move(shared.heaps);
  }

  Result<std::vector<Outcome>> outcomes_of(std::span<const Trial> trials) {
    std::vector<Outcome> outcomes;
    for (const Trial& trial : trials)
      outcomes.push_back({.policy = trial.policy.spec,
                          .changes = changes(baseline_, trial.policy.spec),
                          .best_known = only_expands(baseline_, trial.policy.spec),
                          .every_release = is_widely_usable(trial.policy.spec, baseline_, states_release(heaps_)),
                          .heaps = std::vector<ReplayResult>(heaps_.size())});
    const bool enough_memory = in_parallel(trials.size() * groups_.size(), options_.threads, [&](std::size_t i) {
      const Trial& trial = trials[i / groups_.size()];
      const std::vector<std::size_t>& group = groups_[i % groups_.size()];
      if (baseline_is_known_ && std::chrono::steady_clock::now() > options_.deadline) return;
      RunOptions options = trial.options;
      options.device = device_of(trial.heaps[group.front()]);
      if (baseline_is_known_) options.deadline = options_.deadline;
      std::vector<ReplayResult> results = run(trial, group, options);
      for (std::size_t k = 0; k < group.size(); ++k) {
        if (results[k].unfinished) continue;
        results[k].policy = trial.policy.spec;
        outcomes[i / groups_.size()].heaps[group[k]] = std::move(results[k]);
      }
      report_progress(group.size());
    });
    if (!enough_memory) return out_of_memory();
    baseline_is_known_ = true;
    for (const Outcome& outcome : outcomes)
      if (!was_replayed(outcome)) ++result_.left_out;
    return outcomes;
  }

  void report_progress(std::size_t replays) {
    if (!options_.on_progress) return;
    const std::lock_guard lock(progress_);
    options_.on_progress(done_ += replays, planned_);
  }

  Result<void> search() {
    const std::vector<Dimension> space = search_space(heaps_, baseline_, options_.sets_fraction);
    if (auto fine = add(single_changes(baseline_, space)); !fine) return fine;
    if (worth_searching()) {
      if (auto fine = add(combined_changes(baseline_, best_of(space))); !fine) return fine;
      if (auto fine = add(refinements()); !fine) return fine;
    }
    drop_idle_changes();
    rank(result_.settings, result_.limited);
    return find_min_capacities();
  }

  /// Replays `specs`, except those already replayed and those whose values PyTorch does not accept together.
  Result<void> add(std::vector<PolicySpec> specs) {
    std::erase_if(specs, [](const PolicySpec& spec) { return !bind_policy(spec); });
    auto trials = trials_of(specs);
    if (!trials) return std::move(trials).error();
    std::erase_if(*trials, [&](const Trial& trial) {
      return trial.policy.spec == baseline_ ||
             std::ranges::any_of(result_.settings, [&](const Outcome& o) { return o.policy == trial.policy.spec; });
    });
    for (Trial& trial : *trials) trial.options.give_up_above = not_worth_finishing();
    planned_ += trials->size() * heaps_.size();
    auto outcomes = outcomes_of(*trials);
    if (!outcomes) return std::move(outcomes).error();
    for (Outcome& outcome : *outcomes) {
      if (!was_replayed(outcome)) continue;
      ++result_.tried;
      if (outcome.gave_up())
        ++result_.given_up;
      else
        result_.settings.push_back(std::move(outcome));
    }
    return {};
  }

  Bytes least_peak() const {
    Bytes least = result_.baseline.peak_reserved();
    for (const Outcome& outcome : result_.settings)
      if (outcome.failures() == 0) least = std::min(least, outcome.peak_reserved());
    return least;
  }

  /// A setting that reserves more is not among the best. In the first round, everything matters.
  Bytes not_worth_finishing() const {
    if (result_.limited || result_.settings.empty()) return RunOptions{}.give_up_above;
    return Bytes{static_cast<std::uint64_t>(static_cast<double>(least_peak().count) * (1 + peak_margin))};
  }

  /// Whether an allocator without any overhead would improve the peak by more than what counts as equal.
  bool worth_searching() const {
    if (result_.limited) return true;
    Bytes floor;
    for (const ReplayResult& r : result_.baseline.heaps) floor = std::max(floor, r.peak_live);
    return saved_share(least_peak(), floor) > peak_margin;
  }

  /// The dimensions with only the values that were best alone.
  std::vector<Dimension> best_of(std::span<const Dimension> space) const {
    std::vector<Outcome> ranked = result_.settings;
    rank(ranked, result_.limited);
    std::vector<Dimension> best;
    for (const Dimension& dimension : space) {
      const bool many = dimension.parameter == "max_split_size_mb" || dimension.parameter == "roundup_power2_divisions";
      best.push_back({.parameter = dimension.parameter, .values = {}});
      for (const Outcome& outcome : ranked) {
        const std::string& value = outcome.policy.parameters.at(dimension.parameter);
        if (value != baseline_.parameters.at(dimension.parameter) && best.back().values.size() < (many ? 2U : 1U))
          best.back().values.push_back(value);
      }
    }
    return best;
  }

  /// A request rounded to a power of two was at least half of it plus a byte.
  void find_least_unrounded_peak() {
    const auto settings = TorchHostSettings::parse(baseline_.parameters);
    std::vector<Prepared> heaps(heaps_.begin(), heaps_.end());
    bool any = false;
    for (Prepared& heap : heaps)
      for (Bytes& size : heap.size) {
        if (size < 4_B || !settings || settings->round(size) != size || settings->round(size - 1_B) != size) continue;
        size = Bytes{size.count / 2 + 1};
        any = true;
      }
    if (!any) return;
    PolicySpec exact = baseline_;
    exact.parameters[TorchHostSettings::threshold_key] = "0";
    const auto policy = bind_policy(exact);
    if (!policy) return;
    Bytes most;
    for (const Prepared& heap : heaps) most = std::max(most, policy->run(heap, {}).peak_reserved);
    result_.least_unrounded_peak = most;
  }

  /// How much larger an oversize block may be than its request matters only if there are oversize blocks.
  std::vector<PolicySpec> refinements() const {
    std::vector<Outcome> ranked = result_.settings;
    rank(ranked, result_.limited);
    std::vector<PolicySpec> specs;
    std::size_t taken = 0;
    for (const Outcome& outcome : ranked) {
      const auto split = outcome.policy.parameters.find("max_split_size_mb");
      if (split == outcome.policy.parameters.end() || split->second == "unlimited") continue;
      for (const char* rounding : {"40", "100", "200", "500"}) {
        specs.push_back(outcome.policy);
        specs.back().parameters["max_non_split_rounding_mb"] = rounding;
      }
      if (++taken == refined) break;
    }
    return specs;
  }

  /// Drops combinations that do no better than fewer of their changes.
  void drop_idle_changes() {
    const auto does_the_same = [](const Outcome& a, const Outcome& b) {
      return a.peak_reserved() == b.peak_reserved() && a.failures() == b.failures() &&
             a.driver_calls() == b.driver_calls();
    };
    const std::vector<Outcome> all = result_.settings;
    std::erase_if(result_.settings, [&](const Outcome& outcome) {
      if (outcome.changes < 2) return false;
      return does_the_same(outcome, result_.baseline) || std::ranges::any_of(all, [&](const Outcome& simpler) {
               return changes(baseline_, simpler.policy) + changes(simpler.policy, outcome.policy) == outcome.changes &&
                      simpler.changes < outcome.changes && does_the_same(outcome, simpler);
             });
    });
  }

  /// The baseline, the best few, and the best value of each setting alone: what reserves more where memory is plentiful
  /// may fit in less, as settings do that keep large blocks whole.
  std::vector<Outcome*> to_be_bounded() {
    std::vector<Outcome*> outcomes{&result_.baseline};
    std::set<std::vector<std::string>> alone;
    for (std::size_t i = 0; i < result_.settings.size(); ++i) {
      Outcome& outcome = result_.settings[i];
      const bool is_first_alone =
          outcome.changes == 1 && alone.insert(changed_parameters(baseline_, outcome.policy)).second;
      if (i < most_min_capacities || is_first_alone) outcomes.push_back(&outcome);
    }
    for (Outcome& outcome : result_.allocators) outcomes.push_back(&outcome);
    return outcomes;
  }

  /// If the question is what fits.
  Result<void> find_min_capacities() {
    if (!result_.limited) return {};
    const std::vector<Outcome*> outcomes = to_be_bounded();
    std::vector<PolicySpec> specs;
    specs.reserve(outcomes.size());
    for (const Outcome* outcome : outcomes) specs.push_back(outcome->policy);
    const ReplayOptions options{
        .find_min_capacity = true, .series_points = 0, .threads = options_.threads, .deadline = options_.deadline};
    std::vector<std::optional<Bytes>> least;  // by policy, then heap or device
    if (std::ranges::any_of(heaps_, [&](const Prepared& heap) { return shares_device(heap); })) {
      const auto replayed = replay_devices(heaps_, specs, options, *options_.around);
      if (!replayed) return replayed.error();
      for (const DeviceReplay& device : *replayed) least.push_back(device.min_capacity);
    } else {
      const auto replayed = replay(heaps_, specs, options);
      if (!replayed) return replayed.error();
      for (const ReplayResult& heap : *replayed) least.push_back(heap.min_capacity);
    }
    const std::size_t each = least.size() / outcomes.size();
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      const std::span of_policy = std::span(least).subspan(i * each, each);
      const auto known = [](const std::optional<Bytes>& capacity) { return capacity.has_value(); };
      if (of_policy.empty() || !std::ranges::all_of(of_policy, known)) {  // no device is large enough, or no time
        if (std::chrono::steady_clock::now() > options_.deadline) ++result_.left_out;
        continue;
      }
      outcomes[i]->min_capacity = *std::ranges::max(of_policy);
    }
    return {};
  }

  /// Of the baseline, the best settings, and the allocators that keep free memory.
  void find_late_ranges() {
    std::vector<Outcome*> outcomes{&result_.baseline};
    for (std::size_t i = 0; i < std::min(most_min_capacities, result_.settings.size()); ++i)
      outcomes.push_back(&result_.settings[i]);
    for (Outcome& outcome : result_.allocators)
      if (keeps_free_memory(outcome.policy)) outcomes.push_back(&outcome);
    std::optional<DeviceModel> least_device = options_.device;
    if (least_device)
      for (const std::vector<std::size_t>& group : groups_)
        for (const std::size_t heap : group)
          least_device->capacity = std::min(least_device->capacity, least_device_of(group, heap).capacity);
    memreel::find_late_ranges(outcomes, recorded_,
                              {.device = least_device, .threads = options_.threads, .deadline = options_.deadline});
  }

  std::span<const Prepared> recorded_;  // may have begun late
  std::vector<Prepared> begun_;         // their likely beginnings; empty: none is late
  std::span<const Prepared> heaps_;     // what is replayed
  const TuneOptions& options_;
  std::vector<std::vector<std::size_t>> groups_;
  PolicySpec baseline_;
  bool baseline_is_known_ = false;
  std::vector<std::size_t> calls_;
  TuneResult result_;
  std::mutex progress_;
  std::uint64_t done_ = 0, planned_ = 0;
};

}  // namespace

Result<TuneResult> tune(std::span<const Prepared> heaps, const PolicySpec& baseline, const TuneOptions& options) {
  return Tuner(heaps, options).run(baseline);
}

}  // namespace memreel
