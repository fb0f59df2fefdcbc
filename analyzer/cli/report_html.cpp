// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <future>

#include "analyzer/analysis/insight/timeline.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/report.h"
#include "analyzer/describe/fields.h"
#include "analyzer/describe/html/charts.h"
#include "analyzer/describe/live_groups.h"
#include "analyzer/describe/markup.h"
#include "analyzer/describe/own_frame.h"
#include "analyzer/describe/shortcomings.h"
#include "analyzer/replay/replay.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel::cli {
namespace {

// Keeps the file below 2 MB for any trace: everything unbounded is truncated.
constexpr std::size_t most_rows = 12;
constexpr std::size_t most_heaps = 4;  // with pictures
constexpr std::size_t most_ooms = 8;   // in full
constexpr std::size_t most_frames = 24;
constexpr std::size_t most_text = 160;  // bytes of a name
constexpr std::size_t columns = 800;    // of a picture

std::string cell(std::string_view text) { return html_escaped(clipped(text, most_text)); }

std::string paragraph(std::string_view text, const char* kind = "") {
  return std::string("<p") + (*kind != '\0' ? std::string(" class=") + kind : "") + ">" +
         html_escaped(clipped(text, 1200)) + "</p>\n";
}

std::string more(std::size_t shown, std::size_t all) {
  return shown < all ? "<p class=quiet>and " + text_of(std::uint64_t{all - shown}) + " more</p>\n" : "";
}

/// A line that expands to the whole stack.
std::string stack_details(const Trace& trace, std::string_view summary, StackId stack) {
  const std::vector<FrameText> frames = frames_of(trace.tables, stack);
  if (frames.size() < 2) return "<p>" + cell(summary) + "</p>\n";
  std::string html = "<details><summary>" + cell(summary) + "</summary><ol class=stack>\n";
  for (std::size_t i = 0; i < std::min(most_frames, frames.size()); ++i)
    html += "<li>" + cell(text_of(frames[i])) + "</li>\n";
  return html + "</ol></details>\n";
}

class Page {
 public:
  Page(const Trace& trace, const Report& report, const ReportOptions& options)
      : trace_(trace), report_(report), options_(options) {}

  std::string text() {
    const std::string name = options_.file.filename().string();
    heading(name);
    if (report_.sections.live) pictures();
    if (const auto& host = report_.analysis->host_memory(); report_.sections.live && host)
      body_ += paragraph("Host memory: " + host_words(*host) + ".");
    if (report_.sections.live) holders();
    if (report_.sections.live) pool_errors();
    if (report_.sections.leaks) leaks();
    if (report_.sections.fragmentation) fragmentation();
    if (report_.sections.ooms) ooms();
    body_ += "<footer>" + html_escaped(trace_.header.producer) + " · every figure: <code>memreel report " +
             cell(shell_word(name)) + " --json</code></footer>\n";
    return html_page(clipped(name, most_text) + " · memreel", body_);
  }

 private:
  void tile(const std::string& value, std::string_view what, bool bad = false) {
    body_ += std::string("<div class=tile><b") + (bad ? " class=bad" : "") + ">" + html_escaped(value) + "</b><span>" +
             html_escaped(what) + "</span></div>\n";
  }

  void heading(const std::string& name) {
    body_ += "<h1>" + cell(name) + "</h1>\n";
    const std::uint64_t events = trace_.events.count();
    const Nanoseconds time = events == 0 ? Nanoseconds{} : since_start(trace_, events - 1);
    body_ += paragraph(trace_.header.source + ", " + counted(events, "event") +
                           (has_times(trace_.events) ? " over " + text_of_time(time) : ""),
                       "quiet");
    if (const std::string line = provenance(trace_.header); !line.empty()) body_ += paragraph(line, "quiet");
    for (const std::string& line : shortcomings(trace_)) body_ += paragraph("Incomplete: " + line, "quiet");
    tiles();
    body_ += "<ul class=headlines>\n";
    for (const VerdictLine& line : lines_of(report_.verdict))
      body_ += std::string("<li") + (line.alarm ? " class=alarm" : "") + "><b>" + html_escaped(line.topic) +
               "</b>: " + html_escaped(clipped(line.text, 600)) + "</li>\n";
    body_ += "</ul>\n";
  }

  void tiles() {
    body_ += "<div class=tiles>\n";
    Bytes live, reserved;
    for (const HeapReport& heap : report_.heaps) {
      live = std::max(live, heap.history.peak_live);
      reserved = std::max(reserved, heap.history.peak_reserved);
    }
    if (tells_live_memory(trace_)) tile(text_of(live), "live at the peak");
    if (reserved > 0_B) tile(text_of(reserved), "reserved at the peak");
    if (!report_.fragmentation().empty())
      tile(text_of_share(report_.fragmentation_by_importance().front()->at_peak.fragmentation()),
           "fragmentation at the peak");
    if (report_.sections.leaks) {
      Bytes leaked;
      for (const LeakCause& cause : report_.leaks().causes) leaked += cause.bytes;
      tile(leaked == 0_B ? "none" : text_of(leaked), "leaked", leaked > 0_B);
    }
    if (report_.sections.ooms)
      tile(report_.ooms().count == 0 ? "none" : text_of(report_.ooms().count), "failed requests",
           report_.ooms().count > 0);
    body_ += "</div>\n";
  }

