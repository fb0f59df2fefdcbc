// SPDX-License-Identifier: Apache-2.0
// What the settings that were tried say: which to use, and why or why not.
#include <algorithm>

#include "analyzer/replay/tune/search_space.h"
#include "analyzer/replay/tune/tune.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

/// The least and the most that it saves, as shares of the baseline's peak.
std::pair<double, double> saved_shares_of(const Outcome& base, const Outcome& other) {
  const auto [least, most] = other.saved_of(base.peak_reserved());
  const auto peak = static_cast<double>(std::max<std::uint64_t>(1, base.peak_reserved().count));
  return {static_cast<double>(least) / peak, static_cast<double>(most) / peak};
}

/// "saves 3.8 to 5.3 % of the peak", "saves 9.5 % of the peak or needs 1.2 % more".
std::string saved_words(const Outcome& base, const Outcome& other) {
  const auto [least, most] = saved_shares_of(base, other);
  if (least < 0) return "saves " + text_of_share(most) + " of the peak or needs " + text_of_share(-least) + " more";
  return "saves " + text_of_range(text_of_share(least), text_of_share(most)) + " of the peak";
}

}  // namespace

const Outcome* TuneResult::fits_in_less() const {
  const Outcome* least = nullptr;
  for (const Outcome& outcome : settings)
    if (outcome.min_capacity && outcome.failures() == 0 &&
        (least == nullptr || *outcome.min_capacity < *least->min_capacity))
      least = &outcome;
  if (least == nullptr || !baseline.min_capacity) return nullptr;
  return saved_share(*baseline.min_capacity, *least->min_capacity) < worthwhile_share(*least) ? nullptr : least;
}

const Outcome* TuneResult::recommended() const {
  if (settings.empty() || settings.front().failures() > 0) return nullptr;
  const Outcome& best = settings.front();
  if (baseline.failures() > 0) return &best;
  if (limited || missed_peak > 0_B) return nullptr;
  return saved_shares_of(baseline, best).first < worthwhile_share(best) ? nullptr : &best;
}

namespace {

Bytes part(Bytes whole, double share) {
  return Bytes{static_cast<std::uint64_t>(static_cast<double>(whole.count) * std::clamp(share, 0.0, 1.0))};
}

/// The parts of the reserved memory at its peak.
std::string peak_made_of(const ReplayResult& r) {
  const Bytes allocated = r.peak_reserved - part(r.peak_reserved, r.fragmentation_at_peak);
  const Bytes wasted = part(allocated, r.internal_waste);
  return "of the " + text_of(r.peak_reserved) + " at the peak, " + text_of(allocated - wasted) + " were live, " +
         text_of(wasted) + " went to rounding and unsplit remainders, and " + text_of(r.peak_reserved - allocated) +
         " were cached";
}

/// Whether it saves enough to be recommended however a late recording began, or only as it may have begun.
bool may_help(const Outcome& base, const Outcome& other) {
  return saved_shares_of(base, other).second >= worthwhile_share(other);
}

Bytes bytes_of(std::int64_t saved) { return Bytes{static_cast<std::uint64_t>(std::max<std::int64_t>(0, saved))}; }

std::string nothing_helps(const TuneResult& result) {
  const Outcome& base = result.baseline;
  const ReplayResult& worst = base.worst();
  Bytes live;
  for (const ReplayResult& r : base.heaps) live = std::max(live, r.peak_live);
  const double room = saved_share(base.peak_reserved(), live);
  std::string text = "No setting helps: ";
  if (room < 0.05) {
    text += text_of_share(1 - room) + " of the peak is live memory, so no allocator can save more than " +
            text_of_share(room);
  } else {
    const auto best = std::ranges::min_element(result.settings, {}, [](const Outcome& o) { return o.peak_reserved(); });
    const double saved = best == result.settings.end() ? 0 : saved_share(base.peak_reserved(), best->peak_reserved());
    text += saved > 0 ? "the best saves " + text_of_share(saved) : std::string("none needs less than those in use");
    if (saved > 0 && !best->every_release) text += ", but needs PyTorch " + needs_release(best->policy);
    text += "; " + peak_made_of(worst);
  }
  return text + ".";
}

std::string nothing_fits(const TuneResult& result) {
  const Outcome& base = result.baseline;
  for (const ReplayResult& r : base.heaps) {
    // Failed requests do not count as live: with a limit, the peak is only known to be at least this.
    if (r.first_failure && r.first_failure->live + r.first_failure->requested > r.device_model.capacity)
      return "Nothing fits: the program itself holds " + text_of(r.first_failure->live) + " when it requests another " +
             text_of(r.first_failure->requested) + ", more than the " + text_of(r.device_model.capacity) +
             " available, whatever the allocator.";
  }
  std::string text = "None of the settings tried serves every request";
  const Outcome* nearest = nullptr;
  for (const Outcome& outcome : result.settings)
    if (outcome.min_capacity && (nearest == nullptr || *outcome.min_capacity < *nearest->min_capacity))
      nearest = &outcome;
  if (nearest != nullptr && *nearest->min_capacity > base.worst().device_model.capacity)
    text += "; one of them would with " + text_of(*nearest->min_capacity);
  else if (nearest != nullptr)
    text += "; some fail only where the recorded run failed";
  return text + ".";
}

std::string of_recording(const TuneResult& result) { return result.ends_in_failure ? " of the recording" : ""; }

/// What to set where the device has less memory.
std::string less_memory(const TuneResult& result) {
  const Outcome* const less = result.fits_in_less();
  if (less == nullptr) return "";
  return " With less memory: " + name_of_settings(conf_of(less->policy)) + " fits in " + text_of(*less->min_capacity) +
         ", those in use in " + text_of(*result.baseline.min_capacity) + ".";
}

/// What `memreel report` may know from earlier steps.
std::string beyond_failure(const TuneResult& result) {
  return result.ends_in_failure
             ? " The recording ends in a failed request: whether the rest of its step fits is another "
               "question (memreel report --oom)."
             : "";
}

}  // namespace

