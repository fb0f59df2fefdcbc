// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/predict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "analyzer/predict/align.h"
#include "analyzer/predict/cards.h"
#include "analyzer/replay/beginning.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

/// Calls `use(allocation of the base, bytes)` for everything live at the peak, at `at`.
template <class Use>
void for_each_held(const Model& model, const Values& at, const Assumption& assumption, Use use) {
  ReplayedPrediction replayed(model, at);
  const Target target = model.target(at);
  const ReplayResult result = replayed.replay({.name = "bound.live"}, {}, assumption);
  const Trace& trace = replayed.predicted_run().trace;
  std::vector<bool> freed(trace.events.allocation_count());
  for (std::uint32_t i = 0; i <= result.peak_live_event && i < trace.events.count(); ++i)
    if (trace.events.kind(i) == EventKind::free_requested) freed[index(trace.events.allocation(i))] = true;
  for (std::size_t a = 0; a < freed.size() && trace.events.begin_of(AllocationId(a)) <= result.peak_live_event; ++a) {
    if (freed[a]) continue;
    const PredictedRun::Source& source = replayed.predicted_run().sources[a];
    const std::uint32_t event = model.base->requests.rows[source.row].event;
    use(model.base->trace.events.allocation(event),
        source.scratch ? *source.scratch : model.size_of(source.row, source.copy, target, assumption));
  }
}

template <class Held, class Key>
std::vector<Held> most_grown_first(const std::map<Key, Held>& all) {
  std::vector<Held> sorted;
  for (const auto& [key, held] : all) sorted.push_back(held);
  std::ranges::stable_sort(sorted, std::greater{}, [](const Held& held) {
    return static_cast<std::int64_t>(held.predicted.count) - static_cast<std::int64_t>(held.recorded.count);
  });
  return sorted;
}

}  // namespace

LiveAtPeak live_at_peak(const Model& model, const Categories& categories, const Values& at,
                        const Assumption& assumption) {
  std::map<StackId, LiveBySite> sites;
  std::map<Category, LiveByCategory> by_category;
  const Trace& trace = model.base->trace;
  const auto add_up = [&](const Values& values, Bytes LiveBySite::*of_site, Bytes LiveByCategory::*of_category) {
    for_each_held(model, values, assumption, [&](AllocationId allocation, Bytes bytes) {
      const StackId stack = trace.events.stack(trace.events.begin_of(allocation));
      LiveBySite& site = sites[stack];
      site.stack = stack;
      site.*of_site += bytes;
      const Category category = categories.category(allocation);
      LiveByCategory& held = by_category[category];
      held.category = category;
      held.*of_category += bytes;
    });
  };
  add_up(model.base->at, &LiveBySite::recorded, &LiveByCategory::recorded);
  add_up(at, &LiveBySite::predicted, &LiveByCategory::predicted);
  return {.sites = most_grown_first(sites), .categories = most_grown_first(by_category)};
}

namespace {

/// From this share of bytes without a counterpart, and from this error of predicting a recording from the others,
/// recordings are doubted.
constexpr double doubtful_share = 0.1, doubtful_error = 0.1;
/// A larger run's live peak may be this much lower without doubt: libraries choose algorithms.
constexpr double doubtful_fall = 0.02;

/// Requests with less uncertain memory than this can hardly move a peak.
constexpr Bytes least_uncertain = 1_MiB;
/// The number of assumptions replayed per base if sizes are uncertain.
constexpr std::uint64_t draws = 11, wide_draws = 4;
/// The least share of the reserved peak by which the range exceeds what was replayed, per doubling of the largest
/// recording: libraries may choose differently than in any recording.
constexpr double least_margin = 0.005;
/// The share of the bytes with unconfirmed sizes that is added to it.
constexpr double unconfirmed_margin = 0.2;
/// The share of the bytes without an exact function that is added to it.
constexpr double inexact_margin = 1.0 / 8;
constexpr double least_aligned = 0.5;
constexpr std::uint64_t furthest = 1U << 20U;
constexpr double longest_run = 1U << 22U;  // requests
constexpr double longest_search = 16e6;    // of all runs replayed for it, at least

std::string text_of(const Values& at, const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t p = 0; p < names.size(); ++p) text += (p > 0 ? "," : "") + names[p] + "=" + std::to_string(at[p]);
  return text;
}

Peaks peaks_of(const ReplayResult& result) {
  return {.live = result.peak_live, .allocated = result.peak_allocated, .reserved = result.peak_reserved};
}