  void pictures() {
    if (!tells_live_memory(trace_)) return;
    auto for_categories =
        std::async([&] { return category_timelines(trace_, report_.categories(), columns); });  // on another core
    const std::vector<MemoryTimeline> timelines = memory_timelines(trace_, report_.analysis->blocks(), columns);
    const std::vector<CategoryTimeline> categories = for_categories.get();
    std::size_t drawn = 0;
    std::string minor;
    for (const HeapReport* const each : report_.by_importance()) {
      const HeapReport& heap = *each;
      const HeapId id = heap.history.heap;
      const auto timeline = std::ranges::find(timelines, id, &MemoryTimeline::heap);
      if (timeline == timelines.end()) continue;
      if (report_.is_minor(heap)) {
        minor += paragraph(heap_title(trace_.tables, id) + ": " + brief_words(report_, heap), "quiet");
        continue;
      }
      if (drawn++ >= most_heaps) continue;
      body_ += "<h2>" + cell(heap_title(trace_.tables, id)) + "</h2>\n" + memory_chart(*timeline);
      if (const std::string words = part_words(report_, heap); !words.empty()) body_ += paragraph(words, "quiet");
      if (says_something(heap.at_peak.categories)) {
        body_ += "<h3>What it was for</h3>\n";
        body_ += category_chart(*timeline, *std::ranges::find(categories, id, &CategoryTimeline::heap));
        categories_of(heap.at_peak);
      }
      body_ += "<h3>Who held the " + text_of(heap.at_peak.bytes) + " at the peak of live memory</h3>\n";
      body_ +=
          "<p class=quiet>Callers above, width is bytes<i class=keys style=\"background:var(--own)\"></i>your code"
          "<i class=keys style=\"background:var(--library)\"></i>libraries</p>\n";
      body_ += flame_graph(trace_.tables, flame_tree(trace_, report_.analysis->lives(), id, heap.at_peak.events));
      groups(heap.at_peak);
      pools(heap);
    }
    body_ += more(std::min(drawn, most_heaps), drawn) + minor;
  }

  void categories_of(const LiveView& view) {
    HtmlTable table(
        {{"at the peak", true}, {"share", true}, {"count", true}, {"category"}, {"of it", true}, {"largest place"}});
    for (const CategoryShare& share : view.categories)
      table.add_row({text_of(share.bytes), text_of_share(share_of(share.bytes, view.bytes)), text_of(share.count),
                     "<i class=keys style=\"margin-left:0;background:" + css_colour(share.category) + "\"></i>" +
                         std::string(words_of(share.category)),
                     text_of_share(share.largest()), cell(share.holders.front().label)});
    body_ += table.text();
  }

  void groups(const LiveView& view) {
    HtmlTable table({{"bytes", true}, {"share", true}, {"count", true}, {name_of(report_.by)}});
    const std::size_t shown = std::min(most_rows, view.groups.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const LiveGroup& group = view.groups[i];
      table.add_row({text_of(group.bytes), text_of_share(share_of(group.bytes, view.bytes)), text_of(group.count),
                     cell(group.label)});
    }
    if (shown > 0) body_ += table.text() + more(shown, view.groups.size());
  }

  void pools(const HeapReport& heap) {
    if (heap.pools.empty()) return;
    body_ += "<h3>Private pools of CUDA graphs and MemPools</h3>\n";
    std::vector<HtmlTable::Column> titles;
    for_each_column<PrivatePool>([&](const ResultField<PrivatePool>& field) {
      titles.push_back({field.title, field.is_number()});
    });
    HtmlTable table(titles);
    const std::size_t shown = std::min(most_rows, heap.pools.size());
    for (std::size_t i = 0; i < shown; ++i) {
      std::vector<std::string> texts;
      for (const std::string& text : cells_of(trace_.tables, heap.pools[i])) texts.push_back(cell(text));
      table.add_row(texts);
    }
    body_ += table.text() + more(shown, heap.pools.size());
    for (std::size_t i = 0; i < shown; ++i)
      if (const std::string words = sharing_words(trace_.tables, heap.pools[i]); !words.empty())
        body_ += paragraph("Pool " + words + ".", "quiet");
  }

