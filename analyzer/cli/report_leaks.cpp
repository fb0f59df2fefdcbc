// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/report_leaks.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <span>

#include "analyzer/analysis/insight/kept_by.h"
#include "analyzer/cli/program.h"
#include "analyzer/describe/own_frame.h"
#include "analyzer/describe/text_table.h"
#include "formats/model/files.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel::cli {
namespace {

std::string text_of_rate(double bytes_per_step) {
  return text_of(Bytes{static_cast<std::uint64_t>(std::max(0.0, bytes_per_step))});
}

/// The text of the Python variable; null: not known.
Json kept_by(const Trace& trace, std::span<const AllocationId> allocations) {
  const PythonHolder* const holder = holder_of(trace, allocations);
  return holder == nullptr ? Json(nullptr) : Json(holder->text);
}

Json json_of(const Trace& trace, const LeakFinding& finding, bool allocations) {
  Json entry{{"verdict", name_of(finding.verdict)},
             {"bytes", finding.bytes.count},
             {"count", finding.count},
             {"freed_at_end", finding.freed_at_end},
             {"growth_bytes_per_step", finding.growth_bytes_per_step},
             {"evidence", finding.evidence},
             {"device", trace.tables[finding.heap].device},
             {"heap", trace.tables[trace.tables[finding.heap].name]},
             {"steps", finding.rounds},
             {"steps_with_growth", finding.growth.rounds},
             {"r2", finding.growth.r2},
             {"age_steps", finding.oldest},
             {"last_free_step", finding.last_free ? Json(*finding.last_free) : Json(nullptr)},
             {"kept_by", kept_by(trace, finding.allocations)},
             {"cause", finding.cause == no_cause ? Json(nullptr) : Json(finding.cause)}};
  reserve(entry, entry.size() + 2);
  entry["stack"] = json_of_stack(trace.tables, finding.stack);
  if (allocations) {
    entry["allocations"] = Json::array();
    for (const AllocationId id : finding.allocations) {
      const Event event = trace.events[trace.events.begin_of(id)];
      entry["allocations"].push_back({{"address", event.address.value}, {"bytes", event.size.count}});
    }
  }
  return entry;
}

Json json_of(const Trace& trace, const LeakCause& cause) {
  const FrameText frame = frame_text(trace.tables, cause.frame);
  Json where{{"function", frame.function}, {"file", frame.file}, {"line", frame.line}};
  return {{"frame", cause.frame == FrameId::none ? Json(nullptr) : std::move(where)},
          {"bytes", cause.bytes.count},
          {"count", cause.count},
          {"stacks", cause.stacks},
          {"growth_bytes_per_step", cause.growth_bytes_per_step}};
}

std::string_view name_of(RoundSource source) {
  switch (source) {
    case RoundSource::marks:
      return "marks";
    case RoundSource::optimizer:
      return "optimizer";
    case RoundSource::backward:
      return "backward";
    case RoundSource::modules:
      return "modules";
    case RoundSource::repetition:
      return "repetition";
    default:
      return "none";
  }
}

std::string title_of(const Trace& trace, HeapId heap) {
  return trace.tables[trace.tables[heap].name] + ", device " + std::to_string(trace.tables[heap].device);
}

/// The innermost frames that distinguish a finding from others at the same place in user code, as in "linear
/// (functional.py:12) < forward (model.py:7)"; empty if there is nothing to distinguish.
std::string distinguishing_frames(const Trace& trace, const LeakFinding& finding, std::span<const LeakFinding> all) {
  constexpr std::size_t most_shown = 3;
  const std::vector<FrameText> frames = frames_of(trace.tables, finding.stack);
  const std::string site = site_label(trace.tables, finding.stack);
  std::vector<std::set<std::string>> others;
  for (const LeakFinding& other : all) {
    if (&other == &finding || other.stack == finding.stack || site_label(trace.tables, other.stack) != site) continue;
    others.emplace_back();
    for (const FrameText& frame : frames_of(trace.tables, other.stack)) others.back().insert(place_label(frame));
  }
  std::string path;
  std::size_t shown = 0;
  for (const FrameText& frame : frames) {
    const std::string text = place_label(frame);
    if (others.empty() || shown == most_shown ||
        std::ranges::all_of(others, [&](const auto& o) { return o.contains(text); }))
      continue;
    path += (path.empty() ? "" : " < ") + text;
    ++shown;
  }
  return path;
}

void print_accused(const Trace& trace, const LeakReport& leaks, const ReportOptions& options) {
  const auto end = std::find_if(leaks.findings.begin(), leaks.findings.end(),
                                [](const LeakFinding& finding) { return !accuses(finding.verdict); });
  std::size_t shown = 0;
  std::uint32_t cause_shown = no_cause;
  for (auto finding = leaks.findings.begin(); finding != end && shown < options.top; ++finding, ++shown) {
    if (std::exchange(cause_shown, finding->cause) != finding->cause) {
      const LeakCause& cause = leaks.causes[finding->cause];
      std::cout << "\n  " << red(text_of(cause.bytes)) << " in " << text_of(cause.count)
                << (cause.count == 1 ? " allocation, " : " allocations, ") << text_of_rate(cause.growth_bytes_per_step)
                << " more each " << unit_of(cause.unit) << ", at\n  "
                << clipped_middle(cause.frame == FrameId::none ? "a place without a recorded stack"
                                                               : place_of(trace.tables, cause),
                                  terminal_width() - 2)
                << "\n\n";
    }
    std::cout << wrapped(std::string(name_of(finding->verdict)) + ": " + finding->evidence, 4);
    if (const PythonHolder* const holder = holder_of(trace, finding->allocations))
      std::cout << wrapped("kept by " + holder->text + growth_words(*holder), 6);
    const std::string path = distinguishing_frames(trace, *finding, {leaks.findings.begin(), end});
    if (!path.empty()) std::cout << wrapped("via " + path, 6);
    if (!options.allocations) continue;
    for (const AllocationId id : finding->allocations) {
      const Event event = trace.events[trace.events.begin_of(id)];
      std::cout << "        " << hexadecimal(event.address.value) << "  " << text_of(event.size) << '\n';
    }
  }
  const auto rest = static_cast<std::uint64_t>(end - leaks.findings.begin()) - shown;
  if (rest > 0) std::cout << "    ... and " << text_of(rest) << " more stacks (--top)\n";
}

/// One line per verdict: what is held and, if leaks were judged, why it is not one.
void print_others(const LeakReport& leaks, bool are_judged) {
  TextTable table({{"verdict"}, {"bytes", Align::right}, {"stacks", Align::right}, {"the largest"}});
  std::vector<LeakVerdict> order;
  std::map<LeakVerdict, std::pair<Bytes, std::uint64_t>> sums;
  std::map<LeakVerdict, const LeakFinding*> largest;
  for (const LeakFinding& finding : leaks.findings) {
    if (accuses(finding.verdict)) continue;
    if (largest.try_emplace(finding.verdict, &finding).second) order.push_back(finding.verdict);
    sums[finding.verdict].first += finding.bytes;
    ++sums[finding.verdict].second;
  }
  if (order.empty()) return;
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](LeakVerdict verdict) { return sums[verdict].first; });
  for (const LeakVerdict verdict : order)
    table.add_row({std::string(name_of(verdict)), text_of(sums[verdict].first), text_of(sums[verdict].second),
                   largest[verdict]->evidence});
  std::cout << (are_judged ? "\nheld, not leaked:\n\n" : "\nheld at the end:\n\n");
  table.print(std::cout, 2);
}

}  // namespace