std::string verdict(const TuneResult& result) {
  const Outcome& base = result.baseline;
  if (result.least_unrounded_peak)
    return "Request sizes are recorded rounded up to powers of two. Without rounding the peak of " +
           text_of(base.peak_reserved()) + " would be between " + text_of(*result.least_unrounded_peak) +
           " and that: record with pinned_max_round_threshold_mb:0 (PyTorch 2.13 and newer) to see the requested "
           "sizes.";
  if (result.tried == 0) return {};
  if (const Outcome* best = result.recommended()) {
    if (result.limited)
      return "It serves every request" + of_recording(result) + "; the settings in use fail " +
             text_of(base.failures()) + (base.failures() == 1 ? " time." : " times.") + beyond_failure(result);
    const auto [least, most] = best->saved_of(base.peak_reserved());
    const auto [least_share, most_share] = saved_shares_of(base, *best);
    return "It saves " + text_of_range(text_of(bytes_of(least)), text_of(bytes_of(most))) + ", " +
           text_of_range(text_of_share(least_share), text_of_share(most_share)) + " of the peak" +
           (least == most ? "." : ", depending on what was cached before the recording began.");
  }
  if (base.failures() > 0) return nothing_fits(result);
  if (result.missed_peak > 0_B && result.missed_samples)
    return "Not known: the program reserved " + text_of(result.missed_peak) + ", and a replay with " +
           name_of_settings(conf_of(base.policy)) + " reserves " + text_of(base.peak_reserved()) +
           ". The recording has neither the allocator's settings nor its segments: to compare settings, record a "
           "history, with torch.cuda.memory._record_memory_history() or memreel record.";
  if (result.missed_peak > 0_B)
    return "Not known: the recording began late, and its replay reserves " + text_of(base.peak_reserved()) +
           ", not the " + text_of(result.missed_peak) +
           " recorded. What was cached before it began, torch.cuda.empty_cache() gives back; to compare settings, "
           "record "
           "from the start of the program.";
  if (!result.limited && !result.settings.empty() && may_help(base, result.settings.front()))
    return "Not known: the recording began late. Depending on what was cached before, the best setting tried " +
           saved_words(base, result.settings.front()) + ": to compare settings, record from the start of the program.";
  if (result.limited)
    return "Nothing needs to be set: the settings in use serve every request" + of_recording(result) + "." +
           less_memory(result) + beyond_failure(result);
  return nothing_helps(result);
}

}  // namespace memreel
