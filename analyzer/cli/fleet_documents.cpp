// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <map>
#include <string>

#include "analyzer/cli/fleet.h"
#include "analyzer/cli/json.h"
#include "analyzer/fleet/fields.h"
#include "analyzer/report/html/charts.h"
#include "analyzer/report/markup.h"
#include "analyzer/tune/search_space.h"
#include "formats/model/paths.h"
#include "formats/model/quantity.h"

namespace memreel::cli {
namespace {

/// Known losses, over all judged recordings.
Json json_of_fleet_losses(const Fleet& fleet) {
  std::map<RankStatus, std::uint64_t> by_status;
  std::uint64_t lost = 0;
  for (const FleetRow& row : fleet.rows) {
    ++by_status[row.summary.status];
    if (row.judged()) lost += row.summary.lost_events;
  }
  Json json{{"lost_events", lost}};
  for (auto status = RankStatus::ok; status != highest(status);) {
    status = static_cast<RankStatus>(static_cast<std::uint8_t>(status) + 1);
    json[std::string(name_of(status))] = by_status[status];
  }
  return json;
}

Json skipped_by(const FleetReport& report) {
  Json skipped = Json::array();
  for (const auto& file : report.skipped) skipped.push_back(file.string());
  for (const std::string& file : report.fleet.launchers) skipped.push_back(file);
  return skipped;
}

Json json_of(const FleetReport& report) {
  const Fleet& fleet = report.fleet;
  return {{"schema", "memreel.fleet/1"},
          {"job", fleet.job.empty() ? Json(nullptr) : Json(fleet.job)},
          {"heap", fleet.heap.empty() ? Json(nullptr) : Json(fleet.heap)},
          {"world_size", fleet.world_size},
          {"missing_ranks", fleet.missing},
          {"ranks", fleet_json_of(fleet, fleet.rows)},
          {"decides", fleet.decides ? fleet_json(fleet, *fleet.decides) : Json(nullptr)},
          {"classes", fleet_json_of(fleet, fleet.classes)},
          {"imbalance", fleet_json(fleet, fleet.imbalance)},
          {"outliers", fleet_json_of(fleet, fleet.outliers)},
          {"leaks", fleet_json_of(fleet, fleet.leaks)},
          {"sites", fleet_json_of(fleet, fleet.sites)},
          {"sites_on_some_ranks", fleet_json_of(fleet, fleet.some_ranks)},
          {"setting", report.setting ? fleet_json(fleet, *report.setting) : Json(nullptr)},
          {"losses", json_of_fleet_losses(fleet)},
          {"skipped_files", skipped_by(report)},
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
