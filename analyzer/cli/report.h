// SPDX-License-Identifier: Apache-2.0
// The result of `memreel report`, before it becomes text or JSON.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <span>

#include "analyzer/analysis/analysis.h"
#include "analyzer/analysis/difference/instant.h"
#include "analyzer/analysis/insight/kept_by.h"
#include "analyzer/analysis/insight/timeline.h"
#include "analyzer/analysis/verdict.h"
#include "analyzer/cli/output.h"
#include "analyzer/describe/live_groups.h"
#include "analyzer/replay/memory_summary.h"
#include "formats/model/trace.h"

namespace memreel::cli {

/// Who held the memory of a heap at an instant.
struct LiveView {
  std::uint64_t events = 0;  // number of events so far
  Bytes bytes;
  std::uint64_t count = 0;
  std::vector<LiveGroup> groups;  // largest first
  std::vector<CategoryShare> categories;
};

struct HeapReport {
  HeapHistory history;
  const MemorySummary* summary = nullptr;  // null for heaps that are not PyTorch's
  LiveView at_peak, at_end;
  std::optional<LiveView> at_instant;  // if requested
  std::vector<PhasePeak> phases;
  std::vector<RangePeak> ranges;
  std::vector<GroupPeak> groups;       // by tag or thread; else empty
  std::span<const PrivatePool> pools;  // largest peak first
};

struct Report {
  std::shared_ptr<const Analysis> analysis;
  GroupBy by = GroupBy::stack;
  Sections sections;
  std::optional<Instant> instant;  // shown instead of the peak and the end
  std::vector<HeapReport> heaps;
  Verdict verdict;                       // on the requested parts
  std::vector<VerdictLine> first_lines;  // those that make_report() had before the replays

  // Parts of the analysis; empty unless they were requested.
  const Categories& categories() const;
  const LeakReport& leaks() const;
  const std::vector<Fragmentation>& fragmentation() const;  // by heap
  const OutOfMemories& ooms() const;
  const Remedies& remedies() const;  // for both of these
  const std::optional<StepPlan>& step_plan() const;

  /// The verdict's heap, the others of its device, those of other devices, host memory; larger ones first.
  std::vector<const HeapReport*> by_importance() const;
  /// The fragmentation of the verdict's heap, then that of the others.
  std::vector<const Fragmentation*> fragmentation_by_importance() const;
  /// Whether a heap has less than 1 % of the peak of its device, or of the verdict's if it is host memory: documents
  /// for people give it a line.
  bool is_minor(const HeapReport& heap) const;
};

struct ReportQuestion {
  GroupBy by = GroupBy::line;
  Sections sections;
  std::optional<Instant> instant;
  LeakOptions leaks;
};

/// Leaves parts that were not requested empty. Errors: the trace has no such instant.
///
/// What takes long, on a long trace, is the replay of settings. Before it, `on_first_lines` gets the report with all of
/// the verdict but the setting.
Result<Report> make_report(const Trace& trace, const ReportQuestion& question,
                           const std::function<void(const Report&)>& on_first_lines = {});

struct ReportOptions {
  std::filesystem::path file;
  std::size_t top = 10;                // groups per table in text
  bool allocations = false;            // list every allocation with its address
  bool tree = false;                   // the devices' trees instead of each heap
  bool summary = false;                // the statistics of torch.cuda.memory_summary()
  std::optional<std::int32_t> device;  // to show in full; else the deciding one
  std::string heap;                    // the only one of the report; empty: all
};

/// Of the report on what is live, the lines of the verdict that need no replay; print_report_text() continues.
void print_first_lines(const Trace& trace, const Report& report);
void print_report_text(const Trace& trace, const Report& report, const ReportOptions& options);
void write_report_json(const Trace& trace, const Report& report, const ReportOptions& options, std::ostream& out);
void write_report_markdown(const Trace& trace, const Report& report, const ReportOptions& options, std::ostream& out);
void write_report_html(const Trace& trace, const Report& report, const ReportOptions& options, std::ostream& out);

// Sections of the text report.
void print_fragmentation_text(const Trace& trace, const Report& report, const ReportOptions& options);
void print_ooms_text(const Trace& trace, const Report& report, const ReportOptions& options);
void print_pool_errors_text(const Trace& trace, const Report& report, const ReportOptions& options);
void print_tree_text(const Trace& trace, const Report& report);
/// Which Python variables kept the memory.
void print_holders_text(const Trace& trace, const ReportOptions& options);
void print_pools_text(const Trace& trace, const HeapReport& heap, const ReportOptions& options);

/// What sharing a private pool saves; empty if it has one use or saves nothing.
std::string sharing_words(const Tables& tables, const PrivatePool& pool);

// Phrases shared by text, Markdown and HTML.

/// "torch.cuda, device 0"; for host memory only the name.
std::string heap_title(const Tables& tables, HeapId heap);

/// "24.00 KiB live at its peak, most at train.py:7 (61 %)"
std::string brief_words(const Report& report, const HeapReport& heap);

/// A sentence for a heap on a device whose driver's calls are not recorded, as in snapshots; else empty.
std::string part_words(const Report& report, const HeapReport& heap);

/// "3.20 GiB resident at its peak, 1.10 GiB at first, 3.20 GiB at the end, 24.00 MiB more with each step; 1.00 GiB
/// pinned at its peak, 0 B at the end"
std::string host_words(const HostMemory& memory);

/// "stream 0x7f.., pool (0, 1), small": the parts that differ from the default.
std::string place_of(const Tables& tables, const PoolStreamKey& pool_stream);

std::string text_of_time(Nanoseconds duration);

/// A sentence about failed requests whose size is not recorded.
std::string unsized_text(const OutOfMemories& ooms);

/// A sentence about the one setting for the whole program; empty if no request failed by fragmentation.
std::string oom_setting_text(const Report& report);

/// A sentence listing the settings and allocators that serve a failed request, or why there are none.
std::string survivors_text(const Report& report, const OutOfMemory& oom);

/// A sentence about what a static plan of one step would save; empty if that is too little to say.
std::string step_plan_text(const Report& report);

/// What the likeliest of the settings tried may save of a recording that began late, in a sentence; empty if known.
std::string late_range_text(const Report& report);

// The value of `verdict` in a report.

Json json_of_verdict(const Tables& tables, const Verdict& verdict);

// The values of `fragmentation` and `ooms` in a report.

Json json_of_fragmentation(const Trace& trace, const Report& report);
Json json_of_ooms(const Trace& trace, const Report& report);

/// The value of `oom_setting`: the setting that serves the most failed requests; null if none serves any.
Json json_of_oom_setting(const Report& report);

}  // namespace memreel::cli
