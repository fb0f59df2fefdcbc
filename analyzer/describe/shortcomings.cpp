// SPDX-License-Identifier: Apache-2.0
#include "analyzer/describe/shortcomings.h"

#include <algorithm>

#include "analyzer/analysis/history/lifetimes.h"
#include "formats/model/quantity.h"

namespace memreel {

namespace {

/// What is unknown because the recorder was told to skip kinds of events (PyTorch's skip_actions).
void say_skipped(EventKinds skipped, std::vector<std::string>& lines) {
  const bool requests = skipped.contains(EventKind::free_requested);
  const bool completions = skipped.contains(EventKind::free_completed);
  if (requests && completions)
    lines.emplace_back(
        "frees were not recorded (skip_actions): what is live is not known, only what was ever allocated");
  else if (requests)
    lines.emplace_back(
        "free requests were not recorded (skip_actions): a free counts from its completion on, and how long blocks "
        "awaited it is not known");
  else if (completions)
    lines.emplace_back(
        "completions of frees were not recorded (skip_actions): a free counts as completed when it is requested, "
        "though other streams may have used the block longer");
  if (skipped.contains(EventKind::alloc))
    lines.emplace_back("allocations were not recorded (skip_actions): what is live is not known");
  const bool taken = skipped.contains(EventKind::segment_alloc);
  if (taken || skipped.contains(EventKind::segment_free))
    lines.emplace_back(std::string(taken ? "segment allocations" : "segment frees") +
                       " were not recorded (skip_actions): what is reserved is not known");
}

std::string late_start(const Losses& losses, std::uint64_t known_stacks) {
  const std::uint64_t older = losses.preexisting_allocations;
  const std::string advice = " (record before the model is built)";
  if (older == 0) return "the recording began late: what was allocated before it is not known" + advice;
  std::string text =
      "the recording began late: " + text_of(older) + (older == 1 ? " allocation is" : " allocations are") + " older";
  // A stack is kept only while something is recorded.
  if (known_stacks > 0) text += ", made before this recording or overwritten";
  if (known_stacks >= older) return text + advice;
  if (known_stacks > 0) return text + "; the stacks of " + text_of(older - known_stacks) + " are not known" + advice;
  return text + (older == 1 ? ", and its stack is not known" : ", and their stacks are not known") + advice;
}

}  // namespace

Older older_of(const Trace& trace) {
  if (trace.losses.preexisting_allocations == 0) return {};
  const auto with_stacks = std::ranges::count_if(trace.events.begins(), [&](std::uint32_t event) {
    const StackId stack = trace.events.stack(event);
    return is_preexisting(trace.tables, stack) && trace.tables[stack].caller != StackId::none;
  });
  return {.with_stacks = static_cast<std::uint64_t>(with_stacks), .are_all = is_instant(trace)};
}

std::vector<std::string> shortcomings(const Trace& trace) {
  return shortcomings(trace.losses, trace.read, trace.file_size, older_of(trace));
}

std::vector<std::string> shortcomings(const Losses& losses, const ReadReport& read, Bytes file_size,
                                      const Older& older) {
  std::vector<std::string> lines;
  const auto say = [&](std::uint64_t count, const std::string& one, const std::string& many) {
    if (count != 0) lines.push_back(text_of(count) + " " + (count == 1 ? one : many));
  };
  if (!read.later.empty())
    lines.push_back(text_of(std::uint64_t{read.later.size() + 1}) +
                    " recordings, one after the other: neither steps nor leaks are judged, and in a replay the later "
                    "ones begin with what those before them held (look at each by itself)");
  if (losses.history_overflowed) {
    lines.emplace_back(
        "the recorder's ring overflowed: the oldest events are missing (record without max_entries, or with a larger "
        "one)");
  }
  const bool instants = is_no_history(losses.skipped) || older.are_all;
  if (losses.skipped == all_of_a_history() || older.are_all)
    lines.emplace_back(
        "one instant, not a history: what is live and where it lies, not how it got there (record a history, from "
        "before the model is built)");
  else if (instants)
    lines.emplace_back(
        "a series of instants, not a history: what was live at each and where it lay, not what came and went in "
        "between");
  else if (losses.skipped == all_but_failures())
    lines.emplace_back("only failed requests were recorded: what was live and what was reserved is not known");
  else if (losses.skipped == all_in_segments())
    lines.emplace_back("allocations and frees were not recorded: what was live is not known");
  else
    say_skipped(losses.skipped, lines);
  if (losses.began_late && !instants) lines.push_back(late_start(losses, older.with_stacks));
  if (losses.folded_events != 0)
    lines.push_back("a flight recorder's: " + text_of(losses.folded_events) +
                    " older events are summed up per stack; only what was live after them is listed");
  say(losses.folded_left_out, "small allocation that was live then is not listed",
      "small allocations that were live then are not listed");
  say(losses.ring_full, "event was dropped because the recorder's ring was full",
      "events were dropped because the recorder's ring was full");
  say(losses.stack_table_full, "event lost its stack, or its frames beyond the 4,096th",
      "events lost their stacks, or their frames beyond the 4,096th");
  say(losses.hook_refused, "call could not be observed", "calls could not be observed");
  say(losses.unsized_failures, "request failed, and its size is not recorded",
      "requests failed, and their sizes are not recorded");
  say(losses.unknown_actions, "record was left out: it is not of device memory, of an unknown kind, or lacks its size",
      "records were left out: they are not of device memory, of unknown kinds, or lack their size");
  say(losses.unmatched_frees, "free is of an allocation that was never recorded",
      "frees are of allocations that were never recorded");
  if (read.damaged_packets != 0 || read.damaged_bytes != 0) {
    lines.push_back("damaged: " + counted(read.damaged_packets, "packet") + ", " + text_of(Bytes{read.damaged_bytes}) +
                    " skipped");
  }
  say(read.missing_events, "event was lost with them", "events were lost with them");
  if (read.truncated_bytes != 0) {
    lines.push_back("incomplete: the last " + text_of(Bytes{read.truncated_bytes}) + " are an unfinished packet");
  }
  say(read.unknown_packets, "packet is of a kind newer than this version",
      "packets are of kinds newer than this version");
  say(read.unknown_events, "event is of a kind newer than this version", "events are of kinds newer than this version");
  if (!read.has_footer && file_size != 0_B) {
    lines.emplace_back("no footer: the recorder was killed or is still writing");
  }
  return lines;
}

std::string provenance(const Header& header) {
  if (!is_synthetic(header)) return {};
  return "synthetic: predicted from recordings, not recorded (" + header.source_name + ")";
}

}  // namespace memreel
