// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>

#include "analyzer/cli/fleet_report.h"
#include "analyzer/cli/output.h"
#include "analyzer/describe/html/charts.h"
#include "analyzer/describe/markup.h"
#include "analyzer/describe/own_frame.h"
#include "analyzer/describe/text_table.h"
#include "analyzer/fleet/fleet.h"
#include "analyzer/fleet/job_fields.h"
#include "analyzer/replay/tune/search_space.h"
#include "formats/model/frame_kind.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

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
                     counted(counts.at(i), "rank") + ": " + from(i) + " to " + from(i + 1));
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
  for (const std::string& text : unjudged_leaks_of(fleet)) html += "<p>" + html_escaped(clipped(text, 500)) + "</p>\n";
  HtmlTable troubles({{"rank", true}, {"status"}, {"reason"}});
  std::size_t shown = 0;
  for (const FleetRow& row : fleet.rows)
    if (!row.summary.reason.empty() && ++shown <= most_fleet_rows)
      troubles.add_row({std::to_string(row.rank),
                        row.summary.status == RankStatus::ok ? "not judged" : std::string(words_of(row.summary.status)),
                        html_escaped(clipped(row.summary.reason, 500))});
  if (shown > 0) html += "<h2>Incomplete: " + std::to_string(shown) + "</h2>\n" + troubles.text();
  return html;
}

}  // namespace

void write_fleet_html(const FleetReport& report, std::ostream& out) {
  const Fleet& fleet = report.fleet;
  std::string body =
      "<h1>" + counted(fleet.world_size, "rank") +
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
  out << html_page("memreel: " + counted(fleet.world_size, "rank"), body);
}

namespace {

std::string site_text(const std::vector<CodeFrame>& frames) {
  std::vector<FrameText> texts;
  for (const CodeFrame& frame : frames) {
    const FrameNature nature = nature_of(frame.function, frame.file, {}, false);
    texts.push_back({.function = frame.function,
                     .file = frame.file,
                     .short_file = frame.file,
                     .line = frame.line,
                     .kind = nature.kind,
                     .owner = nature.owner});
  }
  if (texts.empty()) return "(no stack)";
  FrameText own = own_frame(texts);
  own.file = base_name(own.file);
  return text_of(own);
}

class TextPage {
 public:
  TextPage(const FleetReport& report, std::size_t top, std::ostream& out)
      : report_(report), fleet_(report.fleet), top_(top), out_(out) {}

  void print() {
    line(headline_of(fleet_));
    if (!fleet_.decides) {
      print_troubles();
      return;
    }
    print_decision();
    print_classes();
    print_imbalance();
    print_outliers();
    print_leaks();
    print_sites();
    print_setting();
    print_troubles();
  }

 private:
  void line(const std::string& text, std::size_t indent = 0) {
    out_ << wrapped(printable(text), indent, terminal_width(), 2);  // of files, of which anybody may have named one
  }

  /// `text` beside the word that says what it is about.
  void about(std::string_view word, const std::string& text) {
    out_ << (word == "decides" ? bold(word) : std::string(word)) << wrapped(text, 9).substr(word.size());
  }

  void print_decision() {
    const Decision& decision = *fleet_.decides;
    out_ << '\n';
    about("decides", decision_of(fleet_));
    if (!decision.next.empty()) {
      std::string ranks;
      for (const std::uint32_t row : decision.next)
        ranks += (ranks.empty() ? "" : ", ") + std::to_string(fleet_.rows[row].rank);
      about("next", (decision.next.size() == 1 ? "rank " : "ranks ") + ranks);
    }
    if (const std::string failure = first_failure_of(fleet_); !failure.empty()) about("fails", failure);
  }