DeviceModel device_of(const std::optional<Bytes>& capacity) {
  if (!capacity) return {};
  return {.kind = DeviceModel::Kind::capacity, .capacity = *capacity};
}

Bytes middle(std::vector<Bytes> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

double distance(Bytes a, Bytes b) {
  return std::abs(static_cast<double>(a.count) - static_cast<double>(b.count)) /
         static_cast<double>(std::max(b, 1_B).count);
}

/// The recording at `at`; else the largest that is not larger; else the smallest. With `repeats` not the smallest,
/// which can't tell which of its requests are repeats, unless it is at `at`.
std::size_t base_for(Recordings recordings, const Values& at, bool repeats) {
  if (const auto same = std::ranges::find(recordings, at, &Recording::at); same != recordings.end())
    return static_cast<std::size_t>(same - recordings.begin());
  std::size_t base = repeats ? 1 : 0;
  for (std::size_t r = 0; r < recordings.size(); ++r)
    if (scale(at, recordings[r]->at) >= 1) base = std::max(base, r);
  return base;
}

bool is_uncertain(const Model& model, const Values& at) {
  if (model.recorded_at(at)) return false;
  const Target target = model.target(at);
  return std::ranges::any_of(model.rules, [&](const SizeRule& rule) {
    return !rule.exact && rule.at(target, Assumption::Size::most, true) >= least_uncertain;
  });
}

std::vector<const Recording*> pointers_to(const std::vector<std::unique_ptr<Recording>>& recordings) {
  std::vector<const Recording*> pointers;
  for (const auto& recording : recordings) pointers.push_back(recording.get());
  return pointers;
}

/// A replay that may match the run.
struct Member {
  std::size_t base = 0, layout = 0;  // recordings
  Assumption assumption;
  Peaks peaks;

  Bytes reserved() const { return peaks.reserved; }
};

/// Of two medians, takes the first.
Member median_of(std::span<const Member> members) {
  std::vector<Bytes> reserved;
  for (const Member& member : members) reserved.push_back(member.reserved());
  std::ranges::sort(reserved);
  const Bytes least = reserved[(reserved.size() - 1) / 2], most = reserved[reserved.size() / 2];
  const Bytes first = members.front().reserved();
  return *std::ranges::find(members, first == least ? least : most, &Member::reserved);
}

/// The assumption suggested by all sizes is likely. For other sizes no assumption is likelier than another: the middle
/// has the smallest largest error.
Member middle_of(std::vector<Member> members) {
  std::erase_if(members, [](const Member& member) { return member.assumption.widely || member.layout != member.base; });
  std::vector<Bytes> live;
  for (const Member& member : members) live.push_back(member.peaks.live);
  const Bytes middle_live = middle(std::move(live));
  const auto [least, most] = std::ranges::minmax(members, {}, &Member::reserved);
  const Bytes middle_reserved{std::midpoint(least.reserved().count, most.reserved().count)};
  return *std::ranges::min_element(members, {}, [&](const Member& member) {
    return distance(member.peaks.live, middle_live) + distance(member.peaks.reserved, middle_reserved);
  });
}

/// The best-supported value, without the range.
std::optional<Peaks> predict_left_out(Recordings others, const Values& at, const PolicySpec& policy,
                                      std::span<const GpuTraits> gpu) {
  if (others.size() < 2) return std::nullopt;
  const bool repeats = !learn(others, 1, gpu).repeats.empty();
  // There are never fewer repeats than in the smallest recording.
  if (repeats && scale(at, others.front()->at) < 1) return std::nullopt;
  const Model model = learn(others, base_for(others, at, repeats), gpu);
  return peaks_of(ReplayedPrediction(model, at).replay(policy, {}, {}));
}

bool makes_same_requests(const Requests& a, const Requests& b) {
  return a.rows.size() == b.rows.size() && std::ranges::equal(a.rows, b.rows, {}, &Request::size, &Request::size);
}

/// Whether the run fits a device that others are on, too, with what is held then.
void find_fit(ReplayedPrediction& replayed, const PredictOptions& options, Prediction& prediction) {
  const DeviceReplay device =
      replayed.replay_with_others(options.policy, device_of(options.capacity), prediction.assumption);
  prediction.device_peak = device.peak_reserved;
  prediction.beside = device.beside_at_peak;
  if (!device.heaps.empty()) prediction.first_failure = device.heaps.front().first_failure;
  if (prediction.first_failure) {
    prediction.beside = {};
    for (const HeldFrom& from : replayed.predicted_run().beside)
      if (from.event <= prediction.first_failure->event) prediction.beside = from.held;
  } else if (device.failed_allocations > 0) {
    // No request of the allocator fails, but the others no longer fit beside what it holds.
    prediction.first_failure = ReplayFailure{.event = device.peak_event,
                                             .reserved = device.peak_reserved - device.beside_at_peak,
                                             .capacity = *options.capacity};
  }
}

bool is_late(const PredictOptions& options) { return std::chrono::steady_clock::now() > options.deadline; }

struct RecordedPeaks {
  Peaks peaks;
  double less = 0, more = 0;  // shares by which the reserved peak may differ if the recording began late (beginning.h)
};

/// Also records the segments granted in the recording.
Result<RecordedPeaks> replay_recording(Recording& recording, const PolicySpec& policy) {
  std::vector<Prepared> heaps = prepare(recording.trace);
  std::erase_if(heaps, [&](const Prepared& heap) { return heap.heap != recording.heap; });
  const std::vector<Prepared> late = any_late(heaps) ? heaps : std::vector<Prepared>();
  for (Prepared& heap : heaps) heap.initial.reset();  // predictions begin without cached memory
  const std::array specs{policy};
  const ReplayOptions options{.device = DeviceModel{}, .series_points = 1, .threads = 1};
  Result<std::vector<ReplayResult>> results = replay(heaps, specs, options);
  if (!results) return std::move(results).error();
  if (results->empty()) return Error{.what = "holds no requests to learn from", .where = recording.file.string()};
  RecordedPeaks recorded{.peaks = peaks_of(results->front()), .less = 0, .more = 0};
  const double likely = static_cast<double>(std::max(recorded.peaks.reserved, 1_B).count);
  for_each_beginning(late, [&](std::span<const Prepared> begun) {
    const auto then = replay(begun, specs, options);
    if (!then || then->empty()) return;
    const double change = static_cast<double>(then->front().peak_reserved.count) / likely - 1;
    recorded.less = std::max(recorded.less, -change);
    recorded.more = std::max(recorded.more, change);
  });
  if (!heaps.empty()) recording.segments = std::move(heaps.front().segments);
  return recorded;
}

}  // namespace

