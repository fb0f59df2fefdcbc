// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <iostream>

#include "analyzer/analysis/analysis.h"
#include "analyzer/analysis/history/lifetimes.h"
#include "analyzer/analysis/insight/rounds.h"
#include "analyzer/analysis/verdict.h"
#include "analyzer/cli/input.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/program.h"
#include "analyzer/describe/text_table.h"
#include "formats/model/lost_frees.h"
#include "formats/model/quantity.h"
#include "formats/model/repeated_frees.h"

namespace memreel::cli {
namespace {

struct InfoArguments {
  std::filesystem::path file;
  Bytes memory_limit;
  bool json = false;
};

using KindCounts = std::array<std::uint64_t, event_kind_count>;

KindCounts count_kinds(const Events& events) {
  KindCounts counts{};
  for (const EventKind kind : events.kinds()) ++counts.at(static_cast<std::size_t>(kind));
  return counts;
}

/// Of all recordings together.
Nanoseconds time_span(const Trace& trace) {
  const auto times = trace.events.times();
  Nanoseconds sum{};
  std::uint32_t begin = 0;
  const auto add_until = [&](std::uint32_t end) {
    if (begin == end) return;
    const auto [first, last] = std::ranges::minmax(std::ranges::subrange(times.begin() + begin, times.begin() + end));
    sum += last - first;
    begin = end;
  };
  for (const LaterRecording& recording : trace.read.later) add_until(recording.first_event);
  add_until(static_cast<std::uint32_t>(times.size()));
  return sum;
}

/// "torch.cuda", or "torch.cuda, recording 2" where several recordings follow each other.
std::string name_of_heap(const Trace& trace, HeapId heap) {
  const std::string& name = trace.tables[trace.tables[heap].name];
  if (trace.read.later.empty()) return name;
  const auto before = std::ranges::count_if(
      trace.read.later, [&](const LaterRecording& recording) { return index(recording.first_heap) <= index(heap); });
  return name + ", recording " + std::to_string(before + 1);
}

double bytes_per_event(const Trace& trace) {
  if (trace.events.count() == 0) return 0;
  return static_cast<double>(trace.file_size.count) / static_cast<double>(trace.events.count());
}

std::string_view name_of(Level level) { return level == Level::driver ? "driver" : "framework"; }

Json json_of(const Variables& variables) {
  Json json = Json::object();
  for (const auto& [name, value] : variables) json[name] = value;
  return json;
}

/// "2026-11-23 12:39:22 UTC".
std::string text_of_date(Nanoseconds since_epoch) {
  const std::time_t seconds = std::chrono::floor<std::chrono::seconds>(since_epoch).count();
  std::tm date{};
  std::array<char, 64> text{};
  if (gmtime_r(&seconds, &date) == nullptr) return "?";
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &date)};
}

/// "little" or "big"; empty if unknown.
std::string_view name_of(ByteOrder order) {
  if (order == ByteOrder::unknown) return "";
  return order == ByteOrder::big ? "big" : "little";
}

/// "aarch64, little-endian, pages of 64 KiB"; what is unknown is left out.
std::string words_of_machine(const Header& header) {
  std::string words = header.machine;
  const auto add = [&](const std::string& more) { words += (words.empty() ? "" : ", ") + more; };
  if (header.byte_order != ByteOrder::unknown) add(std::string(name_of(header.byte_order)) + "-endian");
  if (header.page_size != 0_B) add("pages of " + std::to_string(header.page_size.count / 1024) + " KiB");
  return words;
}

/// Where, when and with what the trace was recorded.
void print_origin(const Header& header) {
  if (!header.host.empty() && header.process != 0)
    std::cout << "  process  " << header.process << " on " << header.host
              << (header.start.count() == 0 ? "" : ", recorded from " + text_of_date(header.start)) << '\n';
  if (const std::string machine = words_of_machine(header); !machine.empty())
    std::cout << "  machine  " << machine << '\n';
  std::string versions;
  for (const auto& [name, version] : header.versions) versions += (versions.empty() ? "" : ", ") + name + " " + version;
  if (!versions.empty()) std::cout << "  versions " << versions << '\n';
}

bool lacks_end(const Trace& trace) {
  return trace.read.truncated_bytes > 0 || (trace.file_size != 0_B && !trace.read.has_footer);
}

/// What part of the program's life a recording holds.
std::string_view kind_of(const Trace& trace) {
  const Losses& losses = trace.losses;
  if (!tells_live_memory(trace)) return losses.skipped == all_but_failures() ? "failures" : "segments";
  if (losses.skipped == all_of_a_history()) return "instant";
  if (is_no_history(losses.skipped)) return "series";
  if (losses.folded_events > 0) return "flight";
  if (losses.history_overflowed) return "overflowed";
  if (may_lack_frees(losses, trace.read)) return "gaps";
  if (!has_history(trace)) return "instant";
  if (losses.began_late || losses.preexisting_allocations > 0) return "late";
  return lacks_end(trace) ? "cut_off" : "whole";
}