  void holders() {
    const PythonHolders& found = trace_.python_holders;
    if (found.empty()) return;
    body_ += "<h2>Kept by</h2>\n" + paragraph("In Python: " + walk_words(found) + ".", "quiet");
    std::vector<HtmlTable::Column> titles;
    for_each_column<PythonHolder>([&](const ResultField<PythonHolder>& field) {
      titles.push_back({field.title, field.is_number()});
    });
    HtmlTable table(titles);
    const std::size_t shown = std::min(most_rows, found.rows.size());
    for (const PythonHolder& row : std::span(found.rows).first(shown)) {
      std::vector<std::string> texts;
      for (const std::string& text : cells_of(trace_.tables, row)) texts.push_back(cell(text));
      table.add_row(texts);
    }
    body_ += table.text() + more(shown, found.rows.size());
  }

  void pool_errors() {
    const std::vector<PoolError>& errors = report_.analysis->pool_errors();
    if (errors.empty()) return;
    body_ += "<h2>Pool errors</h2>\n";
    HtmlTable table({{"error", false}, {"pool", false}, {"count", true}, {"first", false}});
    const std::size_t shown = std::min(most_rows, errors.size());
    for (const PoolError& error : std::span(errors).first(shown))
      table.add_row({cell(name_of(error.kind)), cell(heap_title(trace_.tables, error.heap)), text_of(error.count),
                     cell(evidence_of(trace_.tables, error))});
    body_ += table.text() + more(shown, errors.size());
  }

  void leaks() {
    const LeakReport& leaks = report_.leaks();
    body_ += "<h2>Leaks</h2>\n";
    if (leaks.unrecorded) {
      body_ += paragraph("Leaks are " + std::string(leaks_not_judged) + ".");
      return;
    }
    const auto accused = static_cast<std::size_t>(
        std::ranges::count_if(leaks.findings, [](const LeakFinding& finding) { return accuses(finding.verdict); }));
    const bool judged = std::ranges::any_of(leaks.heaps, [](const HeapRounds& heap) { return heap.rounds.suffice(); });
    if (accused == 0 && judged) body_ += "<p>No leaks.</p>\n";
    if (accused == 0 && !judged && !leaks.heaps.empty())
      body_ += paragraph("Leaks are " + text_of(leaks.heaps.front().rounds) + ".");
    for (std::size_t i = 0; i < std::min(most_rows, accused); ++i) {
      const LeakFinding& finding = leaks.findings[i];
      body_ += "<h3><span class=bad>" + html_escaped(name_of(finding.verdict)) + "</span> " + text_of(finding.bytes) +
               " at " + cell(site_label(trace_.tables, finding.stack)) + "</h3>\n";
      body_ += stack_details(trace_, finding.evidence, finding.stack);
    }
    body_ += more(std::min(most_rows, accused), accused);
    HtmlTable table({{"bytes", true}, {"verdict"}, {"why"}});
    std::size_t shown = 0;
    for (std::size_t i = accused; i < leaks.findings.size() && shown < most_rows; ++i, ++shown) {
      const LeakFinding& finding = leaks.findings[i];
      table.add_row({text_of(finding.bytes), std::string(name_of(finding.verdict)), cell(finding.evidence)});
    }
    if (shown > 0) body_ += "<h3>Held, not leaked</h3>\n" + table.text() + more(shown, leaks.findings.size() - accused);
  }

  void fragmentation() {
    body_ += "<h2>Fragmentation</h2>\n";
    if (report_.fragmentation().empty()) body_ += "<p>Not known: no segments were recorded.</p>\n";
    const std::vector<const Fragmentation*> heaps = report_.fragmentation_by_importance();
    for (std::size_t i = 0; i < std::min(most_heaps, heaps.size()); ++i) fragmentation_of(*heaps[i]);
    remedies();
  }

  void fragmentation_of(const Fragmentation& found) {
    const FragmentationPoint& peak = found.at_peak;
    body_ += "<h3>" + cell(heap_title(trace_.tables, found.heap)) + ": " + text_of(peak.allocated) + " of " +
             text_of(peak.reserved) + " allocated at the reserved peak</h3>\n";
    HtmlTable made({{"bytes", true}, {"what they were"}});
    for (const auto& [bytes, what] : parts_of(peak)) made.add_row({text_of(bytes), what});
    body_ += made.text();
    HtmlTable sites({{"unreleasable", true}, {"alone", true}, {"segments", true}, {"bytes", true}, {"allocated at"}});
    const std::size_t shown = std::min(most_rows, found.sites.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const PinningSite& site = found.sites[i];
      sites.add_row({text_of(site.unreleasable), text_of(site.alone), text_of(site.segments), text_of(site.bytes),
                     cell(site.label)});
    }
    if (shown > 0) body_ += sites.text() + more(shown, found.sites.size());
    HtmlTable pool_streams({{"free", true}, {"largest", true}, {"reserved", true}, {"stream and pool"}});
    for (std::size_t i = 0; i < std::min(most_rows, found.pool_streams.size()); ++i) {
      const PoolStreamUse& use = found.pool_streams[i];
      pool_streams.add_row({text_of(use.free()), text_of(use.largest_free), text_of(use.reserved),
                            cell(place_of(trace_.tables, use.pool_stream))});
    }
    if (found.pool_streams.size() > 1) body_ += pool_streams.text();
  }

