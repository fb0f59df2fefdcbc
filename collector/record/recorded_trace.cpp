#include "collector/record/recorded_trace.h"

#include <algorithm>

#include "collector/record/dumps.h"

namespace memreel::record {

using agent::JournalEntry;

RecordedTrace recorded_trace(const std::string& file, std::uint64_t process) {
  RecordedTrace trace{.file = file,
                      .process = process,
                      .facts = facts_of(file),
                      .overhead = {},
                      .stopped = {},
                      .dumps = dumps_of(file)};
  if (trace.facts) trace.lost = trace.facts->lost;
  return trace;
}

RecordedTrace recorded_trace(const JournalEntry& began, const std::vector<JournalEntry>& journal,
                             std::chrono::nanoseconds time) {
  RecordedTrace trace = recorded_trace(began.trace, began.process);
  // The last entry: on a full disk, losses are still being counted.
  const auto ended = std::find_if(journal.rbegin(), journal.rend(), [&](const JournalEntry& other) {
    return other.what == JournalEntry::What::ended && other.trace == began.trace;
  });
  if (ended == journal.rend()) {
    trace.cut = trace.facts && !trace.facts->complete;
    const auto latest = std::find_if(journal.rbegin(), journal.rend(), [&](const JournalEntry& other) {
      return other.what == JournalEntry::What::began && other.process == began.process;
    });
    trace.replaced = trace.cut && latest->trace != began.trace;
    return trace;
  }
  trace.stopped = ended->text;
  if (time.count() > 0) trace.overhead = static_cast<double>(ended->cost_ns) / static_cast<double>(time.count());
  // What is missing from the trace: on a full disk the agent could not write it there.
  if (trace.facts)
    trace.lost = std::max(
        trace.lost, ended->lost + ended->events - std::min(ended->events, trace.facts->events + trace.facts->folded));
  return trace;
}

}  // namespace memreel::record
