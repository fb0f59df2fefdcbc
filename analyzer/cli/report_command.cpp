// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <future>
#include <set>
#include <span>
#include <tuple>

#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/program.h"
#include "analyzer/cli/report.h"
#include "analyzer/cli/report_leaks.h"
#include "analyzer/cli/viewer_page.h"
#include "analyzer/describe/own_frame.h"
#include "formats/command_line/combinations.h"
#include "formats/command_line/option_values.h"

namespace memreel::cli {
namespace {

struct ReportArguments {
  ReportOptions options;
  Bytes memory_limit;
  SymbolOptions symbols;
  std::string by = "line";
  std::string at;
  std::string format;  // empty: from the output's suffix, else text
  std::filesystem::path output;
  bool json = false, interactive = false;
  Sections sections;
  LeakArguments leaks;
};

LiveView live_view(const Trace& trace, const std::vector<Lifetime>& lives, HeapId heap, std::uint64_t events,
                   GroupBy by, const Categories& categories) {
  LiveView view{.events = events,
                .groups = live_groups(trace, lives, categories, heap, events, by),
                .categories = category_shares(trace, lives, categories, heap, events)};
  for (const LiveGroup& group : view.groups) {
    view.bytes += group.bytes;
    view.count += group.count;
  }
  return view;
}

using Writer = void (*)(const Trace&, const Report&, const ReportOptions&, std::ostream&);

/// Formats that are whole documents; text is for the terminal.
constexpr std::array<std::pair<std::string_view, Writer>, 3> documents{
    {{"json", write_report_json}, {"markdown", write_report_markdown}, {"html", write_report_html}}};

/// The format that a file's name implies; empty: none.
std::string format_named_by(const std::filesystem::path& output) {
  const std::string extension = output.extension().string();
  if (extension == ".html" || extension == ".htm") return "html";
  if (extension == ".md") return "markdown";
  return extension == ".json" ? "json" : "";
}

std::string format_of(const ReportArguments& arguments) {
  if (arguments.json) return "json";
  if (!arguments.format.empty()) return arguments.format;
  const std::string implied = format_named_by(arguments.output);
  return implied.empty() ? "text" : implied;
}

/// Writes the viewer as a page with the trace embedded.
Exit write_viewer(const ReportArguments& arguments) {
  if (arguments.output.empty() || format_of(arguments) != "html")
    return fail({.what = "makes a page for browsers", .where = "--interactive", .remedy = "add -o FILE.html"});
  const std::filesystem::path& file = arguments.options.file;
  if (Result<void> differ = must_differ(file, arguments.output); !differ) return fail(differ.error());
  const Result<ViewerPage> page = ViewerPage::find();
  if (!page) return fail(page.error());
  const Result<std::shared_ptr<ByteFile>> trace = open_whole_trace(file, arguments.memory_limit);
  if (!trace) return fail(trace.error());
  const Result<void> written = write_output(
      arguments.output, [&](std::ostream& out) { return page->write(out, file.filename().string(), **trace); });
  return written ? Exit::done : fail(written.error());
}

/// An error if a device was named that the trace doesn't have.
std::optional<Error> without_device(const Trace& trace, std::optional<std::int32_t> device) {
  if (!device) return std::nullopt;
  std::set<std::int32_t> devices;
  for (const Heap& heap : std::span(trace.tables.heaps).subspan(1)) devices.insert(heap.device);
  if (devices.contains(*device)) return std::nullopt;
  std::string known;
  for (const std::int32_t each : devices) known += (known.empty() ? "" : ", ") + std::to_string(each);
  return Error{
      .what = "the trace has no device " + std::to_string(*device), .where = "--device", .remedy = "it has: " + known};
}

Exit run_report(const ReportArguments& arguments) {
  if (arguments.json && !arguments.format.empty() && arguments.format != "json")
    return fail(
        {.what = "both --json and --format " + arguments.format, .where = "--format", .remedy = "give one of them"});
  const std::string format = format_of(arguments);
  if (const std::string implied = format_named_by(arguments.output); !implied.empty() && implied != format)
    return fail({.what = "by its name this is a file of " + implied + ", not of " + format,
                 .where = arguments.output.string(),
                 .remedy = arguments.json ? "leave out --json, or name another file"
                                          : "leave out --format, or name another file"});
  if (arguments.interactive) return write_viewer(arguments);
  const auto document = std::ranges::find(documents, format, [](const auto& known) { return known.first; });
  if (document == documents.end() && format != "text")
    return fail({.what = "unknown report format '" + format + "'",
                 .where = "--format",
                 .remedy = "available: text, json, markdown, html"});
  if (format == "text" && !arguments.output.empty())
    return fail({.what = "text goes to standard output",
                 .where = "--output",
                 .remedy = "redirect that with >, name a file that ends in .html, .md or .json, or choose a --format"});
  const std::optional<GroupBy> by = group_by_name(arguments.by);
  if (!by) {
    std::string known;
    for (const std::string_view name : group_by_names()) known += (known.empty() ? "" : ", ") + std::string(name);
    return fail({.what = "can't group by '" + arguments.by + "'", .where = "--by", .remedy = "available: " + known});
  }
  std::optional<Instant> instant;
  if (!arguments.at.empty()) {
    Result<Instant> parsed = parse_instant(arguments.at);
    if (!parsed) return fail({.what = parsed.error().what, .where = "--at", .remedy = parsed.error().remedy});
    instant = *std::move(parsed);
  }
  const Result<LeakOptions> leaks = leak_options(arguments.leaks);
  if (!leaks) return fail(leaks.error());
  std::vector<std::filesystem::path> inputs{arguments.options.file};
  inputs.insert(inputs.end(), arguments.leaks.suppressions.begin(), arguments.leaks.suppressions.end());
  if (auto differ = must_differ(inputs, std::array{arguments.output}); !differ) return fail(differ.error());
  const Result<Trace> trace = open_completed(arguments.options.file, arguments.memory_limit, arguments.symbols);
  if (!trace) return fail(trace.error());
  Sections sections = arguments.sections;
  if (arguments.options.tree) sections.live = true;
  if (!sections.any()) sections = Sections::all();
  if (const auto unknown = without_device(*trace, arguments.options.device)) return fail(*unknown);
  if (const Result<void> known = must_have_heap(trace->tables, arguments.options.heap); !known)
    return fail(known.error());
  const bool is_text = document == documents.end();
  std::function<void(const Report&)> on_first_lines;
  if (is_text && sections.live) on_first_lines = [&](const Report& first) { print_first_lines(*trace, first); };
  Result<Report> made =
      make_report(*trace, {.by = *by, .sections = sections, .instant = instant, .leaks = *leaks}, on_first_lines);
  if (!made) return fail(made.error());
  if (const std::string& heap = arguments.options.heap; !heap.empty())
    std::erase_if(made->heaps, [&](const HeapReport& other) {
      return trace->tables[trace->tables[other.history.heap].name] != heap;
    });
  const Report& report = *made;
  if (is_text) {
    print_report_text(*trace, report, arguments.options);
    return Exit::done;
  }
  const Result<void> written = write_output(arguments.output, [&](std::ostream& out) -> Result<void> {
    document->second(*trace, report, arguments.options, out);
    return {};
  });
  return written ? Exit::done : fail(written.error());
}

}  // namespace

const Categories& Report::categories() const {
  static const Categories none;
  return sections.live ? analysis->categories() : none;
}

const LeakReport& Report::leaks() const {
  static const LeakReport none;
  return sections.leaks ? analysis->leaks() : none;
}

const std::vector<Fragmentation>& Report::fragmentation() const {
  static const std::vector<Fragmentation> none;
  return sections.fragmentation ? analysis->fragmentation() : none;
}

std::vector<const Fragmentation*> Report::fragmentation_by_importance() const {
  std::vector<const Fragmentation*> heaps;
  for (const Fragmentation& found : fragmentation()) heaps.push_back(&found);
  std::ranges::stable_partition(
      heaps, [&](const Fragmentation* found) { return verdict.decides && found->heap == verdict.decides->heap; });
  return heaps;
}

const OutOfMemories& Report::ooms() const {
  static const OutOfMemories none;
  return sections.ooms ? analysis->survivors() : none;
}

const Remedies& Report::remedies() const {
  static const Remedies none;
  return sections.fragmentation || sections.ooms ? analysis->remedies() : none;
}

const std::optional<StepPlan>& Report::step_plan() const {
  static const std::optional<StepPlan> none;
  return sections.fragmentation ? analysis->step_plan() : none;
}

namespace {

Bytes size_of(const HeapReport& heap) { return std::max(heap.history.peak_reserved, heap.history.peak_live); }

const DeviceMemory* device_of(const Report& report, std::int32_t device) {
  const std::vector<DeviceMemory>& devices = report.analysis->devices();
  const auto found = std::ranges::find(devices, device, &DeviceMemory::device);
  return found == devices.end() ? nullptr : &*found;
}

}  // namespace

std::vector<const HeapReport*> Report::by_importance() const {
  std::vector<const HeapReport*> ordered;
  for (const HeapReport& heap : heaps) ordered.push_back(&heap);
  const Tables& tables = analysis->trace().tables;
  std::ranges::stable_sort(ordered, std::ranges::greater{}, [&](const HeapReport* heap) {
    const std::int32_t device = tables[heap->history.heap].device;
    const bool is_deciding = verdict.decides && verdict.decides->heap == heap->history.heap;
    const bool is_beside = verdict.decides && verdict.decides->device == device;
    return std::tuple(is_deciding, is_beside, device >= 0, is_beside ? 0 : -device, size_of(*heap));
  });
  return ordered;
}

bool Report::is_minor(const HeapReport& heap) const {
  if (!verdict.decides || verdict.decides->heap == heap.history.heap) return false;
  const std::int32_t device = analysis->trace().tables[heap.history.heap].device;
  const DeviceMemory* const of = device_of(*this, device < 0 ? verdict.decides->device : device);
  return of != nullptr && size_of(heap).count < of->peak_held.held.count / 100;
}

std::string brief_words(const Report& report, const HeapReport& heap) {
  if (report.verdict.unrecorded) return "what was live is not known";
  std::string text = text_of(heap.history.peak_live) + (report.verdict.is_instant ? " live" : " live at its peak");
  if (heap.history.peak_reserved > 0_B) text += ", " + text_of(heap.history.peak_reserved) + " reserved";
  if (!heap.at_peak.groups.empty() && heap.at_peak.groups.front().label != no_stack_label)
    text += ", most at " + heap.at_peak.groups.front().label + " (" +
            text_of_share(share_of(heap.at_peak.groups.front().bytes, heap.at_peak.bytes)) + ")";
  return text;
}

std::string part_words(const Report& report, const HeapReport& heap) {
  const Tables& tables = report.analysis->trace().tables;
  const Heap& of = tables[heap.history.heap];
  const DeviceMemory* const device = device_of(report, of.device);
  if (of.device < 0 || device == nullptr || device->has_driver) return {};
  const std::string& name = tables[of.name];
  if (name.starts_with("jax.")) return name + "'s part of the device: what else is on it is not recorded";  // any kind
  return (is_torch_name(name) ? "PyTorch" : name) +
         "'s part of the device: other libraries and CUDA itself are not recorded";
}

std::string host_words(const HostMemory& memory) {
  std::string text;
  if (const auto& resident = memory.resident) {
    text = text_of(resident->peak) + " resident at its peak, " + text_of(resident->first) + " at first, " +
           text_of(resident->last) + " at the end";
    if (resident->growth_bytes_per_step > 0)
      text += ", " + text_of(Bytes{static_cast<std::uint64_t>(resident->growth_bytes_per_step)}) +
              " more with each step (" + text_of(std::uint64_t{resident->from_step}) + " to " +
              text_of(std::uint64_t{resident->until_step}) + ")";
  }
  if (memory.pinned_peak > 0_B)
    text += (text.empty() ? "" : "; ") + text_of(memory.pinned_peak) + " pinned at its peak, " +
            text_of(memory.pinned_end) + " at the end";
  return text;
}

Result<Report> make_report(const Trace& trace, const ReportQuestion& question,
                           const std::function<void(const Report&)>& on_first_lines) {
  const Sections& sections = question.sections;
  ProgressBar* replaying = nullptr;
  const auto analysis = std::make_shared<const Analysis>(
      trace, AnalysisOptions{.leaks = question.leaks, .on_replay = [&](std::uint64_t done, std::uint64_t total) {
                               if (replaying != nullptr) replaying->update(done, total);
                             }});
  Report report{.analysis = analysis, .by = question.by, .sections = sections, .instant = question.instant};
  // On another core, beside who holds the memory. Whoever asks for one of them first waits for it.
  std::future<void> judging = std::async([&] {
    if (sections.leaks) analysis->leaks();
    if (sections.fragmentation) analysis->fragmentation();
    if (sections.ooms) analysis->failures();
  });
  if (sections.live) {
    const ProgressBar bar("classifying allocations");
    analysis->categories();
  }
  for (const HeapHistory& history : analysis->histories()) {
    HeapReport& heap = report.heaps.emplace_back();
    heap.history = history;
    if (!sections.live) continue;
    const auto view = [&](std::uint64_t events) {
      return live_view(trace, analysis->lives(), history.heap, events, question.by, analysis->categories());
    };
    heap.at_peak = view(history.allocations == 0 ? 0 : history.peak_live_event + 1);
    heap.at_end = view(trace.events.count());
    heap.phases = phase_peaks(trace, analysis->categories(), history.heap);
    heap.ranges = range_peaks(trace, history.heap);
    if (question.by == GroupBy::tag || question.by == GroupBy::thread)
      heap.groups = group_peaks(trace, analysis->categories(), history.heap, question.by);
    const auto pools = std::ranges::find(analysis->pools(), history.heap, &HeapPools::heap);
    if (pools != analysis->pools().end()) heap.pools = pools->pools;
    if (!question.instant) continue;
    const Result<std::uint64_t> events =
        events_at(*question.instant, *analysis, history, analysis->steps(history.heap));
    if (!events) return Error{.what = events.error().what, .where = "--at", .remedy = events.error().remedy};
    heap.at_instant = view(*events);
  }
  if (sections.live) analysis->devices();
  {
    const ProgressBar bar("replaying the recorded allocator");
    for (HeapReport& heap : report.heaps) {
      const auto summary = std::ranges::find(analysis->summaries(), heap.history.heap, &MemorySummary::heap);
      if (summary != analysis->summaries().end()) heap.summary = &*summary;
    }
  }
  if (sections.leaks) {
    const ProgressBar bar("looking for leaks");
    analysis->leaks();
  }
  if (sections.fragmentation || sections.ooms) {
    {
      const ProgressBar bar("judging the heap");
      if (sections.fragmentation) analysis->fragmentation();
      if (sections.ooms) analysis->failures();
      judging.get();
    }
    if (on_first_lines) {
      report.verdict = analysis->first_verdict(sections);
      report.first_lines = lines_of(report.verdict, true);
      on_first_lines(report);
    }
    ProgressBar bar("replaying settings");
    replaying = &bar;
    if (sections.ooms) analysis->survivors();
    analysis->remedies();
    if (sections.fragmentation) analysis->step_plan();
    replaying = nullptr;
  }
  report.verdict = analysis->verdict(sections);
  return report;
}

void add_report_command(CLI::App& app, Exit& exit) {
  CLI::App* const command =
      app.add_subcommand("report", "Show who holds the memory, what leaks, what fragments it and why it ran out");
  const auto arguments = std::make_shared<ReportArguments>();
  add_trace_options(*command, arguments->options.file, arguments->memory_limit);
  command->add_option(
      "--by", arguments->by,
      "Group live memory by stack, line, function, module, library, layer, category, phase, thread, stream, pool, "
      "device, metadata (attached by the program) or tag (its open ranges); line and function are the innermost of "
      "your "
      "own code or of a model's layer [line]");
  command->add_option("--at", arguments->at,
                      "Instant to show instead of the peak and the end: peak, end, step:N, event:N, phase:forward, "
                      "range:NAME (its peak), 12.5s");
  constexpr std::uint64_t last_device = std::numeric_limits<std::int32_t>::max();
  add_whole_number(*command, "--device", arguments->options.device, {0, last_device},
                   "Of several devices, the one to show in full instead of the deciding one");
  add_heap_option(*command, arguments->options.heap, "Show", "; the first lines stay those of the device");
  add_whole_number(*command, "--top", arguments->options.top, {1, any_count}, "Groups to show per table [10]");
  command->add_flag("--live", arguments->sections.live,
                    "Who holds the memory, at its peak and at the end; a report without such options begins with this");
  command->add_flag("--leaks", arguments->sections.leaks,
                    "Memory that grows step after step and is never freed, and what is held, not leaked");
  add_leak_options(*command, arguments->leaks);
  command->add_flag("--fragmentation", arguments->sections.fragmentation,
                    "What makes free memory unreleasable or stranded, what rounding takes, and what saves memory");
  command->add_flag("--oom", arguments->sections.ooms,
                    "Why each request failed, and the settings that would have served it");
  command->add_flag("--tree", arguments->options.tree,
                    "Show whose memory each heap's is, instead of who holds the memory: device, driver, frameworks, "
                    "pools inside pools");
  command->add_flag("--summary", arguments->options.summary,
                    "Add the statistics that torch.cuda.memory_summary() shows");
  command->add_flag("--allocations", arguments->options.allocations, "List every live allocation with its address");
  add_stack_options(*command, arguments->symbols);
  command->add_option("--format", arguments->format,
                      "text, json, markdown (for a pull request) or html (one offline page) [by the output's suffix: "
                      ".json, .md, .html; text without -o]");
  command->add_option("-o,--output", arguments->output, "File to write [standard output]");
  command->add_flag("--interactive", arguments->interactive,
                    "With -o FILE.html: the viewer with the trace embedded, as one page that opens from disk");
  command->add_flag("--json", arguments->json, "Same as --format json (memreel.report/1)");
  not_with(*command,
           {"--by", "--at", "--device", "--heap", "--top", "--live", "--leaks", "--suppress", "--suppressions",
            "--capacity", "--fragmentation", "--oom", "--tree", "--summary", "--allocations", "--sysroot",
            "--debuginfod", "--all-frames", "--skip-frame"},
           {"--interactive"});
  command->footer(
      "Examples:\n"
      "  memreel report run.reel\n"
      "  memreel report run.reel --by stack --top 3\n"
      "  memreel report run.reel --tree\n"
      "  memreel report run.reel --at phase:backward --by layer\n"
      "  memreel report run.reel --leaks --suppress 'leak:my_cache'\n"
      "  memreel report run.reel -o run.html\n"
      "  memreel report run.reel -o run.html --interactive\n"
      "  memreel report run.reel --fragmentation\n"
      "  memreel report run.reel --oom --json | jq '.ooms[0].survivors'\n"
      "  memreel report snapshot.pickle --by stream --json | jq '.live_at_peak[0].groups'");
  command->callback([arguments, &exit] { exit = run_report(*arguments); });
}

}  // namespace memreel::cli