  void remedies() {
    const Remedies& remedies = report_.remedies();
    HtmlTable table({{"saves", true},
                     {"reserved", true},
                     {"calls", true},
                     {"failed", true},
                     {remedies.is_torch ? "setting" : "allocator"}});
    std::size_t shown = 0;
    for (const Remedy& remedy : remedies.tried) {
      if (remedies.gives_back(remedy) <= 0 || shown == most_rows) break;
      table.add_row({text_of(Bytes{static_cast<std::uint64_t>(remedies.gives_back(remedy))}),
                     text_of(remedy.outcome.peak_reserved()), text_of(count_of(remedy.outcome.driver_calls())),
                     text_of(remedy.outcome.failures()),
                     "<code>" + cell(remedy.text) + "</code>" + release_mark(remedy.outcome)});
      ++shown;
    }
    if (shown > 0) body_ += "<h3>What saves memory, by replay</h3>\n" + table.text();
    for (const std::string& text : {late_range_text(report_), step_plan_text(report_)})
      if (!text.empty()) body_ += paragraph(text);
  }

  void ooms() {
    const OutOfMemories& ooms = report_.ooms();
    body_ += "<h2>Out of memory</h2>\n";
    if (ooms.count == 0) {
      body_ += "<p>No request failed.</p>\n";
      return;
    }
    const std::size_t shown = std::min(most_ooms, ooms.examined.size());
    for (std::size_t i = 0; i < shown; ++i) oom(ooms.examined[i], i == 0);
    if (const std::uint64_t all = ooms.count - ooms.unsized; shown < all)
      body_ += "<p class=quiet>and " + text_of(all - shown) + " more</p>\n";
    if (ooms.unsized > 0) body_ += paragraph(unsized_text(ooms));
  }

  void oom(const OutOfMemory& oom, bool open) {
    const Event event = trace_.events[oom.event];
    const std::string site = site_label(trace_.tables, event.stack);
    body_ +=
        std::string("<details") + (open ? " open" : "") + "><summary><span class=bad>" + text_of(oom.requested) +
        "</span>" + (site == no_stack_label ? "" : " at " + cell(site)) +
        (has_times(trace_.events) ? ", " + text_of_time(since_start(trace_, oom.event)) + " after the start" : "") +
        ": " + std::string(name_of(oom.verdict)) + "</summary>\n";
    body_ += paragraph(explanation(oom)) + paragraph(survivors_text(report_, oom));
    if (oom.gap_in_pool_stream) gap(oom, *oom.gap_in_pool_stream, "Around the largest free block for this request");
    if (oom.largest_gap) gap(oom, *oom.largest_gap, "Around the largest free block of any stream and pool");
    body_ += stack_details(trace_, "Stack of the request", event.stack) + "</details>\n";
  }

  void gap(const OutOfMemory& oom, const GapMap& gap, const std::string& title) {
    body_ += "<h3>" + title + ": " + text_of(gap.size()) + " in a segment of " + text_of(gap.segment.size) + "</h3>\n";
    body_ += "<div class=strip>" + gap.strip + "</div>\n";
    HtmlTable table({{"offset", true}, {"bytes", true}, {"use"}, {"age", true}, {"who holds it"}});
    const Nanoseconds now = trace_.events.time(oom.event);
    for (std::size_t i = 0; i < gap.blocks.size(); ++i) {
      const HeapBlock& block = gap.blocks[i];
      std::vector<std::string> row{text_of(block.address - gap.segment.address), text_of(block.size),
                                   std::string(name_of(block.use))};
      if (block.allocation != AllocationId::none) {
        const Event birth = trace_.events[trace_.events.begin_of(block.allocation)];
        row.push_back(has_times(trace_.events) ? text_of_time(now - birth.time) : "");
        row.push_back(cell(label_in(trace_, site_label(trace_.tables, birth.stack))));
      } else if (i == gap.gap) {
        row.insert(row.end(), {"", "<span class=quiet>this free block</span>"});
      }
      table.add_row(row);
    }
    body_ += table.text();
  }

  const Trace& trace_;
  const Report& report_;
  const ReportOptions& options_;
  std::string body_;
};

}  // namespace

void write_report_html(const Trace& trace, const Report& report, const ReportOptions& options, std::ostream& out) {
  out << Page(trace, report, options).text();
}

}  // namespace memreel::cli