/// The same in words.
std::string words_of(std::string_view kind) {
  if (kind == "failures") return "failed requests only";
  if (kind == "segments") return "what was reserved only";
  if (kind == "instant") return "one instant, without a history";
  if (kind == "series") return "a series of instants, without what happened between them";
  if (kind == "flight") return "the last events, and a summary of those before";
  if (kind == "overflowed") return "the last events: those before are lost";
  if (kind == "gaps") return "events in between are lost, perhaps frees among them";
  if (kind == "cut_off") return "from the first allocation on";
  return kind == "late" ? "begun after the program" : "from the first allocation on";
}

/// The steps of the program's loop in the heap that decides; none if there is no such loop.
Rounds steps_of(const Trace& trace) {
  const Analysis analysis(trace);
  const HeapHistory* const heap = deciding_heap(trace.tables, analysis.histories(), analysis.devices());
  if (heap == nullptr || !has_history(trace)) return {};
  return analysis.rounds(heap->heap);
}

/// "12 steps, each a pass of the optimizer".
std::string words_of(const Rounds& steps) {
  const std::uint32_t count = steps.count();
  return counted(count, "step") + ", " + how_found(steps);
}

Json json_of_recording(const Trace& trace, const Rounds& steps) {
  return {{"kind", kind_of(trace)},
          {"older_allocations", trace.losses.preexisting_allocations},
          {"steps", steps.count()},
          {"steps_from",
           steps.source == RoundSource::none || !trace.read.later.empty() ? Json(nullptr) : Json(words_of(steps))}};
}

void print_recording(const Trace& trace, const Rounds& steps) {
  const std::uint64_t older = trace.losses.preexisting_allocations;
  if (trace.events.count() == 0 && !trace.read.intact()) {
    std::cout << "  recorded no events could be read\n";
    return;
  }
  std::string text = words_of(kind_of(trace));
  if (older > 0 && has_history(trace))
    text += "; " + text_of(older) + (older == 1 ? " allocation is" : " allocations are") + " older";
  if (lacks_end(trace)) text += "; the end may be lost";
  if (!trace.read.later.empty())
    text =
        text_of(std::uint64_t{trace.read.later.size() + 1}) + " recordings, one after the other; steps are not judged";
  else if (trace.events.allocation_count() == 0 && has_history(trace) && tells_live_memory(trace))
    text = "nothing was allocated: did another process or rank use the GPU?";
  else
    text += steps.count() == 0 ? "; no steps found" : "; " + words_of(steps);
  std::cout << "  recorded " << wrapped(text, 11).substr(11);
}

/// What is counted before frames have names, and lost frees are added.
struct Recorded {
  std::size_t events = 0, stacks = 0;
  KindCounts kinds{};
};

void print_info_json(const Trace& trace, const Recorded& recorded, const Rounds& steps) {
  const KindCounts& counts = recorded.kinds;
  Json kinds = Json::object();
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (counts.at(k) != 0) kinds[std::string(name_of(static_cast<EventKind>(k)))] = counts.at(k);
  }
  Json devices = Json::array();
  for (const HeapHistory& h : heap_histories(trace)) {
    const Heap& heap = trace.tables[h.heap];
    devices.push_back({{"device", heap.device},
                       {"heap", trace.tables[heap.name]},
                       {"level", name_of(heap.level)},
                       {"allocations", h.allocations},
                       {"frees", h.frees},
                       {"failed_allocations", h.failures},
                       {"peak_live_bytes", h.peak_live.count},
                       {"peak_live_event", h.peak_live_event},
                       {"folded_peak_live_bytes", json_of_folded_peak(trace, h.heap)},
                       {"end_live_bytes", h.end_live.count},
                       {"end_live_allocations", h.end_live_allocations},
                       {"peak_reserved_bytes", h.peak_reserved.count},
                       {"peak_reserved_event", h.peak_reserved_event},
                       {"end_reserved_bytes", h.end_reserved.count}});
  }
  print_json({{"schema", "memreel.info/1"},
              {"source", trace.header.source},
              {"source_name", trace.header.source_name},
              {"producer", trace.header.producer},
              {"host", trace.header.host.empty() ? Json(nullptr) : Json(trace.header.host)},
              {"process", trace.header.process == 0 ? Json(nullptr) : Json(trace.header.process)},
              {"start_ns", trace.header.start.count() == 0 ? Json(nullptr) : Json(trace.header.start.count())},
              {"machine", trace.header.machine.empty() ? Json(nullptr) : Json(trace.header.machine)},
              {"byte_order",
               trace.header.byte_order == ByteOrder::unknown ? Json(nullptr) : Json(name_of(trace.header.byte_order))},
              {"page_size", trace.header.page_size == 0_B ? Json(nullptr) : Json(trace.header.page_size.count)},
              {"environment", json_of(trace.header.environment)},
              {"versions", json_of(trace.header.versions)},
              {"events", recorded.events},
              {"kinds", std::move(kinds)},
              {"recording", json_of_recording(trace, steps)},
              {"devices", std::move(devices)},
              {"time_span_ns", time_span(trace).count()},
              {"stacks", recorded.stacks},
              {"lost_events", trace.losses.ring_full + trace.losses.hook_refused + trace.losses.unsized_failures +
                                  trace.losses.unknown_actions},
              {"losses", json_of_losses(trace)},
              {"bytes", trace.file_size.count},
              {"bytes_per_event", bytes_per_event(trace)}});
}