  void print_classes() {
    out_ << '\n';
    TextTable table({{"peak reserved", Align::right},
                     {"allocated", Align::right},
                     {"live", Align::right},
                     {"headroom", Align::right},
                     {"count", Align::right},
                     {"ranks that make the same requests"}});
    std::vector<const RankClass*> classes;
    for (const RankClass& c : fleet_.classes) classes.push_back(&c);
    const bool many = classes.size() > top_;
    if (many) std::ranges::stable_sort(classes, std::greater{}, [](const RankClass* c) { return c->peak_reserved; });
    for (std::size_t i = 0; i < std::min(top_, classes.size()); ++i) {
      const RankClass& c = *classes[i];
      const auto worst = std::ranges::max_element(
          c.rows, {}, [&](std::uint32_t row) { return fleet_.rows[row].summary.peak_reserved; });
      const FleetRow& row = fleet_.rows[*worst];
      const RankSummary& s = row.summary;
      std::string ranks = shortened(text_of_ranks(ranks_of(fleet_, c.rows)), 26);
      if (c.deviates_from)
        ranks += " (like rank " + std::to_string(fleet_.rows[fleet_.classes[*c.deviates_from].rows.front()].rank) + ")";
      const auto bounded = [&](const char* bound, const std::string& text) {
        return text.empty() ? text : (row.at_least() ? bound : std::string(row.bound())) + text;
      };
      const auto most = [&](Bytes bytes) { return bounded(">= ", memreel::text_of(bytes)); };
      table.add_row({most(s.peak_reserved), most(s.peak_allocated), most(s.peak_live),
                     bounded("<= ", row.headroom ? text_of_signed(*row.headroom) : ""), std::to_string(c.rows.size()),
                     std::move(ranks)});
    }
    table.print(out_, 2);
    if (many) line("and " + std::to_string(classes.size() - top_) + " more classes", 2);
  }

  void print_imbalance() {
    const Imbalance& imbalance = fleet_.imbalance;
    out_ << '\n';
    line("imbalance: the highest peak is " + text_of(imbalance.max_over_mean, 2) + " times the mean, " +
         memreel::text_of(imbalance.mean) + "; 99 % of ranks stay within " + memreel::text_of(imbalance.p99));
    for (const AxisImbalance& axis : imbalance.axes) {
      const auto heaviest = std::ranges::max_element(axis.means);
      line(axis.axis + ": " + text_of_share(axis.share_of_variance) + " of the variance; " + axis.axis + " " +
               std::to_string(heaviest - axis.means.begin()) + " is heaviest, " + memreel::text_of(*heaviest) +
               " on average, " + text_of(axis.max_over_mean, 2) + " times the mean",
           2);
    }
  }

  void print_outliers() {
    if (fleet_.outliers.empty()) return;
    out_ << '\n' << bold("outliers") << '\n';
    for (std::size_t i = 0; i < std::min(top_, fleet_.outliers.size()); ++i) {
      const Outlier& outlier = fleet_.outliers[i];
      line("rank " + std::to_string(fleet_.rows[outlier.row].rank) + " " + outlier.why, 2);
      for (std::size_t k = 0; k < std::min<std::size_t>(3, outlier.sites.size()); ++k) {
        const SiteDelta& site = outlier.sites[k];
        line(memreel::text_of(site.here) + " against " + memreel::text_of(site.there) + " on rank " +
                 std::to_string(fleet_.rows[outlier.neighbour].rank) + ": " + shortened(site_text(site.frames), 60),
             4);
      }
    }
    if (fleet_.outliers.size() > top_) line("and " + std::to_string(fleet_.outliers.size() - top_) + " more", 2);
  }

  void print_leaks() {
    out_ << '\n';
    const std::vector<std::string> unjudged = unjudged_leaks_of(fleet_);
    for (const std::string& text : unjudged) line(text);
    if (fleet_.leaks.empty()) {
      if (unjudged.empty()) line("no rank leaks");
      if (!unjudged.empty() && fleet_.leaks_are_judged()) line("no other rank leaks");
      return;
    }
    out_ << bold("leaks") << '\n';
    for (std::size_t i = 0; i < std::min(top_, fleet_.leaks.size()); ++i) {
      const RankLeak& leak = fleet_.leaks[i].leak;
      const FleetRow& row = fleet_.rows[fleet_.leaks[i].row];
      const std::int32_t device = leak.device.value_or(row.summary.device);
      line("rank " + std::to_string(row.rank) +
               (device == row.summary.device ? "" : ", GPU " + std::to_string(device)) + ": " +
               memreel::text_of(leak.bytes) + " in " + counted(leak.count, "allocation") +
               (leak.growth_bytes_per_step > 0
                    ? ", " + memreel::text_of(Bytes{static_cast<std::uint64_t>(leak.growth_bytes_per_step)}) +
                          " more each step"
                    : "") +
               (leak.verdict == "leak" ? "" : " (suspected)") + ": " + shortened(site_text(leak.frames), 60),
           2);
    }
    if (fleet_.leaks.size() > top_) line("and " + std::to_string(fleet_.leaks.size() - top_) + " more", 2);
  }

