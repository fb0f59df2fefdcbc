#include "analyzer/gate/completeness.h"

#include "formats/model/no_history.h"
#include "formats/model/quantity.h"

namespace memreel {

std::vector<std::string> what_is_missing(const Losses& losses, const ReadReport& read, Bytes file_size) {
  std::vector<std::string> missing;
  if (losses.history_overflowed) missing.emplace_back("the oldest events, overwritten in the recorder's ring buffer");
  if (losses.folded_events > 0)
    missing.push_back(text_of(losses.folded_events) + " older events, which the flight recorder has summed up");
  if (is_no_history(losses.skipped)) {
    missing.emplace_back(losses.skipped == all_of_a_history() ? "the history: it is a snapshot of one instant"
                                                              : "what happened between the snapshots of a series");
  } else {
    if (losses.began_late || losses.preexisting_allocations > 0)
      missing.emplace_back("the history before the recording began, when the program already held memory");
    if (!losses.skipped.empty())
      missing.push_back("events that the recorder was told to skip: " + losses.skipped.text());
  }
  if (losses.ring_full > 0) missing.push_back(text_of(losses.ring_full) + " events that the recorder dropped");
  if (losses.hook_refused > 0) missing.push_back(text_of(losses.hook_refused) + " calls that could not be observed");
  if (losses.unknown_actions > 0)
    missing.push_back(text_of(losses.unknown_actions) +
                      " records that were not read: of unknown kinds or other processes");
  if (losses.unmatched_frees > 0) missing.push_back("the allocations of " + text_of(losses.unmatched_frees) + " frees");
  if (read.unknown_packets > 0 || read.unknown_events > 0)
    missing.emplace_back("what a newer memreel wrote and this one can't read");
  if (!read.intact()) missing.emplace_back("the damaged parts of the file");
  if (!read.has_footer && file_size != 0_B)
    missing.emplace_back("the end: the recorder was killed, or is still writing");
  return missing;
}

}  // namespace memreel