void add_suppression_options(CLI::App& command, LeakArguments& arguments) {
  command.add_option("--suppress", arguments.suppress,
                     "Don't report call sites with a frame whose function, file or module matches leak:PATTERN, as in "
                     "LeakSanitizer (repeatable)");
  command.add_option("--suppressions", arguments.suppressions, "File of such lines (repeatable)");
}

void add_leak_options(CLI::App& command, LeakArguments& arguments) {
  add_suppression_options(command, arguments);
  command.add_option("--capacity", arguments.capacity,
                     "Memory of each device, e.g. 80GiB: to judge failed requests, and to say when a leak uses it up");
}

Result<LeakOptions> leak_options(const LeakArguments& arguments) {
  LeakOptions options;
  for (const std::string& line : arguments.suppress) {
    if (auto added = options.suppressions.add_lines(line, "--suppress"); !added) return added.error();
  }
  for (const std::string& name : arguments.suppressions) {
    const Result<std::string> text = read_whole_file(name, "name a readable file");
    if (!text) return text.error();
    if (auto added = options.suppressions.add_lines(*text, name); !added) return added.error();
  }
  if (!arguments.capacity.empty()) {
    const Result<Bytes> capacity = parse_capacity_size(arguments.capacity);
    if (!capacity) return capacity.error();
    options.capacity = *capacity;
  }
  return options;
}

