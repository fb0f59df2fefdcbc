// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "analyzer/cli/output.h"
#include "analyzer/cli/report.h"

namespace memreel::cli {
namespace {

/// Null for unknown values: no name, no steps.
Json known(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }
Json known(std::uint32_t number) { return number == 0 ? Json(nullptr) : Json(number); }

Json json_of(const Tables& tables, const Verdict::Decides& decides) {
  return {{"device", decides.device},
          {"heap", tables[tables[decides.heap].name]},
          {"devices", decides.devices},
          {"peak_live_bytes", decides.peak_live.count},
          {"peak_reserved_bytes", decides.peak_reserved.count},
          {"peak_event", decides.peak_event},
          {"peak_after_ns", decides.peak_time.count()},
          {"step", known(decides.step)},
          {"steps", known(decides.steps)},
          {"failed_requests", decides.failed},
          {"fragmentation_failures", decides.fragmented},
          {"first_failure", decides.requested == 0_B ? Json(nullptr)
                                                     : Json{{"requested_bytes", decides.requested.count},
                                                            {"live_bytes", decides.live.count},
                                                            {"reason", known(decides.reason)},
                                                            {"site", decides.site}}}};
}

Json json_of(const Holders& holders) {
  Json parts = Json::array();
  for (const Holder& holder : holders.parts)
    parts.push_back({{"label", holder.label},
                     {"bytes", holder.bytes.count},
                     {"mostly", holder.mostly.empty() ? Json(nullptr) : Json(holder.mostly)},
                     {"by_size", holder.by_size}});
  return {{"by", holders.by},
          {"bytes", holders.total.count},
          {"parts", std::move(parts)},
          {"graph_bytes", holders.graphs.running.count},
          {"earlier_graph_bytes", holders.graphs.earlier.count},
          {"autocast_bytes", holders.graphs.autocast.count},
          {"past_backward_bytes", holders.graphs.past_backward.count}};
}

Json json_of(const Verdict::Leaks& leaks) {
  const bool judged = leaks.not_judged.empty();
  return {{"steps", known(leaks.steps)},
          {"unit", judged ? Json(unit_of(leaks.unit)) : Json(nullptr)},
          {"bytes", leaks.bytes.count},
          {"growth_bytes_per_step", leaks.growth_bytes_per_step},
          {"causes", leaks.causes},
          {"site", known(leaks.site)},
          {"suspected", leaks.suspected},
          {"not_judged", known(leaks.not_judged)},
          {"unrecorded", leaks.unrecorded},
          {"on_host", leaks.on_host},
          {"host_growth_bytes_per_step", leaks.host_growth_bytes_per_step}};
}

Json json_of(const Verdict::KeptBy& kept) {
  return {{"text", kept.text}, {"bytes", kept.bytes.count}, {"is_leak", kept.is_leak}};
}

Json json_of(const Verdict::Fragments& found) {
  return {{"reserved_bytes", found.reserved.count},
          {"allocated_bytes", found.allocated.count},
          {"unreleasable_bytes", found.unreleasable.count},
          {"fragmentation", found.share},
          {"inherited", found.inherited},
          {"releasable_bytes", found.releasable.count},
          {"free_at_failure_bytes", found.free_at_failure.count},
          {"largest_at_failure_bytes", found.largest_at_failure.count},
          {"site", known(found.site)}};
}

Json json_of(const Verdict::Setting& setting) {
  return {{"kind", setting.is_torch ? "setting" : "allocator"},
          {"recommended", known(setting.text)},
          {"needs_release", known(setting.needs)},
          {"peak_reserved_bytes", setting.peak.count},
          {"saved_bytes", setting.saved.count},
          {"failed_allocations", setting.failed},
          {"most_failed_allocations", std::max(setting.failed, setting.failed_at_most)},
          {"failed_allocations_as_recorded", setting.failed_before},
          {"tried", setting.tried},
          {"exact", setting.exact}};
}

template <class Part>
Json part_of(const std::optional<Part>& part) {
  return part ? json_of(*part) : Json(nullptr);
}

}  // namespace

Json json_of_verdict(const Tables& tables, const Verdict& verdict) {
  Json lines = Json::array();
  for (const VerdictLine& line : lines_of(verdict))
    lines.push_back({{"topic", line.topic}, {"text", line.text}, {"alarm", line.alarm}});
  Json others = Json::array();
  for (const Verdict::Other& other : verdict.others)
    others.push_back({{"device", other.device}, {"live_bytes", other.live.count}});
  return {{"lines", std::move(lines)},
          {"decides", verdict.decides ? json_of(tables, *verdict.decides) : Json(nullptr)},
          {"others", std::move(others)},
          {"held_by", part_of(verdict.holders)},
          {"leaks", part_of(verdict.leaks)},
          {"kept_by", part_of(verdict.kept_by)},
          {"fragmentation", part_of(verdict.fragmentation)},
          {"setting", part_of(verdict.setting)}};
}

}  // namespace memreel::cli
