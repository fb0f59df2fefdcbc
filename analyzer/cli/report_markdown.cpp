// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ostream>

#include "analyzer/cli/input.h"
#include "analyzer/cli/report.h"
#include "analyzer/describe/fields.h"
#include "analyzer/describe/markup.h"
#include "analyzer/describe/own_frame.h"
#include "analyzer/describe/shortcomings.h"
#include "formats/model/quantity.h"

namespace memreel::cli {
namespace {

// A pull-request comment may have up to 65,536 characters, and should have far fewer.
constexpr std::size_t most_table_rows = 8;
constexpr std::size_t most_described_heaps = 8;

void row(std::ostream& out, const std::vector<std::string>& cells) {
  out << '|';
  for (const std::string& cell : cells) out << ' ' << cell << " |";
  out << '\n';
}

void open_section(std::ostream& out, const std::string& title) {
  out << "\n<details><summary>" << title << "</summary>\n\n";
}

void close_section(std::ostream& out) { out << "\n</details>\n"; }

void write_summary(std::ostream& out, const Trace& trace, const Report& report) {
  out << '\n';
  row(out, {"heap", "peak live", "peak reserved", "live at end", "failed"});
  row(out, {"---", "---:", "---:", "---:", "---:"});
  const std::vector<const HeapReport*> heaps = report.by_importance();
  for (std::size_t i = 0; i < std::min(most_described_heaps, heaps.size()); ++i) {
    const HeapHistory& history = heaps[i]->history;
    const bool is_known = tells_live_memory(trace);
    row(out, {markdown_code(heap_title(trace.tables, history.heap)), is_known ? text_of(history.peak_live) : "unknown",
              is_known || history.peak_reserved > 0_B ? text_of(history.peak_reserved) : "unknown",
              is_known ? text_of(history.end_live) : "unknown", text_of(history.failures)});
  }
  if (!heaps.empty())
    if (const std::string words = part_words(report, *heaps.front()); !words.empty())
      out << '\n' << markdown_escaped(words) << '\n';
}

void write_live(std::ostream& out, const Trace& trace, const Report& report) {
  std::vector<const HeapReport*> heaps = report.by_importance();
  std::erase_if(heaps, [&](const HeapReport* heap) { return heap->at_peak.groups.empty() || report.is_minor(*heap); });
  for (std::size_t h = 0; h < std::min(most_described_heaps, heaps.size()); ++h) {
    const LiveView& view = heaps[h]->at_peak;
    open_section(out,
                 "Who held the " + text_of(view.bytes) + " at the peak" +
                     (heaps.size() > 1 ? " of " + html_escaped(heap_title(trace.tables, heaps[h]->history.heap)) : ""));
    if (says_something(view.categories)) {
      row(out, {"bytes", "share", "category", "of it", "largest place"});
      row(out, {"---:", "---:", "---", "---:", "---"});
      for (const CategoryShare& share : view.categories)
        row(out, {text_of(share.bytes), text_of_share(share_of(share.bytes, view.bytes)),
                  std::string(words_of(share.category)), text_of_share(share.largest()),
                  markdown_code(share.holders.front().label)});
      out << '\n';
    }
    row(out, {"bytes", "share", "count", std::string(name_of(report.by))});
    row(out, {"---:", "---:", "---:", "---"});
    for (std::size_t i = 0; i < std::min(most_table_rows, view.groups.size()); ++i) {
      const LiveGroup& group = view.groups[i];
      row(out, {text_of(group.bytes), text_of_share(share_of(group.bytes, view.bytes)), text_of(group.count),
                markdown_code(group.label)});
    }
    close_section(out);
  }
}

void write_pools(std::ostream& out, const Trace& trace, const Report& report) {
  for (const HeapReport& heap : report.heaps) {
    if (heap.pools.empty()) continue;
    open_section(out, "Private pools of CUDA graphs and MemPools");
    std::vector<std::string> titles, rules;
    for_each_column<PrivatePool>([&](const ResultField<PrivatePool>& field) {
      titles.emplace_back(field.title);
      rules.emplace_back(field.is_number() ? "---:" : "---");
    });
    row(out, titles);
    row(out, rules);
    for (std::size_t i = 0; i < std::min(most_table_rows, heap.pools.size()); ++i)
      row(out, cells_of(trace.tables, heap.pools[i]));
    close_section(out);
  }
}

void write_holders(std::ostream& out, const Trace& trace) {
  const PythonHolders& found = trace.python_holders;
  if (found.empty()) return;
  open_section(out, "Which Python variables kept the memory");
  std::vector<std::string> titles, rules;
  for_each_column<PythonHolder>([&](const ResultField<PythonHolder>& field) {
    titles.emplace_back(field.title);
    rules.emplace_back(field.is_number() ? "---:" : "---");
  });
  row(out, titles);
  row(out, rules);
  for (std::size_t i = 0; i < std::min(most_table_rows, found.rows.size()); ++i) {
    std::vector<std::string> cells = cells_of(trace.tables, found.rows[i]);
    cells.back() = markdown_escaped(cells.back());
    row(out, cells);
  }
  out << '\n' << markdown_escaped(walk_words(found)) << '\n';
  close_section(out);
}

void write_pool_errors(std::ostream& out, const Trace& trace, const Report& report) {
  const std::vector<PoolError>& errors = report.analysis->pool_errors();
  if (errors.empty()) return;
  open_section(out, "Pool errors");
  row(out, {"error", "pool", "count", "first"});
  row(out, {"---", "---", "---:", "---"});
  for (std::size_t i = 0; i < std::min(most_table_rows, errors.size()); ++i)
    row(out, {std::string(name_of(errors[i].kind)), markdown_code(heap_title(trace.tables, errors[i].heap)),
              text_of(errors[i].count), markdown_escaped(clipped(evidence_of(trace.tables, errors[i]), 300))});
  close_section(out);
}

void write_leaks(std::ostream& out, const Trace& trace, const LeakReport& leaks) {
  if (leaks.causes.empty()) return;
  open_section(out, "Leaks");
  row(out, {"verdict", "bytes", "count", "where", "evidence"});
  row(out, {"---", "---:", "---:", "---", "---"});
  for (std::size_t i = 0; i < std::min(most_table_rows, leaks.findings.size()); ++i) {
    const LeakFinding& finding = leaks.findings[i];
    if (!accuses(finding.verdict)) break;
    row(out,
        {std::string(name_of(finding.verdict)), text_of(finding.bytes), text_of(finding.count),
         markdown_code(site_label(trace.tables, finding.stack)), markdown_escaped(clipped(finding.evidence, 300))});
  }
  close_section(out);
}

void write_fragmentation(std::ostream& out, const Trace& trace, const Report& report) {
  if (report.fragmentation().empty()) return;
  open_section(out, "Fragmentation");
  row(out, {"saves", "reserved", "setting, by replay"});
  row(out, {"---:", "---:", "---"});
  std::size_t shown = 0;
  for (const Remedy& remedy : report.remedies().tried) {
    if (report.remedies().gives_back(remedy) <= 0 || shown++ == most_table_rows) break;
    row(out, {text_of(Bytes{static_cast<std::uint64_t>(report.remedies().gives_back(remedy))}),
              text_of(remedy.outcome.peak_reserved()), markdown_code(remedy.text) + release_mark(remedy.outcome)});
  }
  for (const std::string& text : {late_range_text(report), step_plan_text(report)})
    if (!text.empty()) out << '\n' << markdown_escaped(text) << '\n';
  const Fragmentation& found = *report.fragmentation_by_importance().front();
  if (!found.sites.empty()) {
    out << '\n';
    if (report.fragmentation().size() > 1)
      out << "Of " << markdown_escaped(heap_title(trace.tables, found.heap)) << ":\n\n";
    row(out, {"unreleasable", "alone", "bytes", "allocated at"});
    row(out, {"---:", "---:", "---:", "---"});
    for (std::size_t i = 0; i < std::min(most_table_rows, found.sites.size()); ++i) {
      const PinningSite& site = found.sites[i];
      row(out, {text_of(site.unreleasable), text_of(site.alone), text_of(site.bytes), markdown_code(site.label)});
    }
  }
  close_section(out);
}

void write_ooms(std::ostream& out, const Trace& trace, const Report& report) {
  if (report.ooms().count == 0) return;
  open_section(out, "Out of memory");
  if (report.ooms().unsized > 0) out << unsized_text(report.ooms()) << '\n';
  if (report.ooms().examined.empty()) return close_section(out);
  row(out, {"requested", "live", "reserved", "largest free", "verdict", "survives with", "where"});
  row(out, {"---:", "---:", "---:", "---:", "---", "---", "---"});
  for (std::size_t i = 0; i < std::min(most_table_rows, report.ooms().examined.size()); ++i) {
    const OutOfMemory& oom = report.ooms().examined[i];
    const bool has_segments = oom.reserved > 0_B;
    row(out, {text_of(oom.requested), oom.live_is_known ? text_of(oom.live) : "unknown",
              has_segments ? text_of(oom.reserved) : "", has_segments ? text_of(oom.largest_in_pool_stream) : "",
              std::string(name_of(oom.verdict)),
              oom.survivors.empty() ? survivor_text(report.remedies(), oom)
                                    : markdown_code(survivor_text(report.remedies(), oom)),
              markdown_code(site_label(trace.tables, trace.events.stack(oom.event)))});
  }
  out << '\n' << markdown_escaped(explanation(report.ooms().examined.front())) << '\n';
  close_section(out);
}

}  // namespace

void write_report_markdown(const Trace& trace, const Report& report, const ReportOptions& options, std::ostream& out) {
  out << "### memreel: " << markdown_code(options.file.filename().string()) << "\n\n";
  for (const VerdictLine& line : lines_of(report.verdict))
    out << "- **" << line.topic << "**: " << markdown_escaped(clipped(line.text, 600)) << '\n';
  if (const std::string line = provenance(trace.header); !line.empty()) out << "- " << markdown_escaped(line) << '\n';
  for (const std::string& line : shortcomings(trace)) out << "- incomplete: " << markdown_escaped(line) << '\n';
  if (const auto& host = report.analysis->host_memory(); report.sections.live && host)
    out << "- host memory: " << markdown_escaped(host_words(*host)) << '\n';
  write_summary(out, trace, report);
  if (report.sections.live) write_pool_errors(out, trace, report);
  if (report.sections.leaks) write_leaks(out, trace, report.leaks());
  if (report.sections.ooms) write_ooms(out, trace, report);
  if (report.sections.fragmentation) write_fragmentation(out, trace, report);
  if (report.sections.live) {
    write_live(out, trace, report);
    write_holders(out, trace);
    write_pools(out, trace, report);
  }
}

}  // namespace memreel::cli
