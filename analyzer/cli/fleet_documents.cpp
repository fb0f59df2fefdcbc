// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <map>
#include <string>

#include "analyzer/cli/fleet.h"
#include "analyzer/cli/json.h"
#include "analyzer/report/html/charts.h"
#include "analyzer/report/markup.h"
#include "analyzer/tune/search_space.h"
#include "formats/model/paths.h"
#include "formats/model/quantity.h"

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
          {"late_start_most_bytes",
           outcome.peak_most > outcome.peak_reserved ? Json(outcome.peak_most.count) : Json(nullptr)},
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
          {"ranks_spared", setting.spared},
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
          {"heap", fleet.heap.empty() ? Json(nullptr) : Json(fleet.heap)},
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

namespace {

constexpr std::size_t bins = 24;
constexpr std::size_t most_cells = 4096;  // of the heat map
constexpr std::size_t most_fleet_rows = 20;

std::string rank_name(const Fleet& fleet, std::uint32_t row) { return "rank " + std::to_string(fleet.rows[row].rank); }

std::string rectangle(double x, double y, double width, double height, const std::string& style,
                      const std::string& title) {
  return "<rect x=" + text_of(x, 1) + " y=" + text_of(y, 1) + " width=" + text_of(width, 1) +
         " height=" + text_of(height, 1) + " style=\"" + style + "\"><title>" + html_escaped(title) +
         "</title></rect>\n";
}

/// A histogram of ranks by reserved memory.
std::string histogram(const Fleet& fleet) {
  std::vector<std::uint64_t> peaks;
  for (const FleetRow& row : fleet.rows)
    if (row.judged()) peaks.push_back(row.summary.peak_reserved.count);
  const std::uint64_t least = std::ranges::min(peaks), most = std::ranges::max(peaks);
  const double span = std::max(1.0, static_cast<double>(most - least));
  std::array<std::size_t, bins> counts{};
  for (const std::uint64_t peak : peaks)
    ++counts.at(std::min(bins - 1, static_cast<std::size_t>(static_cast<double>(peak - least) / span * bins)));
  const auto highest = static_cast<double>(*std::ranges::max_element(counts));
  std::string svg =
      "<div class=chart><div class=plot style=\"height:140px\"><svg viewBox=\"0 0 960 140\" "
      "preserveAspectRatio=none>\n";
  for (std::size_t i = 0; i < bins; ++i) {
    if (counts.at(i) == 0) continue;
    const double height = 130 * static_cast<double>(counts.at(i)) / highest;
    const auto from = [&](std::size_t bin) {
      return text_of(Bytes{least + static_cast<std::uint64_t>(span * static_cast<double>(bin) / bins)});
    };
    svg += rectangle(40.0 * static_cast<double>(i) + 1, 140 - height, 38, height, "fill:var(--blue)",
                     std::to_string(counts.at(i)) + " ranks: " + from(i) + " to " + from(i + 1));
  }
  return svg + "</svg></div><div class=axis><span>" + text_of(Bytes{least}) +
         "</span><span>peak reserved</span><span>" + text_of(Bytes{most}) + "</span></div></div>\n";
}

/// Peak reserved bytes by position on the mesh: the first axis vertical, all others horizontal; without a mesh, by
/// rank.
std::string heat_map(const Fleet& fleet) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> lines;
  std::uint32_t judged = 0;
  const auto wide = static_cast<std::uint32_t>(std::ceil(std::sqrt(static_cast<double>(fleet.judged()))));
  for (std::uint32_t i = 0; i < fleet.rows.size(); ++i) {
    if (!fleet.rows[i].judged() || judged >= most_cells) continue;
    const auto& at = fleet.rows[i].summary.identity.coordinates;
    lines[at.empty() ? judged / wide : at.front().at].push_back(i);
    ++judged;
  }
  std::size_t columns = 1;
  for (const auto& [line, rows] : lines) columns = std::max(columns, rows.size());
  const double width = 960.0 / static_cast<double>(columns), height = std::clamp(width / 3, 6.0, 36.0);
  const double total = height * static_cast<double>(lines.size());
  std::string svg = "<div class=plot style=\"height:" + text_of(total, 1) + "px\"><svg viewBox=\"0 0 960 " +
                    text_of(total, 1) + "\" preserveAspectRatio=none>\n";
  double y = 0;
  for (const auto& [line, rows] : lines) {
    double x = 0;
    for (const std::uint32_t i : rows) {
      const FleetRow& row = fleet.rows[i];
      const double share = static_cast<double>(row.summary.peak_reserved.count) /
                           std::max(1.0, static_cast<double>(fleet.imbalance.max.count));
      std::string title = rank_name(fleet, i) + ": " + text_of(row.summary.peak_reserved);
      for (const Coordinate& at : row.summary.identity.coordinates)
        title += ", " + at.axis + " " + std::to_string(at.at);
      svg += rectangle(x, y, width - 1, height - 1, "fill:var(--blue);opacity:" + text_of(0.1 + 0.9 * share * share, 1),
                       title);
      x += width;
    }
    y += height;
  }
  return svg + "</svg></div>\n";
}