void print_info_text(const Trace& trace, const Recorded& recorded, const Rounds& steps) {
  std::cout << bold(trace.header.source_name) << "  (" << trace.header.source << ", " << trace.header.producer
            << ")\n\n";
  print_origin(trace.header);
  print_recording(trace, steps);
  const std::chrono::duration<double> seconds = time_span(trace);
  std::cout << "  events   " << text_of(std::uint64_t{recorded.events})
            << (has_times(trace.events) ? " over " + text_of_seconds(seconds.count()) : "") << '\n'
            << "  stacks   " << text_of(std::uint64_t{recorded.stacks}) << '\n'
            << "  size     " << text_of(trace.file_size) << ", " << text_of(bytes_per_event(trace), 2)
            << " bytes per event\n\n";

  TextTable heaps(
      {{"device", Align::right}, {"heap"}, {"level"}, {"allocations", Align::right}, {"failed", Align::right}});
  TextTable bytes({{"device", Align::right},
                   {"heap"},
                   {"peak live", Align::right},
                   {"peak reserved", Align::right},
                   {"live at end", Align::right},
                   {"reserved at end", Align::right}});
  const bool tells_live = tells_live_memory(trace), lacks_frees = may_lack_frees(trace.losses, trace.read);
  for (const HeapHistory& h : heap_histories(trace)) {
    const Heap& heap = trace.tables[h.heap];
    heaps.add_row({std::to_string(heap.device), name_of_heap(trace, h.heap), std::string(name_of(heap.level)),
                   text_of(h.allocations), text_of(h.failures)});
    const Bytes older = folded_peak(trace.folded, h.heap);
    const auto reserved = [&](Bytes size) {
      return tells_live || h.peak_reserved > 0_B ? text_of(size) : std::string("unknown");
    };
    bytes.add_row({std::to_string(heap.device), name_of_heap(trace, h.heap),
                   !tells_live           ? "unknown"
                   : older > h.peak_live ? ">= " + text_of(older)
                                         : (lacks_frees ? "about " : "") + text_of(h.peak_live),
                   reserved(h.peak_reserved), tells_live ? text_of(h.end_live) : "unknown", reserved(h.end_reserved)});
  }
  heaps.print(std::cout, 2);
  if (const std::uint64_t unsized = trace.losses.unsized_failures; unsized > 0)
    std::cout << "  " << counted(unsized, "more request") << " failed; sizes and heaps are not recorded\n";
  std::cout << '\n';
  bytes.print(std::cout, 2);

  std::cout << '\n';
  TextTable kinds({{"event"}, {"count", Align::right}});
  const KindCounts& counts = recorded.kinds;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    if (counts.at(k) != 0) kinds.add_row({std::string(name_of(static_cast<EventKind>(k))), text_of(counts.at(k))});
  }
  kinds.print(std::cout, 2);
}

Exit run_info(const InfoArguments& arguments) {
  Result<Trace> trace = open_sized_input(arguments.file, arguments.memory_limit);
  if (!trace) return fail(trace.error());
  const Recorded recorded{
      .events = trace->events.count(), .stacks = trace->tables.stacks.size() - 1, .kinds = count_kinds(trace->events)};
  part_with_repeated_frees(*trace);
  add_lost_frees(*trace);
  Rounds steps = steps_of(*trace);
  if (steps.source == RoundSource::repetition) {  // at a place, which may need a name
    name_native_frames(*trace, arguments.file, {});
    steps = steps_of(*trace);
  }
  if (arguments.json)
    print_info_json(*trace, recorded, steps);
  else
    print_info_text(*trace, recorded, steps);
  return Exit::done;
}

}  // namespace

void add_info_command(CLI::App& app, Exit& exit) {
  CLI::App* const command = app.add_subcommand("info", "Show what a trace contains");
  const auto arguments = std::make_shared<InfoArguments>();
  add_trace_options(*command, arguments->file, arguments->memory_limit);
  command->add_flag("--json", arguments->json, "One JSON document (memreel.info/1) instead of text");
  command->footer(
      "Examples:\n"
      "  memreel info run.reel\n"
      "  memreel info snapshot.pickle --json | jq .bytes_per_event");
  command->callback([arguments, &exit] { exit = run_info(*arguments); });
}

}  // namespace memreel::cli