Result<Predictor> Predictor::make(std::vector<Recording> recordings, PredictOptions options) {
  if (recordings.size() < 2)
    return Error{.what = "one recording can't show what grows", .remedy = "give two or more, at different values"};
  std::ranges::stable_sort(recordings, [](const Recording& a, const Recording& b) { return scale(a.at, b.at) < 1; });
  Predictor made;
  made.options_ = std::move(options);
  for (Recording& recording : recordings) {
    for (const auto& other : made.recordings_)
      if (other->at == recording.at)
        return Error{.what = "two recordings are at " + text_of(recording.at, made.options_.names),
                     .where = recording.file.string(),
                     .remedy = "give one for each value"};
    recording.requests = requests_of(recording.trace, recording.heap);
    made.recordings_.push_back(std::make_unique<Recording>(std::move(recording)));
  }
  for (std::size_t r = 1; r < made.recordings_.size(); ++r) {
    const Recording &before = *made.recordings_[r - 1], &now = *made.recordings_[r];
    if (makes_same_requests(before.requests, now.requests))
      return Error{.what = "makes the same requests at " + text_of(now.at, made.options_.names) + " as " +
                           before.file.string() + " at " + text_of(before.at, made.options_.names),
                   .where = now.file.string(),
                   .remedy = "is it the same file? If not, the memory does not depend on what differs: leave one out"};
  }
  const Recording& largest = *made.recordings_.back();
  auto next_site = static_cast<std::uint32_t>(largest.trace.tables.stacks.size());
  for (const auto& recording : made.recordings_)
    if (recording.get() != &largest)
      next_site =
          adopt_sites(largest.trace.tables, largest.requests, recording->trace.tables, recording->requests, next_site);
  const std::vector<const Recording*> all = pointers_to(made.recordings_);
  Model of_largest = learn(all, all.size() - 1, known_gpus(made.options_.gpu.value_or(GpuTraits{})));
  const std::array gpu{of_largest.recorded_on};
  for (std::size_t base = 0; base < all.size(); ++base) {
    const Result<RecordedPeaks> recorded = replay_recording(*made.recordings_[base], made.options_.policy);
    if (!recorded) return recorded.error();
    made.recorded_.push_back(recorded->peaks);
    made.late_less_ = std::max(made.late_less_, recorded->less);
    made.late_more_ = std::max(made.late_more_, recorded->more);
    made.models_.push_back(base + 1 < all.size() ? learn(all, base, gpu) : std::move(of_largest));
    made.models_.back().predicted_for = made.options_.gpu.value_or(gpu.front());
    made.categories_.push_back(classify(all[base]->trace));
    const Model& model = made.models_.back();
    const double aligned =
        static_cast<double>(model.aligned.count) / static_cast<double>(std::max(model.requested, 1_B).count);
    if (aligned < least_aligned)
      return Error{
          .what = "can't be aligned with the other recordings: " + std::to_string(std::lround(aligned * 100)) +
                  " % of the bytes that it requests have a counterpart in another",
          .where = all[base]->file.string(),
          .remedy = "record the same program with the same settings, stacks included, and change nothing but " +
                    text_of(all[base]->at, made.options_.names)};
  }
  double worst = 0;
  for (std::size_t r = 0; r < all.size(); ++r) {
    std::vector<const Recording*> others = all;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(r));
    made.left_out_.push_back({.at = all[r]->at, .recorded = made.recorded_[r], .predicted = {}});
    if (is_late(made.options_)) continue;
    made.left_out_.back().predicted = predict_left_out(others, all[r]->at, made.options_.policy, gpu);
    if (const auto& predicted = made.left_out_.back().predicted)
      worst = std::max(worst, distance(predicted->reserved, made.recorded_[r].reserved));
  }
  made.left_out_error_ = worst;
  // What has no counterpart appears in only one recording: it may be anything else in a larger run.
  made.margin_ = least_margin + (1 - made.aligned_share());
  // Between the sizes that are tried for a request without a function there are others.
  made.margin_ += inexact_margin * (1 - made.exact_share());
  // For two sizes that no single power joins, nothing suggests a line.
  if (const Model& model = made.models_.back(); all.size() == 2)
    made.margin_ += unconfirmed_margin * static_cast<double>(model.unconfirmed.count) /
                    static_cast<double>(std::max(model.requested, 1_B).count);
  for (std::size_t r = 1; r < all.size(); ++r)
    made.unknown_older_ = std::max(made.unknown_older_, unmatched_older(all[r - 1]->requests, all[r]->requests,
                                                                        growth_ratios(all[r - 1]->at, all[r]->at)));
  made.find_doubts();
  return made;
}