/// "By place, pp downwards and dp to the right: darker reserves more".
std::string heat_map_title(const Fleet& fleet) {
  std::string right;
  const auto& axes = fleet.imbalance.axes;
  for (std::size_t i = 1; i < axes.size(); ++i) right += (i == 1 ? "" : ", ") + axes[i].axis;
  if (axes.empty()) return "By rank: darker reserves more";
  return "By place, " +
         html_escaped(axes.front().axis + " downwards" + (right.empty() ? "" : " and " + right + " to the right")) +
         ": darker reserves more";
}

/// A line through the columns of a timeline, as SVG path data.
std::string line_path(const std::vector<Bytes>& column, double highest, bool closed) {
  std::string path;
  for (std::size_t i = 0; i < column.size(); ++i) {
    const double x = 960.0 * static_cast<double>(i) / static_cast<double>(std::max<std::size_t>(1, column.size() - 1));
    const double y = 200 - 190 * static_cast<double>(column[i].count) / highest;
    path += (i == 0 ? "M" : "L") + text_of(x, 1) + " " + text_of(y, 1);
  }
  return path + (closed ? "L960 200L0 200Z" : "");
}

/// The timeline of the deciding rank next to that of the median rank.
std::string timelines(const Fleet& fleet) {
  const std::uint32_t decider = fleet.decides->row;
  std::uint32_t median = decider;
  for (std::uint32_t i = 0; i < fleet.rows.size(); ++i)
    if (fleet.rows[i].judged() && fleet.rows[i].summary.peak_reserved == fleet.imbalance.median) {
      median = i;
      break;
    }
  const double highest = std::max(1.0, static_cast<double>(fleet.imbalance.max.count));
  const RankSummary& s = fleet.rows[decider].summary;
  std::string html = "<div class=chart><div class=legend><span class=reserved>" + rank_name(fleet, decider) +
                     ", reserved</span><span class=allocated>allocated</span><span class=live>" +
                     rank_name(fleet, median) + ", reserved (median)</span></div>\n";
  html +=
      "<div class=plot style=\"height:200px\"><svg viewBox=\"0 0 960 200\" preserveAspectRatio=none>\n<path "
      "class=reserved d=\"" +
      line_path(s.reserved, highest, true) + "\"/><path class=allocated d=\"" + line_path(s.allocated, highest, true) +
      "\"/><path style=\"fill:none;stroke:var(--blue);stroke-width:2;vector-effect:non-scaling-stroke\" d=\"" +
      line_path(fleet.rows[median].summary.reserved, highest, false) + "\"/></svg><span class=top>" +
      text_of(fleet.imbalance.max) +
      "</span></div><div class=axis><span>each from its beginning to its end</span></div></div>\n";
  return html;
}

std::string site_html(const std::vector<CodeFrame>& frames) {
  std::string text;
  for (const CodeFrame& frame : frames) {
    text += (text.empty() ? "" : " &larr; ") + html_escaped(clipped(frame.function, 80));
    if (!frame.file.empty())
      text += " (" + html_escaped(clipped(base_name(frame.file), 60)) + ":" + std::to_string(frame.line) + ")";
    if (text.size() > 400) break;
  }
  return text.empty() ? "(no stack)" : text;
}

