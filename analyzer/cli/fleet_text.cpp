// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>

#include "analyzer/cli/console.h"
#include "analyzer/cli/fleet.h"
#include "analyzer/fleet/headline.h"
#include "analyzer/report/own_frame.h"
#include "analyzer/report/text_table.h"
#include "analyzer/tune/search_space.h"
#include "formats/model/frame_kind.h"
#include "formats/model/notation.h"
#include "formats/model/paths.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel::cli {
namespace {

constexpr std::size_t page_width = 100;

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
    out_ << wrapped(printable(text), indent, page_width, 2);  // of files, of which anybody may have named one
  }

  /// `text` beside the word that says what it is about.
  void about(std::string_view word, const std::string& text) {
    out_ << (word == "decides" ? bold(word) : std::string(word)) << wrapped(text, 9, page_width).substr(word.size());
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
      const RankSummary& s = fleet_.rows[*worst].summary;
      std::string ranks = shortened(text_of_ranks(ranks_of(fleet_, c.rows)), 26);
      if (c.deviates_from)
        ranks += " (like rank " + std::to_string(fleet_.rows[fleet_.classes[*c.deviates_from].rows.front()].rank) + ")";
      const bool bound = fleet_.rows[*worst].at_least();
      const auto most = [&](Bytes bytes) { return (bound ? ">= " : "") + memreel::text_of(bytes); };
      const std::optional<std::int64_t> left = fleet_.rows[*worst].headroom;
      const std::string headroom = left ? text_of_signed(*left) : "";
      table.add_row({most(s.peak_reserved), most(s.peak_allocated), most(s.peak_live),
                     (bound && !headroom.empty() ? "<= " : "") + headroom, std::to_string(c.rows.size()),
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
    if (fleet_.leaks.empty()) {
      line("no rank leaks");
      return;
    }
    out_ << bold("leaks") << '\n';
    for (std::size_t i = 0; i < std::min(top_, fleet_.leaks.size()); ++i) {
      const RankLeak& leak = fleet_.leaks[i].leak;
      line("rank " + std::to_string(fleet_.rows[fleet_.leaks[i].row].rank) + ": " + memreel::text_of(leak.bytes) +
               " in " + memreel::text_of(leak.count) + " allocations, " +
               memreel::text_of(Bytes{static_cast<std::uint64_t>(leak.growth_bytes_per_step)}) + " more each step" +
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
               std::to_string(files) + " ranks: one or two of each class" +
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
           (s.status == RankStatus::ok ? "not judged" : std::string(name_of(s.status))) + ": " + s.reason);
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
