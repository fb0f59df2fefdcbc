#include "collector/record/summary.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>

#include "collector/record/trace_facts.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"

namespace memreel::record {
namespace {

using agent::JournalEntry;

constexpr std::size_t most_shown = 8;  // traces of one run that are told apart

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

std::string text_of_facts(const std::string& trace, const Result<TraceFacts>& facts, std::string_view moment,
                          std::uint64_t lost) {
  const std::string name = nearest_name(trace);
  if (!facts) return name + " can't be read: " + printable(facts.error().message());
  return name + " (" + text_of(facts->file_size) + "): " + memory_text(facts->devices, moment) + "; " +
         counted(facts->events, "event") + ", " + (lost == 0 ? std::string("none lost") : text_of(lost) + " lost");
}

/// What is not in the trace. A disk that ran full keeps the library from writing that down.
std::uint64_t lost_of(const Result<TraceFacts>& facts, const JournalEntry* ended) {
  if (!facts) return 0;
  if (ended == nullptr) return facts->lost;
  return std::max(facts->lost, ended->lost + ended->events - std::min(ended->events, facts->events));
}

/// `ended` is null when the process was killed before it could say so.
std::string describe(const JournalEntry& began, const JournalEntry* ended, std::chrono::nanoseconds time) {
  const auto facts = facts_of(began.trace);
  std::string text = text_of_facts(began.trace, facts, ended != nullptr && !ended->text.empty() ? "then" : "at exit",
                                   lost_of(facts, ended));
  if (!facts) return text;
  if (ended != nullptr && time.count() > 0)
    text += "; recording overhead about " +
            text_of_share(static_cast<double>(ended->cost_ns) / static_cast<double>(time.count()));
  if (ended != nullptr && !ended->text.empty()) text += "; recording stopped early: " + printable(ended->text);
  if (!facts->complete && ended == nullptr)
    text += "; process " + std::to_string(began.process) + " was killed; what it had recorded is kept";
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

std::string summary_of_trace(const std::string& trace, std::string_view moment) {
  const auto facts = facts_of(trace);
  return text_of_facts(trace, facts, moment, facts ? facts->lost : 0);
}

std::string summary_of(const std::string& program, const Ending& ending, const std::vector<JournalEntry>& journal,
                       bool dormant) {
  std::string text = "memreel: " + printable(program) + " " + ending_text(ending) + " after " +
                     text_of_seconds(std::chrono::duration<double>(ending.time).count());
  std::size_t traces = 0;
  std::string fullest;  // of the traces that are named
  std::uint64_t most = 0;
  std::string refusals;
  for (const JournalEntry& entry : journal) {
    if (entry.what == JournalEntry::What::refused)
      refusals += "\n  process " + std::to_string(entry.process) + " was not recorded: " + printable(entry.text);
    if (entry.what != JournalEntry::What::began) continue;
    if (++traces > most_shown) continue;
    // The last that it said: whose disk is full goes on counting what it loses.
    const auto ended = std::find_if(journal.rbegin(), journal.rend(), [&](const JournalEntry& other) {
      return other.what == JournalEntry::What::ended && other.trace == entry.trace;
    });
    const std::uint64_t events = ended == journal.rend() ? 1 : ended->events;
    if (fullest.empty() || events > most) {
      fullest = nearest_name(entry.trace);
      most = events;
    }
    text += "\n  " + describe(entry, ended == journal.rend() ? nullptr : &*ended, ending.time);
  }
  if (traces > most_shown) text += "\n  and " + counted(traces - most_shown, "trace") + " more";
  text += refusals;
  if (traces == 0 && refusals.empty())
    text +=
        dormant ? "; memreel attach was never run, so there is no trace" : " without using CUDA; no trace was written";
  if (traces > 0) text += "\n  memreel report " + fullest + " shows what holds the memory";
  return text + "\n";
}

}  // namespace memreel::record
