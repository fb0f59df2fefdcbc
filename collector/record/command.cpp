// SPDX-License-Identifier: Apache-2.0
#include "collector/record/command.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <vector>

#include "formats/model/stack_text.h"

namespace memreel::record {

void say(std::string_view text) { std::fprintf(stderr, "%.*s", static_cast<int>(text.size()), text.data()); }

int fail(const Error& error) {
  say("memreel: error: " + printable(error.message()) + "\n");
  return unusable;
}

std::optional<int> parse(CLI::App& app, std::string_view name, int argc, char** argv) {
  const int first = argc > 1 && name == argv[1] ? 2 : 1;
  std::vector<std::string> own;  // CLI11 takes them last first
  for (int i = argc - 1; i >= first; --i) own.emplace_back(argv[i]);
  try {
    app.parse(own);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return app.exit(problem);
    return fail({.what = problem.what(), .remedy = "see memreel " + std::string(name) + " --help"});
  }
  return std::nullopt;
}

int guarded(std::string_view name, int (*command)(int, char**), int argc, char** argv) try {
  return command(argc, argv);
} catch (const std::bad_alloc&) {
  return fail({.what = "not enough memory for memreel " + std::string(name), .remedy = "free memory"});
} catch (const std::exception& problem) {
  return fail({.what = problem.what()});
}

using agent::JournalEntry;

std::string document_text(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json json_of(const RecordedTrace& trace) {
  const bool known = static_cast<bool>(trace.facts);
  Json devices = Json::array();
  if (known)
    for (const auto& [number, device] : trace.facts->devices)
      devices.push_back({{"device", number},
                         {"peak_bytes", device.peak.count},
                         {"end_bytes", device.end.count},
                         {"failed_allocations", device.failures}});
  return {{"trace", trace.file},
          {"process", trace.process},
          {"bytes", known ? Json(trace.facts->file_size.count) : Json(nullptr)},
          {"events", known ? Json(trace.facts->events) : Json(nullptr)},
          {"lost_events", known ? Json(trace.lost) : Json(nullptr)},
          {"complete", known && trace.facts->complete},
          {"devices", std::move(devices)},
          {"overhead_share", trace.overhead ? Json(*trace.overhead) : Json(nullptr)},
          {"dumps", trace.dumps},
          {"stopped", trace.stopped.empty() ? Json(nullptr) : Json(trace.stopped)},
          {"problem", known ? Json(nullptr) : Json(trace.facts.error().message())}};
}

Json record_document(const std::string& program, const Ending& ending, const std::vector<JournalEntry>& journal) {
  Json traces = Json::array();
  Json refusals = Json::array();
  for (const JournalEntry& entry : journal) {
    if (entry.what == JournalEntry::What::began) traces.push_back(json_of(recorded_trace(entry, journal, ending.time)));
    if (entry.what == JournalEntry::What::refused)
      refusals.push_back({{"process", entry.process}, {"reason", entry.text}});
  }
  return {{"schema", "memreel.record/1"},
          {"program", program},
          {"process", ending.process},
          {"exit_code", ending.signal == 0 ? Json(ending.code) : Json(nullptr)},
          {"signal", ending.signal == 0 ? Json(nullptr) : Json(ending.signal)},
          {"duration_s", std::chrono::duration<double>(ending.time).count()},
          {"traces", std::move(traces)},
          {"not_recorded", std::move(refusals)}};
}

}  // namespace memreel::record