void Predictor::find_doubts() {
  const auto at = [&](std::size_t r) { return text_of(recordings_[r]->at, options_.names); };
  const auto percent = [](double share) { return std::to_string(std::lround(share * 100)) + " %"; };
  for (std::size_t r = 1; r < recorded_.size(); ++r)
    if (static_cast<double>(recorded_[r].live.count) <
        (1 - doubtful_fall) * static_cast<double>(recorded_[r - 1].live.count))
      doubts_.push_back("the live peak falls from " + memreel::text_of(recorded_[r - 1].live) + " at " + at(r - 1) +
                        " to " + memreel::text_of(recorded_[r].live) + " at " + at(r) +
                        ": are the values right, and is it the same program with the same settings?");
  const std::string& settings = recordings_.back()->settings;
  for (std::size_t r = 0; r + 1 < recorded_.size(); ++r)
    if (!settings.empty() && !recordings_[r]->settings.empty() && recordings_[r]->settings != settings)
      doubts_.push_back("the recording at " + at(r) + " ran with " + recordings_[r]->settings +
                        ", and is replayed with " + settings + ", the settings of the one at " +
                        at(recorded_.size() - 1));
  if (is_late(options_))
    doubts_.emplace_back("there was no time to predict the recordings from each other: the range may be wider");
  if (left_out_error_ >= doubtful_error)
    doubts_.push_back("predicted from the others, a recording is missed by up to " + percent(left_out_error_) +
                      ": the range is as wide");
  if (const double lacking = 1 - aligned_share(); lacking >= doubtful_share)
    doubts_.push_back(percent(lacking) + " of the requested bytes have no counterpart in another recording");
  if (std::ranges::any_of(recordings_, [](const auto& recording) { return recording->requests.ends.size() < 2; }))
    doubts_.emplace_back(
        "a recording holds one step at most: what later ones add, such as an optimizer's state, is missing");
  if (std::ranges::any_of(recordings_, [](const auto& recording) { return !older_of(recording->requests).empty(); }))
    doubts_.push_back("recordings began late: what is older is known by its sizes, " +
                      (unknown_older_ > 0_B ? memreel::text_of(unknown_older_) + " of it in one of them only"
                                            : std::string("all of it in each of them")) +
                      (late_less_ + late_more_ >= doubtful_share
                           ? "; what was cached before widens the range by " + percent(late_less_ + late_more_)
                           : ""));
}

