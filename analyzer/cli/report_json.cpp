// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/report.h"

#include <algorithm>

#include "analyzer/analysis/history/device_tree.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/report_leaks.h"
#include "analyzer/describe/own_frame.h"
#include "formats/model/stack_text.h"

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
  const Event event = trace.events[trace.events.begin_of(id)];
  return {{"address", event.address.value},
          {"bytes", event.size.count},
          {"event", trace.events.begin_of(id)},
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
          {"lanes", std::move(pool_streams)},
          {"size_classes", std::move(sizes)},
          {"over_time", std::move(over_time)}};
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
  return {{"peak_reserved_bytes", remedies.baseline_peak.count},
          {"not_tried", remedies.left_out},
          {"tried", std::move(tried)}};
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
  for (const HeapBlock& block : gap->blocks) {
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
    const Remedy& remedy = report.remedies().tried[i];
    survivors.push_back(
        {{"kind", name_of(remedy.kind)}, {"setting", remedy.text}, {"policy", remedy.outcome.policy.text()}});
  }
  Json serve_only = Json::array();
  for (const OutOfMemory::Served& served : oom.serve_only) {
    const Remedy& remedy = report.remedies().tried[served.remedy];
    serve_only.push_back({{"kind", name_of(remedy.kind)},
                          {"setting", remedy.text},
                          {"policy", remedy.outcome.policy.text()},
                          {"serves_step", oom.rest ? Json(served.reach == Reach::step) : Json(nullptr)},
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
               {"survivors", std::move(survivors)},
               {"serve_only", std::move(serve_only)},
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
  for (const Fragmentation& found : report.fragmentation()) heaps.push_back(json_of(trace, found));
  return {{"heaps", std::move(heaps)},
          {"remedies", json_of(report.remedies())},
          {"step_plan", json_of(report.step_plan())}};
}

Json json_of_oom_setting(const Report& report) {
  if (!report.ooms().answer) return nullptr;
  const Remedy& remedy = report.remedies().tried[report.ooms().answer->remedy];
  return {{"kind", name_of(remedy.kind)},
          {"setting", remedy.text},
          {"policy", remedy.outcome.policy.text()},
          {"served_requests", report.ooms().answer->served},
          {"fragmented_requests", report.ooms().fragmented}};
}

Json json_of_ooms(const Trace& trace, const Report& report) {
  Json ooms = Json::array();
  for (const OutOfMemory& oom : report.ooms().examined) ooms.push_back(json_of(trace, report, oom));
  return ooms;
}

namespace {

Json json_of(const Statistic& s) {
  return {{"current", s.current}, {"peak", s.peak}, {"allocated", s.allocated}, {"freed", s.freed}};
}

Json json_of(const PoolStatistics& s) {
  return {{"all", json_of(s.all)}, {"large_pool", json_of(s.large)}, {"small_pool", json_of(s.small)}};
}

// Uses the names of torch.cuda.memory_stats(), for easy comparison.
Json json_of(const MemorySummary& summary) {
  return {{"exact", summary.exact},
          {"num_ooms", summary.ooms},
          {"num_alloc_retries", summary.alloc_retries},
          {"allocated_bytes", json_of(summary.allocated_bytes)},
          {"active_bytes", json_of(summary.active_bytes)},
          {"requested_bytes", json_of(summary.requested_bytes)},
          {"reserved_bytes", json_of(summary.reserved_bytes)},
          {"inactive_split_bytes", json_of(summary.inactive_split_bytes)},
          {"allocation", json_of(summary.allocations)},
          {"active", json_of(summary.active)},
          {"segment", json_of(summary.segments)},
          {"inactive_split", json_of(summary.inactive_split)},
          {"oversize_allocations", json_of(summary.oversize_allocations)},
          {"oversize_segments", json_of(summary.oversize_segments)}};
}

Json json_of(const Trace& trace, const HeapReport& heap, const LiveView& view, const Report& report, bool allocations) {
  Json groups = Json::array();
  for (const LiveGroup& group : view.groups) {
    Json entry{{"label", group.label}, {"bytes", group.bytes.count}, {"count", group.count}};
    reserve(entry, entry.size() + 2);
    entry["stack"] = json_of_stack(trace.tables, group.stack);
    if (allocations) {
      entry["allocations"] = Json::array();
      for (const AllocationId id : group.allocations) {
        const Event event = trace.events[trace.events.begin_of(id)];
        entry["allocations"].push_back({{"address", event.address.value}, {"bytes", event.size.count}});
      }
    }
    groups.push_back(std::move(entry));
  }
  Json categories = Json::array();
  for (const CategoryShare& share : view.categories)
    categories.push_back({{"category", name_of(share.category)},
                          {"bytes", share.bytes.count},
                          {"count", share.count},
                          {"evidence", row_of(share.evidence).name}});
  return {{"device", trace.tables[heap.history.heap].device},
          {"heap", trace.tables[trace.tables[heap.history.heap].name]},
          {"by", name_of(report.by)},
          {"events", view.events},
          {"bytes", view.bytes.count},
          {"count", view.count},
          {"categories", std::move(categories)},
          {"groups", std::move(groups)}};
}

Json json_of_spans(const Trace& trace, const HeapReport& heap) {
  Json phases = Json::array();
  for (const PhasePeak& at : heap.phases)
    phases.push_back(
        {{"phase", name_of(at.phase)}, {"peak_live_bytes", at.peak.live.count}, {"events", at.peak.events}});
  Json ranges = Json::array();
  for (const RangePeak& range : heap.ranges)
    ranges.push_back({{"name", range.name},
                      {"parent", range.parent ? Json(*range.parent) : Json(nullptr)},
                      {"count", range.count},
                      {"peak_live_bytes", range.peak.live.count},
                      {"events", range.peak.events},
                      {"rise_bytes", range.rise.count}});
  Json groups = Json::array();
  for (const GroupPeak& group : heap.groups)
    groups.push_back({{"label", group.label},
                      {"peak_live_bytes", group.peak.count},
                      {"events", group.events},
                      {"count", group.count}});
  return {{"device", trace.tables[heap.history.heap].device},
          {"heap", trace.tables[trace.tables[heap.history.heap].name]},
          {"phases", std::move(phases)},
          {"ranges", std::move(ranges)},
          {"groups", std::move(groups)}};
}

Json json_of_trees(const Trace& trace, const std::vector<DeviceMemory>& devices) {
  Json trees = Json::array();
  for (const DeviceMemory& device : devices) {
    Json heaps = Json::array();
    for (const DeviceTreeRow& row : tree_rows(device)) {
      if (row.node > TreeNode::part) continue;  // below
      heaps.push_back({{"heap", name_of(trace.tables, row)},
                       {"level", trace.tables[row.heap].level == Level::driver ? "driver" : "framework"},
                       {"parent", row.parent ? Json(*row.parent) : Json(nullptr)},
                       {"peak_bytes", row.peak.count},
                       {"bytes", row.whole.count},
                       {"from_device_bytes", row.from_device.count},
                       {"live_bytes", row.live.count}});
    }
    Json samples;
    if (device.samples)
      samples = {{"device_bytes", device.samples->total.count},
                 {"pools_unused_bytes", device.samples->pools.count},
                 {"graphs_bytes", device.samples->graphs.count},
                 {"of_nobody_bytes", device.samples->of_nobody.count}};
    trees.push_back({{"device", device.device},
                     {"driver_recorded", device.has_driver},
                     {"peak_held_bytes", device.peak_held.held.count},
                     {"peak_held_event", device.peak_held.event},
                     {"live_bytes", device.peak_held.live.count},
                     {"peak_live_bytes", device.peak_live.live.count},
                     {"heaps", std::move(heaps)},
                     {"samples", std::move(samples)}});
  }
  return trees;
}

Json json_of_pools(const Trace& trace, const HeapReport& heap) {
  Json pools = Json::array();
  for (const PrivatePool& pool : heap.pools) {
    Json json = json_of_fields(trace.tables, pool);
    json["uses"] = Json::array();
    for (const PoolUse& use : pool.uses) json["uses"].push_back(json_of_fields(trace.tables, use));
    pools.push_back(std::move(json));
  }
  return {{"device", trace.tables[heap.history.heap].device},
          {"heap", trace.tables[trace.tables[heap.history.heap].name]},
          {"pools", std::move(pools)}};
}

Json json_of_holders(const Trace& trace) {
  const PythonHolders& found = trace.python_holders;
  if (found.empty()) return nullptr;
  Json rows = Json::array();
  for (const PythonHolder& row : found.rows) rows.push_back(json_of_fields(trace.tables, row));
  return {{"time_ns", found.time.count()},
          {"took_ns", found.took.count()},
          {"objects", found.objects},
          {"note", found.note.empty() ? Json(nullptr) : Json(found.note)},
          {"rows", std::move(rows)}};
}

Json json_of_errors(const Trace& trace, const Report& report) {
  Json errors = Json::array();
  for (const PoolError& error : report.analysis->pool_errors()) {
    Json json = json_of_fields(trace.tables, error);
    json["device"] = trace.tables[error.heap].device;
    json["stack"] = json_of_stack(trace.tables, error.stack);
    json["contradicts"] = json_of_stack(trace.tables, error.contradicts);
    errors.push_back(std::move(json));
  }
  return errors;
}

Json json_of(const HostMemory& memory) {
  const auto known = [](std::uint32_t step) { return step == 0 ? Json(nullptr) : Json(step); };
  Json resident = nullptr;
  if (const auto& set = memory.resident)
    resident = {{"first_bytes", set->first.count},    {"peak_bytes", set->peak.count},
                {"end_bytes", set->last.count},       {"growth_bytes_per_step", set->growth_bytes_per_step},
                {"from_step", known(set->from_step)}, {"until_step", known(set->until_step)}};
  return {{"pinned_peak_bytes", memory.pinned_peak.count},
          {"pinned_end_bytes", memory.pinned_end.count},
          {"resident", std::move(resident)}};
}

Json json_of_summary(const Trace& trace, const Report& report, const ReportOptions& options) {
  Json devices = Json::array();
  for (const HeapReport& h : report.heaps) {
    const HeapHistory& history = h.history;
    devices.push_back({{"device", trace.tables[history.heap].device},
                       {"heap", trace.tables[trace.tables[history.heap].name]},
                       {"allocations", history.allocations},
                       {"frees", history.frees},
                       {"failed_allocations", history.failures},
                       {"peak_live_bytes", history.peak_live.count},
                       {"peak_live_event", history.peak_live_event},
                       {"folded_peak_live_bytes", json_of_folded_peak(trace, history.heap)},
                       {"peak_reserved_bytes", history.peak_reserved.count},
                       {"peak_reserved_event", history.peak_reserved_event},
                       {"end_live_bytes", history.end_live.count},
                       {"end_live_allocations", history.end_live_allocations},
                       {"end_reserved_bytes", history.end_reserved.count},
                       {"memory_summary", h.summary != nullptr ? json_of(*h.summary) : Json(nullptr)}});
  }
  return {{"trace", options.file.string()},
          {"source", trace.header.source},
          {"events", trace.events.count()},
          {"losses", json_of_losses(trace)},
          {"devices", std::move(devices)}};
}

}  // namespace

void write_report_json(const Trace& trace, const Report& report, const ReportOptions& options, std::ostream& out) {
  Json at_peak = Json::array();
  Json at_end = Json::array();
  Json at_instant = Json::array();
  Json spans = Json::array();
  Json pools = Json::array();
  if (report.sections.live)
    for (const HeapReport& heap : report.heaps) {
      at_peak.push_back(json_of(trace, heap, heap.at_peak, report, options.allocations));
      at_end.push_back(json_of(trace, heap, heap.at_end, report, options.allocations));
      if (heap.at_instant) at_instant.push_back(json_of(trace, heap, *heap.at_instant, report, options.allocations));
      spans.push_back(json_of_spans(trace, heap));
      if (!heap.pools.empty()) pools.push_back(json_of_pools(trace, heap));
    }
  Json document{{"schema", "memreel.report/1"},
                {"verdict", json_of_verdict(trace.tables, report.verdict)},
                {"summary", json_of_summary(trace, report, options)}};
  reserve(document, 24);
  if (report.sections.live) {
    const std::optional<HostMemory>& host = report.analysis->host_memory();
    document["live_at_peak"] = std::move(at_peak);
    document["live_at_end"] = std::move(at_end);
    document["peaks"] = std::move(spans);
    document["host_memory"] = host ? json_of(*host) : Json(nullptr);
    document["device_trees"] = json_of_trees(trace, report.analysis->devices());
    document["private_pools"] = std::move(pools);
    document["holders"] = json_of_holders(trace);
    document["pool_errors"] = json_of_errors(trace, report);
  }
  if (report.instant) document["live_at"] = {{"instant", text_of(*report.instant)}, {"heaps", std::move(at_instant)}};
  if (report.sections.leaks) add_leaks(document, trace, report.leaks(), options.allocations);
  if (report.sections.fragmentation) document["fragmentation"] = json_of_fragmentation(trace, report);
  if (report.sections.ooms) {
    document["failed_requests"] = report.ooms().count;
    document["retried_requests"] = report.ooms().retried;
    document["oom_setting"] = json_of_oom_setting(report);
    document["ooms"] = json_of_ooms(trace, report);
  }
  print_json(document, out);
}

}  // namespace memreel::cli