  void print_sites() {
    if (fleet_.sites.empty()) return;
    out_ << '\n';
    TextTable table({{"at the peaks", Align::right},
                     {"most", Align::right},
                     {"on rank", Align::right},
                     {"ranks", Align::right},
                     {"held by"}});
    for (std::size_t i = 0; i < std::min<std::size_t>({5, top_, fleet_.sites.size()}); ++i) {
      const FleetSite& site = fleet_.sites[i];
      table.add_row({memreel::text_of(site.sum), memreel::text_of(site.max),
                     std::to_string(fleet_.rows[site.max_row].rank), std::to_string(site.ranks),
                     shortened(site_text(site.frames), 50)});
    }
    table.print(out_, 2);
  }

  void print_setting() {
    if (!report_.setting) return;
    const CommonSetting& setting = *report_.setting;
    out_ << '\n';
    if (!setting.best) {
      line(setting.why);
    } else {
      line("one setting for all ranks " + setting.why);
      out_ << "  " << bold(export_line(setting.candidates[*setting.best])) << '\n';
      line(setting.decider_before ? "the deciding rank: " + memreel::text_of(*setting.decider_before) + " before, " +
                                        memreel::text_of(*setting.decider_after) + " with it"
                                  : "the deciding rank was not replayed",
           2);
      std::vector<std::uint32_t> worse;
      for (const std::size_t i : setting.worse)
        for (const std::uint32_t row : fleet_.classes[setting.classes[i].klass].rows)
          worse.push_back(fleet_.rows[row].rank);
      std::ranges::sort(worse);
      line(worse.empty() ? "no rank gets worse" : "worse with it: " + ranks_text(worse), 2);
      if (setting.peak_per_class < setting.peak_after)
        line("with a setting for each class: " + memreel::text_of(setting.peak_per_class) + " at most", 2);
    }
    print_proof(setting);
  }

  void print_proof(const CommonSetting& setting) {
    std::uint64_t allocations = 0, matches = 0, files = 0;
    for (const ClassSettings& c : setting.classes) {
      allocations += c.allocations + c.witness_allocations;
      matches += c.address_matches + c.witness_matches;
      files += (c.allocations > 0 ? 1U : 0U) + (c.witness_allocations > 0 ? 1U : 0U);
      if (!c.problem.empty() && !c.spared)
        line("rank " + std::to_string(fleet_.rows[c.row].rank) + " was not replayed: " + c.problem, 2);
    }
    if (files > 0)
      line("replays repeat " + memreel::text_of(matches) + " of " + memreel::text_of(allocations) + " addresses of " +
               counted(static_cast<std::uint64_t>(files), "rank") + ": one or two of each class" +
               (setting.classes.size() > proposing_classes(fleet_).size() ? " that proposes settings" : ""),
           2);
  }

  /// Prints incompletely read rows and other problems.
  void print_troubles() {
    bool any = false;
    std::size_t shown = 0, hidden = 0;
    for (const FleetRow& row : fleet_.rows) {
      const RankSummary& s = row.summary;
      if (s.reason.empty() || s.status == RankStatus::missing) continue;
      if (!any) out_ << '\n';
      any = true;
      if (++shown > top_) {
        ++hidden;
        continue;
      }
      const std::string name(base_name(s.file));
      line("rank " + std::to_string(row.rank) + (row.rank_assumed ? " (assumed)" : "") + ", " + name + ": " +
           (s.status == RankStatus::ok ? "not judged" : std::string(words_of(s.status))) + ": " + s.reason);
    }
    if (hidden > 0) line("and " + std::to_string(hidden) + " more");
    if (std::ranges::any_of(fleet_.rows, &FleetRow::rank_assumed))
      line(
          "ranks are assumed: neither the recordings nor a number in their names say which is which, so they are "
          "numbered in the order of their names (--rank-pattern)");
    if (!report_.skipped.empty())
      line("skipped, no recordings or folders that can't be entered: " + std::to_string(report_.skipped.size()) +
           ", such as " + report_.skipped.front().filename().string());
    if (!fleet_.launchers.empty())
      line("left out, with neither a rank nor memory: " + std::to_string(fleet_.launchers.size()) + ", such as " +
           std::filesystem::path(fleet_.launchers.front()).filename().string());
  }

  const FleetReport& report_;
  const Fleet& fleet_;
  std::size_t top_;
  std::ostream& out_;
};

}  // namespace

void print_fleet_text(std::span<const FleetReport> jobs, std::size_t top, std::ostream& out) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (i > 0) out << '\n';
    TextPage(jobs[i], top, out).print();
  }
}

}  // namespace memreel::cli