Prediction Predictor::predict(const Values& at) const {
  const std::vector<const Recording*> all = pointers_to(recordings_);
  const std::size_t base = base_for(all, at, !models_[1].repeats.empty());
  std::vector<Member> members;
  bool complete = true;
  const auto add = [&](std::size_t from) {
    ReplayedPrediction predicted_run(models_[from], at);
    const bool uncertain = is_uncertain(models_[from], at);
    using Size = Assumption::Size;
    std::vector<Assumption> assumptions{{.all = Size::likely, .widely = false}};
    if (uncertain) {
      for (const bool widely : {false, true}) {
        for (const Size size : {Size::least, Size::most}) assumptions.push_back({.all = size, .widely = widely});
        for (std::uint64_t draw = 1; draw <= (widely ? wide_draws : draws); ++draw)
          assumptions.push_back({.draw = draw, .widely = widely});
      }
    }
    const auto replay = [&](std::size_t layout, const Assumption& assumption) {
      if (!complete) return;
      const auto deadline = members.empty() ? ReplayedPrediction::Deadline::max() : options_.deadline;
      const ReplayResult result = predicted_run.replay(options_.policy, {}, assumption, deadline);
      complete = !result.policy.name.empty();
      if (complete) members.push_back({from, layout, assumption, peaks_of(result)});
    };
    for (const Assumption& assumption : assumptions) replay(from, assumption);
    // Which of several free blocks is the lowest depends on the addresses that the system gave the process.
    for (std::size_t layout = 0; layout < all.size(); ++layout) {
      if (layout == from) continue;
      predicted_run.begin_with(recordings_[layout]->segments);
      replay(layout, assumptions.front());
    }
    return uncertain;
  };
  const bool uncertain = add(base);
  // A larger run may choose as the next smaller recording did. With repeats, that recording makes other requests.
  if (uncertain && base > 0 && models_[base].repeats.empty()) add(base - 1);

  const auto [lowest, highest] = std::ranges::minmax(members, {}, &Member::reserved);
  const bool recorded = models_[base].recorded_at(at);  // replayed first, with its own addresses
  const Member chosen = recorded ? members.front() : uncertain ? middle_of(members) : median_of(members);
  Prediction prediction{.at = at,
                        .peaks = chosen.peaks,
                        .assumption = chosen.assumption,
                        .base = chosen.base,
                        .layout = chosen.layout,
                        .complete = complete};
  const double doublings = std::abs(std::log2(scale(at, recordings_[base]->at)));
  const double margin = recorded ? least_margin : margin_ * (1 + doublings) + left_out_error_;
  const auto times = [](Bytes size, double factor) {
    return Bytes{static_cast<std::uint64_t>(static_cast<double>(size.count) * factor)};
  };
  // The placement of copies may change the result by a segment.
  const Bytes segment = models_[base].repeats.empty() ? TorchSettings::small_segment : TorchSettings{}.large_segment;
  const Bytes low = times(lowest.reserved(), std::max(0.0, 1 - margin - late_less_));
  const Bytes unknown = recorded ? 0_B : times(unknown_older_, std::max(1.0, scale(at, recordings_[base]->at)));
  prediction.reserved_low = low > segment + unknown ? low - segment - unknown : Bytes{};
  prediction.reserved_high = times(highest.reserved(), 1 + margin + late_more_) + segment + unknown;
  if (options_.capacity && complete) {
    ReplayedPrediction predicted_run(models_[chosen.base], at);
    predicted_run.begin_with(recordings_[chosen.layout]->segments);
    find_fit(predicted_run, options_, prediction);
  }
  return prediction;
}

Result<void> Predictor::can_predict(const Values& at) const {
  for (const Model& model : models_)
    if (model.requests(at) > longest_run)
      return Error{.what = "a run at " + text_of(at, options_.names) + " makes more requests than can be replayed",
                   .remedy = "ask for less"};
  return {};
}