std::string classes_table(const Fleet& fleet) {
  HtmlTable table(
      {{"peak reserved", true}, {"allocated", true}, {"ranks", true}, {"ranks that make the same requests"}});
  std::size_t shown = 0;
  for (const RankClass& c : fleet.classes) {
    if (++shown > most_fleet_rows) break;
    std::vector<std::uint32_t> ranks;
    for (const std::uint32_t row : c.rows) ranks.push_back(fleet.rows[row].rank);
    const RankSummary& s = fleet.rows[c.rows.front()].summary;
    table.add_row({text_of(c.peak_reserved), text_of(s.peak_allocated), std::to_string(c.rows.size()),
                   html_escaped(clipped(text_of_ranks(ranks), 400))});
  }
  return table.text();
}

std::string findings(const Fleet& fleet) {
  std::string html;
  if (!fleet.outliers.empty()) {
    HtmlTable table({{"rank", true}, {"why"}});
    for (std::size_t i = 0; i < std::min(most_fleet_rows, fleet.outliers.size()); ++i)
      table.add_row(
          {std::to_string(fleet.rows[fleet.outliers[i].row].rank), html_escaped(clipped(fleet.outliers[i].why, 500))});
    html += "<h2>Outliers</h2>\n" + table.text();
  }
  if (!fleet.leaks.empty()) {
    HtmlTable table({{"rank", true}, {"bytes", true}, {"allocated at"}});
    for (std::size_t i = 0; i < std::min(most_fleet_rows, fleet.leaks.size()); ++i)
      table.add_row({std::to_string(fleet.rows[fleet.leaks[i].row].rank), text_of(fleet.leaks[i].leak.bytes),
                     site_html(fleet.leaks[i].leak.frames)});
    html += "<h2>Leaks</h2>\n" + table.text();
  }
  HtmlTable troubles({{"rank", true}, {"status"}, {"reason"}});
  std::size_t shown = 0;
  for (const FleetRow& row : fleet.rows)
    if (!row.summary.reason.empty() && ++shown <= most_fleet_rows)
      troubles.add_row({std::to_string(row.rank),
                        row.summary.status == RankStatus::ok ? "not judged" : std::string(name_of(row.summary.status)),
                        html_escaped(clipped(row.summary.reason, 500))});
  if (shown > 0) html += "<h2>Incomplete: " + std::to_string(shown) + "</h2>\n" + troubles.text();
  return html;
}

}  // namespace

void write_fleet_html(const FleetReport& report, std::ostream& out) {
  const Fleet& fleet = report.fleet;
  std::string body =
      "<h1>" + std::to_string(fleet.world_size) + " ranks" +
      (fleet.heap.empty() ? "" : ", heap " + html_escaped(clipped(fleet.heap, 100))) + "</h1>\n<p class=quiet>" +
      (fleet.missing.empty() ? std::string("none missing")
                             : std::to_string(fleet.missing.size()) +
                                   " missing: " + html_escaped(clipped(text_of_ranks(fleet.missing), 400))) +
      "</p>\n";
  if (fleet.decides) {
    body += "<ul class=headlines><li>" + rank_name(fleet, fleet.decides->row) +
            " decides: " + html_escaped(fleet.decides->why) + "</li>";
    if (fleet.decides->fails_first)
      body += "<li class=alarm>" + rank_name(fleet, *fleet.decides->fails_first) +
              " fails first: " + html_escaped(fleet.decides->fails_why) + "</li>";
    if (report.setting) {
      body += "<li>" + html_escaped((report.setting->best ? "one setting for all ranks " : "") + report.setting->why);
      if (report.setting->best)
        body += "<br><code>" + html_escaped(export_line(report.setting->candidates[*report.setting->best])) + "</code>";
      body += "</li>";
    }
    body += "</ul>\n<h2>The deciding rank beside the median</h2>\n" + timelines(fleet) + "<h2>Over all ranks</h2>\n" +
            histogram(fleet) + "<h3>" + heat_map_title(fleet) + "</h3>\n" + heat_map(fleet) + "<h2>Classes</h2>\n" +
            classes_table(fleet);
  }
  body += findings(fleet);
  out << html_page("memreel: " + std::to_string(fleet.world_size) + " ranks", body);
}

}  // namespace memreel::cli
