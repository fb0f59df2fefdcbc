#include "analyzer/cli/insight_json.h"
#include "analyzer/cli/json.h"
#include "analyzer/cli/report.h"
#include "analyzer/cli/report_leaks.h"
#include "analyzer/cli/verdict_json.h"
#include "analyzer/report/labels.h"
#include "formats/model/origin_text.h"

namespace memreel::cli {
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
    Json entry{{"label", group.label},
               {"bytes", group.bytes.count},
               {"count", group.count},
               {"stack", json_of_stack(trace.tables, group.stack)}};
    if (allocations) {
      entry["allocations"] = Json::array();
      for (const AllocationId id : group.allocations) {
        const Event event = trace.events[trace.allocation_events[index(id)]];
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
          {"categories", categories},
          {"groups", groups}};
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
  return {{"device", trace.tables[heap.history.heap].device},
          {"heap", trace.tables[trace.tables[heap.history.heap].name]},
          {"phases", std::move(phases)},
          {"ranges", std::move(ranges)}};
}

Json json_of_pools(const Trace& trace, const HeapReport& heap) {
  Json pools = Json::array();
  for (const PrivatePool& pool : heap.pools) {
    Json uses = Json::array();
    for (const PoolUse& use : pool.uses)
      uses.push_back({{"event", use.event},
                      {"allocated_at", site_label(trace.tables, use.stack)},
                      {"allocations", use.allocations},
                      {"grew_bytes", use.grew.count},
                      {"used_bytes", use.used.count},
                      {"kept_bytes", use.kept.count}});
    pools.push_back({{"pool", pool_label(trace.tables, pool.pool)},
                     {"cuda_graphs", pool.has_captures},
                     {"reserved_bytes", pool.reserved.count},
                     {"live_bytes", pool.live.count},
                     {"reusable_bytes", pool.reusable().count},
                     {"peak_reserved_bytes", pool.peak_reserved.count},
                     {"peak_live_bytes", pool.peak_live.count},
                     {"shared_bytes", pool.shared().count},
                     {"uses", std::move(uses)}});
  }
  return {{"device", trace.tables[heap.history.heap].device},
          {"heap", trace.tables[trace.tables[heap.history.heap].name]},
          {"pools", std::move(pools)}};
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
          {"devices", devices}};
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
  if (report.sections.live)
    document.update({{"live_at_peak", at_peak}, {"live_at_end", at_end}, {"peaks", spans}, {"private_pools", pools}});
  if (report.instant) document["live_at"] = {{"instant", text_of(*report.instant)}, {"heaps", at_instant}};
  if (report.sections.leaks) add_leaks(document, trace, report.leaks, options.allocations);
  if (report.sections.fragmentation) document["fragmentation"] = json_of_fragmentation(trace, report);
  if (report.sections.ooms) {
    document["failed_requests"] = report.ooms.count;
    document["retried_requests"] = report.ooms.retried;
    document["oom_setting"] = json_of_oom_setting(report);
    document["ooms"] = json_of_ooms(trace, report);
  }
  print_json(document, out);
}

}  // namespace memreel::cli