std::uint64_t Predictor::largest_that_fits(const Values& at, std::size_t which) const {
  // All runs with at most as many requests as were recorded are replayed.
  constexpr double tries = 64;
  double recorded_requests = 0, replayed = 0;
  for (const auto& recording : recordings_) recorded_requests += static_cast<double>(recording->requests.rows.size());
  const double most = std::max(longest_search, tries * draws * recorded_requests);
  const auto fits = [&](std::uint64_t value) {
    Values tried = at;
    tried[which] = value;
    if (!can_predict(tried)) return false;
    for (const Model& model : models_) replayed += draws * model.requests(tried);
    if (replayed > most || is_late(options_)) return false;
    const Prediction prediction = predict(tried);
    return prediction.complete && !prediction.first_failure;
  };
  std::uint64_t recorded = 1;
  for (const auto& recording : recordings_) recorded = std::max(recorded, recording->at[which]);
  std::uint64_t good = 0, bad = recorded;
  while (fits(bad)) {
    good = bad;
    if (bad >= recorded * furthest) return good;
    bad *= 2;
  }
  while (bad - good > 1) {
    const std::uint64_t between = good + (bad - good) / 2;
    (fits(between) ? good : bad) = between;
  }
  return good;
}

PredictedRun Predictor::predicted_run(const Prediction& prediction) const {
  const Model& model = models_[prediction.base];
  PredictedRun predicted_run = synthesize(model, prediction.at, prediction.assumption);
  predicted_run.segments = recordings_[prediction.layout]->segments;
  predicted_run.trace.header.source_name += " at " + text_of(prediction.at, options_.names);
  if (options_.policy.name == "torch.native")
    if (const auto settings = TorchSettings::parse(options_.policy.parameters, options_.policy.name))
      place(predicted_run, *settings);
  return predicted_run;
}

LiveAtPeak Predictor::held(const Prediction& prediction) const {
  return live_at_peak(models_[prediction.base], categories_[prediction.base], prediction.at, prediction.assumption);
}

std::vector<UncertainSite> Predictor::uncertain(const Prediction& prediction) const {
  const Model& model = models_[prediction.base];
  if (model.recorded_at(prediction.at)) return {};
  const Target target = model.target(prediction.at);
  const Trace& trace = model.base->trace;
  std::map<StackId, UncertainSite> sites;
  for (std::uint32_t row = 0; row < model.base->requests.rows.size(); ++row) {
    const SizeRule& rule = model.rules[model.rule_of[row]];
    if (rule.exact) continue;
    const Bytes least = rule.at(target, Assumption::Size::least, true);
    const Bytes most = rule.at(target, Assumption::Size::most, true);
    if (most < least + least_uncertain) continue;
    const StackId stack = trace.events.stack(model.base->requests.rows[row].event);
    UncertainSite& site = sites[stack];
    ++site.requests;
    if (most - least > site.most - site.least) site = {stack, site.requests, least, most};
  }
  std::vector<UncertainSite> sorted;
  for (const auto& [stack, site] : sites) sorted.push_back(site);
  std::ranges::stable_sort(sorted, std::greater{}, [](const UncertainSite& site) { return site.most - site.least; });
  return sorted;
}

std::vector<Prediction> Predictor::curve(const Values& from, const Values& to, std::size_t which,
                                         std::size_t count) const {
  const std::uint64_t begin = std::min(from[which], to[which]), span = std::max(from[which], to[which]) - begin;
  const std::uint64_t steps = std::max<std::uint64_t>(1, std::min<std::uint64_t>(span, count - 1));
  std::vector<Prediction> curve;
  for (std::uint64_t step = 0; step <= (span == 0 ? 0 : steps) && !is_late(options_); ++step) {
    Values at = to;
    at[which] = begin + static_cast<std::uint64_t>(static_cast<double>(span) * static_cast<double>(step) /
                                                   static_cast<double>(steps));
    curve.push_back(predict(at));
  }
  return curve;
}

double Predictor::aligned_share() const {
  const Model& model = models_.back();
  return static_cast<double>(model.aligned.count) / static_cast<double>(std::max(model.requested, 1_B).count);
}

double Predictor::exact_share() const {
  const Model& model = models_.back();
  return static_cast<double>(model.exact.count) / static_cast<double>(std::max(model.requested, 1_B).count);
}

}  // namespace memreel
