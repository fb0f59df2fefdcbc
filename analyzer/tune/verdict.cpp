#include <algorithm>
#include <string>

#include "analyzer/tune/search_space.h"
#include "analyzer/tune/tune.h"
#include "formats/model/quantity.h"

namespace memreel {
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
      return "It serves every request; the settings in use fail " + text_of(base.failures()) +
             (base.failures() == 1 ? " time." : " times.");
    const Bytes saved = base.peak_reserved() - best->peak_reserved();
    return "It saves " + text_of(saved) + ", " +
           text_of_share(saved_share(base.peak_reserved(), best->peak_reserved())) + " of the peak.";
  }
  if (base.failures() > 0) return nothing_fits(result);
  if (result.missed_peak > 0_B)
    return "Not known: the recording began late, and its replay reserves " + text_of(base.peak_reserved()) +
           ", not the " + text_of(result.missed_peak) +
           " recorded. What was cached before it began, torch.cuda.empty_cache() gives back; to compare settings, "
           "record "
           "from the start of the program.";
  if (result.limited) return "Nothing needs to be set: the settings in use serve every request.";
  return nothing_helps(result);
}

}  // namespace memreel