void add_leaks(Json& document, const Trace& trace, const LeakReport& leaks, bool allocations) {
  Json findings = Json::array();
  for (const LeakFinding& finding : leaks.findings) findings.push_back(json_of(trace, finding, allocations));
  Json causes = Json::array();
  for (const LeakCause& cause : leaks.causes) causes.push_back(json_of(trace, cause));
  Json heaps = Json::array();
  for (const HeapRounds& heap : leaks.heaps) {
    heaps.push_back({{"device", trace.tables[heap.heap].device},
                     {"heap", trace.tables[trace.tables[heap.heap].name]},
                     {"steps", heap.rounds.count()},
                     {"from", name_of(heap.rounds.source)},
                     {"mark", heap.rounds.name},
                     {"steps_left", heap.steps_left ? Json(*heap.steps_left) : Json(nullptr)}});
  }
  Json suppressed = Json::array();
  for (const SuppressedLeaks& s : leaks.suppressed)
    suppressed.push_back({{"pattern", s.suppression.pattern},
                          {"built_in", s.suppression.built_in},
                          {"count", s.count},
                          {"bytes", s.bytes.count}});
  document["leaks"] = std::move(findings);
  document["leak_causes"] = std::move(causes);
  document["leak_steps"] = std::move(heaps);
  document["suppressed"] = std::move(suppressed);
}

void print_leaks_text(const Trace& trace, const LeakReport& leaks, const ReportOptions& options) {
  if (leaks.unrecorded) {
    std::cout << bold("leaks") << " are " << leaks_not_judged << '\n';
    return;
  }
  if (!has_history(trace)) {
    std::cout << bold("leaks") << " are not judged: the recording is of one instant\n";
    return;
  }
  const bool accused = !leaks.findings.empty() && accuses(leaks.findings.front().verdict);
  const bool judged = std::ranges::any_of(leaks.heaps, [](const HeapRounds& heap) { return heap.rounds.suffice(); });
  if (accused || judged)
    std::cout << (accused ? red("leaks") : bold("no leaks")) << ", judged by growth over\n";
  else
    std::cout << bold("leaks") << " are not judged: that takes at least " << fewest_rounds << " steps\n";
  for (const HeapRounds& heap : leaks.heaps) {
    std::string text = title_of(trace, heap.heap) + ": " + text_of(heap.rounds);
    if (heap.steps_left)
      text += "; memory runs out in about " + text_of(static_cast<std::uint64_t>(*heap.steps_left)) + " more";
    std::cout << wrapped(text, 2);
  }
  print_accused(trace, leaks, options);
  print_others(leaks, accused || judged);
  for (const SuppressedLeaks& s : leaks.suppressed)
    std::cout << "\nsuppressed by leak:" << s.suppression.pattern << (s.suppression.built_in ? " (built in)" : "")
              << ": " << text_of(s.bytes) << " in " << counted(s.count, "allocation") << '\n';
}

}  // namespace memreel::cli
