#include <iostream>

#include "analyzer/cli/fleet.h"
#include "analyzer/cli/json.h"
#include "analyzer/tune/search_space.h"

namespace memreel::cli {
namespace {

Json json_of_size(const std::optional<Bytes>& bytes) { return bytes ? Json(bytes->count) : Json(nullptr); }

Json json_of(const std::vector<CodeFrame>& frames) {
  Json json = Json::array();
  for (const CodeFrame& frame : frames)
    json.push_back({{"function", frame.function}, {"file", frame.file}, {"line", frame.line}});
  return json;
}

Json json_of_ranks(const Fleet& fleet, const std::vector<std::uint32_t>& rows) {
  Json json = Json::array();
  for (const std::uint32_t row : rows) json.push_back(fleet.rows[row].rank);
  return json;
}

Json json_of_device(std::int32_t device, Bytes reserved, Bytes other, const std::optional<Bytes>& capacity) {
  return {{"device", device},
          {"peak_reserved_bytes", reserved.count},
          {"other_bytes", other.count},
          {"capacity_bytes", json_of_size(capacity)}};
}

Json json_of(const FleetRow& row) {
  const RankSummary& s = row.summary;
  const auto metric = [&](Bytes bytes) { return s.has_memory ? Json(bytes.count) : Json(nullptr); };
  Json devices = Json::array();
  if (s.has_memory && s.device >= 0) devices.push_back(json_of_device(s.device, s.peak_reserved, s.other, s.capacity));
  for (const RankDevice& d : s.devices)
    devices.push_back(json_of_device(d.device, d.peak_reserved, d.other, d.capacity));
  Json mesh = Json::object();
  for (const Coordinate& at : s.identity.coordinates) mesh[at.axis] = at.at;
  return {{"rank", row.rank},
          {"rank_assumed", row.rank_assumed},
          {"host", s.identity.host.empty() ? Json(nullptr) : Json(s.identity.host)},
          {"local_rank", s.identity.local_rank ? Json(*s.identity.local_rank) : Json(nullptr)},
          {"device", s.has_memory ? Json(s.device) : Json(nullptr)},
          {"file", s.file.empty() ? Json(nullptr) : Json(s.file)},
          {"job", s.identity.job.empty() ? Json(nullptr) : Json(s.identity.job)},
          {"attempt", s.identity.attempt},
          {"mesh", std::move(mesh)},
          {"class", row.klass ? Json(*row.klass) : Json(nullptr)},
          {"peak_live_bytes", metric(s.peak_live)},
          {"peak_allocated_bytes", metric(s.peak_allocated)},
          {"peak_reserved_bytes", metric(s.peak_reserved)},
          {"end_live_bytes", metric(s.end_live)},
          {"other_bytes", metric(s.other)},
          {"beside_bytes", metric(row.beside)},
          {"capacity_bytes", json_of_size(s.capacity)},
          {"headroom_bytes", row.headroom ? Json(*row.headroom) : Json(nullptr)},
          {"at_least", row.judged() && row.at_least()},
          {"devices", std::move(devices)},
          {"shares_gpu_with", row.shares},
          {"events", s.events},
          {"failed_allocations", s.failed_allocations},
          {"lost_events", s.lost_events},
          {"policy", s.policy.empty() ? Json(nullptr) : Json(s.policy)},
          {"status", name_of(s.status)},
          {"reason", s.reason.empty() ? Json(nullptr) : Json(s.reason)}};
}

Json json_of_decision(const Fleet& fleet) {
  if (!fleet.decides) return nullptr;
  const Decision& d = *fleet.decides;
  Json fails = nullptr;
  if (d.fails_first) fails = {{"rank", fleet.rows[*d.fails_first].rank}, {"why", d.fails_why}};
  return {{"rank", fleet.rows[d.row].rank},
          {"why", d.why},
          {"next", json_of_ranks(fleet, d.next)},
          {"fails_first", std::move(fails)},
          {"failed", json_of_ranks(fleet, d.failed)},
          {"near", json_of_ranks(fleet, d.near)},
          {"may_decide_instead", json_of_ranks(fleet, d.unsure)}};
}

Json json_of_classes(const Fleet& fleet) {
  Json classes = Json::array();
  for (const RankClass& c : fleet.classes)
    classes.push_back({{"ranks", json_of_ranks(fleet, c.rows)},
                       {"peak_reserved_bytes", c.peak_reserved.count},
                       {"deviates_from", c.deviates_from ? Json(*c.deviates_from) : Json(nullptr)},
                       {"similarity", c.deviates_from ? Json(c.similarity) : Json(nullptr)}});
  return classes;
}

Json json_of(const Imbalance& imbalance) {
  Json axes = Json::array();
  for (const AxisImbalance& axis : imbalance.axes) {
    Json means = Json::array();
    for (const Bytes mean : axis.means) means.push_back(mean.count);
    axes.push_back({{"axis", axis.axis},
                    {"max_over_mean", axis.max_over_mean},
                    {"share_of_variance", axis.share_of_variance},
                    {"mean_peak_reserved_bytes", std::move(means)}});
  }
  return {{"max_over_mean", imbalance.max_over_mean},
          {"max_peak_reserved_bytes", imbalance.max.count},
          {"p99_peak_reserved_bytes", imbalance.p99.count},
          {"mean_peak_reserved_bytes", imbalance.mean.count},
          {"median_peak_reserved_bytes", imbalance.median.count},
          {"axes", std::move(axes)}};
}

Json json_of_outliers(const Fleet& fleet) {
  Json outliers = Json::array();
  for (const Outlier& outlier : fleet.outliers) {
    Json sites = Json::array();
    for (const SiteDelta& site : outlier.sites)
      sites.push_back(
          {{"bytes", site.here.count}, {"neighbour_bytes", site.there.count}, {"stack", json_of(site.frames)}});
    outliers.push_back({{"rank", fleet.rows[outlier.row].rank},
                        {"why", outlier.why},
                        {"bytes", outlier.bytes},
                        {"neighbour", fleet.rows[outlier.neighbour].rank},
                        {"sites", std::move(sites)}});
  }
  return outliers;
}

Json json_of_leaks(const Fleet& fleet) {
  Json leaks = Json::array();
  for (const FleetLeak& leak : fleet.leaks)
    leaks.push_back({{"rank", fleet.rows[leak.row].rank},
                     {"verdict", leak.leak.verdict},
                     {"bytes", leak.leak.bytes.count},
                     {"count", leak.leak.count},
                     {"growth_bytes_per_step", leak.leak.growth_bytes_per_step},
                     {"steps", leak.leak.steps},
                     {"stack", json_of(leak.leak.frames)}});
  return leaks;
}

Json json_of_sites(const Fleet& fleet, const std::vector<FleetSite>& sites) {
  Json json = Json::array();
  for (const FleetSite& site : sites)
    json.push_back({{"bytes", site.sum.count},
                    {"max_bytes", site.max.count},
                    {"max_rank", fleet.rows[site.max_row].rank},
                    {"ranks", site.ranks},
                    {"stack", json_of(site.frames)}});
  return json;
}

Json json_of(const SettingOutcome& outcome) {
  return {{"setting", outcome.setting},
          {"peak_reserved_bytes", outcome.peak_reserved.count},
          {"failed_allocations", outcome.failed_allocations},
          {"driver_calls", outcome.driver_calls},
          {"driver_seconds", outcome.driver_seconds}};
}

Json json_of(const Fleet& fleet, const CommonSetting& setting) {
  Json classes = Json::array();
  for (const ClassSettings& c : setting.classes) {
    Json outcomes = Json::array();
    for (const SettingOutcome& outcome : c.outcomes) outcomes.push_back(json_of(outcome));
    classes.push_back({{"ranks", json_of_ranks(fleet, fleet.classes[c.klass].rows)},
                       {"replayed", fleet.rows[c.row].rank},
                       {"recorded", json_of(c.recorded)},
                       {"outcomes", std::move(outcomes)},
                       {"allocations", c.allocations},
                       {"address_matches", c.address_matches},
                       {"witness", c.witness ? Json(fleet.rows[*c.witness].rank) : Json(nullptr)},
                       {"witness_allocations", c.witness_allocations},
                       {"witness_address_matches", c.witness_matches},
                       {"problem", c.problem.empty() ? Json(nullptr) : Json(c.problem)}});
  }
  Json worse = Json::array();
  for (const std::size_t i : setting.worse)
    for (const std::uint32_t row : fleet.classes[setting.classes[i].klass].rows) worse.push_back(fleet.rows[row].rank);
  const Json conf = setting.best ? Json(setting.candidates[*setting.best]) : Json(nullptr);
  return {{"recommended", conf},
          {"export", setting.best ? Json(export_line(setting.candidates[*setting.best])) : Json(nullptr)},
          {"why", setting.why},
          {"max_peak_reserved_bytes", {{"before", setting.peak_before.count}, {"after", setting.peak_after.count}}},
          {"decider_peak_reserved_bytes",
           {{"before", json_of_size(setting.decider_before)}, {"after", json_of_size(setting.decider_after)}}},
          {"ranks_not_replayed", setting.not_replayed},
          {"worse_ranks", std::move(worse)},
          {"per_class_max_peak_reserved_bytes", setting.peak_per_class.count},
          {"candidates", setting.candidates},
          {"classes", std::move(classes)}};
}

/// Known losses, over all judged recordings.
Json json_of_fleet_losses(const Fleet& fleet) {
  std::map<std::string, std::uint64_t> by_status;
  std::uint64_t lost = 0;
  for (const FleetRow& row : fleet.rows) {
    ++by_status[std::string(name_of(row.summary.status))];
    if (row.judged()) lost += row.summary.lost_events;
  }
  Json json{{"lost_events", lost}};
  for (const char* status : {"overflowed", "truncated", "damaged", "hostile", "duplicate", "missing"})
    json[status] = by_status[status];
  return json;
}

Json json_of(const FleetReport& report) {
  const Fleet& fleet = report.fleet;
  Json ranks = Json::array();
  for (const FleetRow& row : fleet.rows) ranks.push_back(json_of(row));
  Json skipped = Json::array();
  for (const auto& file : report.skipped) skipped.push_back(file.string());
  for (const std::string& file : report.fleet.launchers) skipped.push_back(file);
  return {{"schema", "memreel.fleet/1"},
          {"job", fleet.job.empty() ? Json(nullptr) : Json(fleet.job)},
          {"world_size", fleet.world_size},
          {"missing_ranks", fleet.missing},
          {"ranks", std::move(ranks)},
          {"decides", json_of_decision(fleet)},
          {"classes", json_of_classes(fleet)},
          {"imbalance", json_of(fleet.imbalance)},
          {"outliers", json_of_outliers(fleet)},
          {"leaks", json_of_leaks(fleet)},
          {"sites", json_of_sites(fleet, fleet.sites)},
          {"sites_on_some_ranks", json_of_sites(fleet, fleet.some_ranks)},
          {"setting", report.setting ? json_of(fleet, *report.setting) : Json(nullptr)},
          {"losses", json_of_fleet_losses(fleet)},
          {"skipped_files", std::move(skipped)},
          {"other_jobs", Json::array()}};
}

}  // namespace

void write_fleet_json(std::span<const FleetReport> jobs, std::ostream& out) {
  Json document = json_of(jobs.front());
  for (const FleetReport& job : jobs.subspan(1)) document["other_jobs"].push_back(json_of(job));
  print_json(document, out);
}

}  // namespace memreel::cli
