#include "collector/record/summary.h"

#include <csignal>
#include <cstring>
#include <fstream>

#include "formats/model/printable.h"
#include "formats/model/quantity.h"

namespace memreel::record {
namespace {

using agent::JournalEntry;

constexpr std::size_t most_shown = 8;  // traces of one run listed individually

std::string nearest_name(const std::string& trace) {
  std::error_code problem;
  const std::filesystem::path nearby =
      std::filesystem::path(trace).lexically_proximate(std::filesystem::current_path(problem));
  return printable(*nearby.begin() == ".." ? trace : nearby.string());
}

std::string counted(std::uint64_t count, const std::string& noun) {
  return text_of(count) + " " + noun + (count == 1 ? "" : "s");
}

/// "GPU 0: peak 3.50 GiB, 12.0 MiB live at exit"
std::string memory_text(const std::map<std::int32_t, DeviceFacts>& devices, std::string_view moment) {
  std::string text;
  for (const auto& [device, facts] : devices) {
    text += (text.empty() ? "" : "; ") + ("GPU " + std::to_string(device)) + ": peak " + text_of(facts.peak) + ", " +
            text_of(facts.end) + " live " + std::string(moment);
    if (facts.failures > 0) text += ", " + counted(facts.failures, "failed allocation");
  }
  return text.empty() ? "no device memory" : text;
}

/// "; dumps run-dump-1.reel, run-dump-2.reel"
std::string names_of(const std::vector<std::string>& dumps) {
  std::string text;
  for (const std::string& dump : dumps) text += (text.empty() ? "" : ", ") + nearest_name(dump);
  return text.empty() ? "" : (dumps.size() == 1 ? "; dump " : "; dumps ") + text;
}

std::string text_of_facts(const RecordedTrace& trace, std::string_view moment) {
  const std::string name = nearest_name(trace.file);
  if (!trace.facts) return name + " can't be read: " + printable(trace.facts.error().message());
  return name + " (" + text_of(trace.facts->file_size) + "): " + memory_text(trace.facts->devices, moment) + "; " +
         counted(trace.facts->events, "event") +
         (trace.facts->folded == 0 ? "" : " and sums of " + text_of(trace.facts->folded) + " older ones") + ", " +
         (trace.lost > 0 ? text_of(trace.lost) + " lost"
          : trace.cut    ? std::string("its last 0.1 s may be missing")
                         : "none lost") +
         names_of(trace.dumps);
}

std::string describe(const RecordedTrace& trace) {
  std::string text = text_of_facts(trace, trace.stopped.empty() ? "at exit" : "at the end");
  if (!trace.facts) return text;
  if (trace.overhead) text += "; recording overhead about " + text_of_share(*trace.overhead);
  if (!trace.stopped.empty()) text += "; recording stopped early: " + printable(trace.stopped);
  if (trace.cut)
    text += "; process " + std::to_string(trace.process) +
            (trace.replaced ? " replaced itself (exec)" : " was killed or called _exit()");
  return text;
}

std::string ending_text(const Ending& ending) {
  if (ending.signal != 0) {
    const char* const name = sigabbrev_np(ending.signal);
    return "was killed by " + (name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(ending.signal));
  }
  return ending.code == 0 ? "ended" : "ended with exit code " + std::to_string(ending.code);
}

}  // namespace

std::vector<JournalEntry> read_journal(const std::filesystem::path& journal) {
  std::vector<JournalEntry> entries;
  std::ifstream file(journal);
  for (std::string line; std::getline(file, line);)
    if (auto entry = agent::parse_journal_line(line)) entries.push_back(*std::move(entry));
  return entries;
}

std::string summary_of_trace(const RecordedTrace& trace, std::string_view moment) {
  return text_of_facts(trace, moment);
}

std::string summary_of(const std::string& program, const Ending& ending, const std::vector<JournalEntry>& journal,
                       const ErrorLog& errors, bool dormant) {
  std::string text = "memreel: " + printable(program) + " " + ending_text(ending) + " after " +
                     text_of_seconds(std::chrono::duration<double>(ending.time).count());
  std::size_t traces = 0;
  std::string fullest;  // among the traces listed
  std::uint64_t most = 0;
  std::string refusals;
  bool failures = false;  // recorded ones
  for (const JournalEntry& entry : journal) {
    if (entry.what == JournalEntry::What::refused)
      refusals += "\n  process " + std::to_string(entry.process) + " was not recorded: " + printable(entry.text);
    if (entry.what != JournalEntry::What::began) continue;
    if (++traces > most_shown) continue;
    const RecordedTrace trace = recorded_trace(entry, journal, ending.time);
    const std::uint64_t events = trace.facts ? trace.facts->events : 0;
    if (fullest.empty() || events > most) {
      fullest = nearest_name(entry.trace);
      most = events;
    }
    text += "\n  " + describe(trace);
    if (trace.facts)
      for (const auto& [device, facts] : trace.facts->devices) failures = failures || facts.failures > 0;
  }
  if (traces > most_shown) text += "\n  and " + counted(traces - most_shown, "trace") + " more";
  text += refusals;
  if (traces == 0 && refusals.empty())
    text +=
        dormant ? "; memreel attach was never run, so there is no trace" : " without using CUDA; no trace was written";
  std::string explanation;
  if (!failures && (ending.code != 0 || ending.signal != 0)) {
    explanation = errors.explanation();
    if (explanation.empty())
      text += "\n  if it printed an out-of-memory error: memreel explain LOG says what that means";
  }
  if (traces > 0) text += "\n  memreel report " + fullest + " shows what holds the memory";
  return text + "\n" + explanation;
}

}  // namespace memreel::record
