#include "analyzer/cli/insight_json.h"

#include <algorithm>

#include "analyzer/cli/insight_text.h"
#include "formats/model/origin_text.h"

namespace memreel::cli {
namespace {

constexpr std::size_t most_listed = 100;  // segments and sites; keeps documents readable

Json json_of(const Tables& tables, const PoolStreamKey& pool_stream) {
  return {{"stream", stream_label(tables, pool_stream.stream)},
          {"pool", pool_label(tables, pool_stream.pool)},
          {"size_class", pool_stream.small ? "small" : "large"}};
}

Json json_of(const FragmentationPoint& point) {
  return {{"events", point.events},
          {"time_ns", point.time.count()},
          {"reserved_bytes", point.reserved.count},
          {"allocated_bytes", point.allocated.count},
          {"requested_bytes", point.requested.count},
          {"pending_bytes", point.pending.count},
          {"free_bytes", point.free().count},
          {"largest_free_bytes", point.largest_free.count},
          {"hostage_bytes", point.unreleasable.count},
          {"fragmentation", point.fragmentation()}};
}

/// An allocation that is live at `now`.
Json json_of_allocation(const Trace& trace, AllocationId id, Nanoseconds now) {
  const Event event = trace.events[trace.allocation_events[index(id)]];
  return {{"address", event.address.value},
          {"bytes", event.size.count},
          {"event", trace.allocation_events[index(id)]},
          {"age_ns", (now - event.time).count()},
          {"stack", json_of_stack(trace.tables, event.stack)}};
}

Json json_of(const Trace& trace, const PeakRequest& growth) {
  Json json{{"event", growth.event}, {"requested_bytes", growth.requested.count}};
  json.update(json_of(trace.tables, growth.pool_stream));
  json["stranded_stream_bytes"] = growth.stranded_stream.count;
  json["stranded_pool_bytes"] = growth.stranded_pool.count;
  json["stack"] = json_of_stack(trace.tables, growth.stack);
  return json;
}

Json json_of_segments(const Trace& trace, const Fragmentation& found) {
  Json segments = Json::array();
  for (std::size_t i = 0; i < std::min(most_listed, found.pinned.size()); ++i) {
    const PinnedSegment& pinned = found.pinned[i];
    Json pins = Json::array();
    for (const AllocationId pin : pinned.pins) pins.push_back(json_of_allocation(trace, pin, found.at_peak.time));
    Json segment{{"address", pinned.segment.address.value},
                 {"bytes", pinned.segment.size.count},
                 {"hostage_bytes", pinned.segment.unreleasable.count},
                 {"largest_free_bytes", pinned.segment.largest_free.count}};
    segment.update(json_of(trace.tables, pinned.segment.pool_stream));
    segment["pin_count"] = pinned.pin_count;
    segment["pins"] = std::move(pins);
    segments.push_back(std::move(segment));
  }
  return segments;
}

Json json_of_sites(const Trace& trace, const Fragmentation& found) {
  Json sites = Json::array();
  for (std::size_t i = 0; i < std::min(most_listed, found.sites.size()); ++i) {
    const PinningSite& site = found.sites[i];
    sites.push_back({{"hostage_bytes", site.unreleasable.count},
                     {"hostage_alone_bytes", site.alone.count},
                     {"segments", site.segments},
                     {"blocks", site.blocks},
                     {"bytes", site.bytes.count},
                     {"label", site.label},
                     {"stack", json_of_stack(trace.tables, site.stack)}});
  }
  return sites;
}

Json json_of(const Trace& trace, const Fragmentation& found) {
  Json pool_streams = Json::array();
  for (const PoolStreamUse& use : found.pool_streams) {
    Json pool_stream = json_of(trace.tables, use.pool_stream);
    pool_stream.update({{"segments", use.segments},
                        {"reserved_bytes", use.reserved.count},
                        {"live_bytes", use.live.count},
                        {"pending_bytes", use.pending.count},
                        {"free_bytes", use.free().count},
                        {"largest_free_bytes", use.largest_free.count},
                        {"hostage_bytes", use.unreleasable.count}});
    pool_streams.push_back(std::move(pool_stream));
  }
  Json sizes = Json::array();
  for (const SizeClass& size : found.size_classes)
    sizes.push_back({{"from_bytes", size.least.count},
                     {"count", size.count},
                     {"requested_bytes", size.requested.count},
                     {"allocated_bytes", size.allocated.count},
                     {"waste_bytes", size.waste().count}});
  Json over_time = Json::array();
  for (const FragmentationPoint& point : found.over_time) over_time.push_back(json_of(point));
  return {{"device", trace.tables[found.heap].device},
          {"heap", trace.tables[trace.tables[found.heap].name]},
          {"at_peak", json_of(found.at_peak)},
          {"worst", json_of(found.worst)},
          {"growth", found.growth ? json_of(trace, *found.growth) : Json(nullptr)},
          {"pinned_segments", found.pinned.size()},
          {"segments", json_of_segments(trace, found)},
          {"sites", json_of_sites(trace, found)},
          {"lanes", pool_streams},
          {"size_classes", sizes},
          {"over_time", over_time}};
}

Json json_of(const Remedies& remedies) {
  Json tried = Json::array();
  for (const Remedy& remedy : remedies.tried)
    tried.push_back({{"kind", name_of(remedy.kind)},
                     {"setting", remedy.text},
                     {"policy", remedy.outcome.policy.text()},
                     {"peak_reserved_bytes", remedy.outcome.peak_reserved().count},
                     {"gives_back_bytes", remedies.gives_back(remedy)},
                     {"failed_allocations", remedy.outcome.failures()},
                     {"driver_calls", json_of_calls(remedy.outcome.driver_calls())}});
  return {{"peak_reserved_bytes", remedies.baseline_peak.count}, {"not_tried", remedies.left_out}, {"tried", tried}};
}

Json json_of(const std::optional<StepPlan>& plan) {
  if (!plan) return nullptr;
  return {{"step", plan->step},
          {"allocations", plan->allocations},
          {"peak_bytes", plan->peak.count},
          {"bound_bytes", plan->bound.count},
          {"least_reserved_bytes", plan->least_reserved.count},
          {"least_by", plan->least_by.empty() ? Json(nullptr) : Json(plan->least_by)},
          {"saves", plan->saves()}};
}

Json json_of_gap(const Trace& trace, const std::optional<GapMap>& gap, Nanoseconds now) {
  if (!gap) return nullptr;
  Json blocks = Json::array();
  for (std::size_t i = gap->first_shown(); i < gap->end_shown(); ++i) {
    const HeapBlock& block = gap->blocks[i];
    blocks.push_back(
        {{"address", block.address.value},
         {"bytes", block.size.count},
         {"use", name_of(block.use)},
         {"allocation",
          block.allocation == AllocationId::none ? Json(nullptr) : json_of_allocation(trace, block.allocation, now)}});
  }
  Json json{{"bytes", gap->size().count}};
  json.update(json_of(trace.tables, gap->segment.pool_stream));
  json["segment"] = {{"address", gap->segment.address.value}, {"bytes", gap->segment.size.count}};
  json["blocks"] = std::move(blocks);
  return json;
}

Json json_of(const std::optional<Bytes>& bytes) { return bytes ? Json(bytes->count) : Json(nullptr); }

Json json_of(const Trace& trace, const Report& report, const OutOfMemory& oom) {
  const Event event = trace.events[oom.event];
  Json survivors = Json::array();
  for (const std::size_t i : oom.survivors) {
    const Remedy& remedy = report.remedies.tried[i];
    survivors.push_back(
        {{"kind", name_of(remedy.kind)}, {"setting", remedy.text}, {"policy", remedy.outcome.policy.text()}});
  }
  Json serve_only = Json::array();
  for (const OutOfMemory::Served& served : oom.serve_only) {
    const Remedy& remedy = report.remedies.tried[served.remedy];
    serve_only.push_back({{"kind", name_of(remedy.kind)},
                          {"setting", remedy.text},
                          {"policy", remedy.outcome.policy.text()},
                          {"spare_bytes", oom.rest ? Json(nullptr) : Json(served.spare.count)}});
  }
  Json levels = Json::array();
  for (const Refusal& refusal : oom.refusals) {
    const Heap& heap = trace.tables[refusal.heap];
    levels.push_back({{"level", heap.level == Level::driver ? "driver" : "framework"},
                      {"heap", trace.tables[heap.name]},
                      {"requested_bytes", refusal.requested.count},
                      {"events", refusal.events}});
  }
  Json json{{"event", oom.event},
            {"device", trace.tables[oom.heap].device},
            {"heap", trace.tables[trace.tables[oom.heap].name]},
            {"time_ns", event.time.count()},
            {"verdict", name_of(oom.verdict)},
            {"explanation", explanation(oom)},
            {"requested_bytes", oom.requested.count},
            {"needed_bytes", oom.needed.count}};
  json.update(json_of(trace.tables, oom.pool_stream));
  json.update({{"live_bytes", oom.live.count},
               {"allocated_bytes", oom.allocated.count},
               {"pending_bytes", oom.pending.count},
               {"reserved_bytes", oom.reserved.count},
               {"capacity_bytes", json_of(oom.capacity)},
               {"least_capacity_bytes", oom.least_capacity.count},
               {"device_bytes", json_of(oom.device_total)},
               {"device_free_bytes", json_of(oom.device_free)},
               {"free_bytes", oom.free.count},
               {"holes", oom.gaps},
               {"hostage_bytes", oom.unreleasable.count},
               {"lane_free_bytes", oom.free_in_pool_stream.count},
               {"lane_largest_free_bytes", oom.largest_in_pool_stream.count},
               {"largest_free_bytes", oom.largest_free.count},
               {"stranded_stream_bytes", oom.stranded.other_streams.count},
               {"stranded_pool_bytes", oom.stranded.other_pools.count},
               {"fragmentation_index", oom.fragmentation_index},
               {"own_limit", oom.own_limit()},
               {"hole", json_of_gap(trace, oom.gap_in_pool_stream, event.time)},
               {"largest_hole", json_of_gap(trace, oom.largest_gap, event.time)},
               {"levels", std::move(levels)},
               {"survivors", survivors},
               {"serve_only", serve_only},
               {"rest_of_step", oom.rest ? Json{{"more_bytes", oom.rest->more.count},
                                                {"earlier_steps", oom.rest->rounds},
                                                {"growth", oom.rest->growth}}
                                         : Json(nullptr)},
               {"ends_history", oom.is_last},
               {"held_outside_bytes", json_of(oom.held_outside())},
               {"stack", json_of_stack(trace.tables, event.stack)}});
  return json;
}

}  // namespace

Json json_of_fragmentation(const Trace& trace, const Report& report) {
  Json heaps = Json::array();
  for (const Fragmentation& found : report.fragmentation) heaps.push_back(json_of(trace, found));
  return {{"heaps", heaps}, {"remedies", json_of(report.remedies)}, {"step_plan", json_of(report.step_plan)}};
}

Json json_of_oom_setting(const Report& report) {
  if (!report.ooms.answer) return nullptr;
  const Remedy& remedy = report.remedies.tried[report.ooms.answer->remedy];
  return {{"kind", name_of(remedy.kind)},
          {"setting", remedy.text},
          {"policy", remedy.outcome.policy.text()},
          {"served_requests", report.ooms.answer->served},
          {"fragmented_requests", report.ooms.fragmented}};
}

Json json_of_ooms(const Trace& trace, const Report& report) {
  Json ooms = Json::array();
  for (const OutOfMemory& oom : report.ooms.examined) ooms.push_back(json_of(trace, report, oom));
  return ooms;
}

}  // namespace memreel::cli
