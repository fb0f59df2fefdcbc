#include "analyzer/cli/failure_lines.h"

#include <algorithm>
#include <string_view>

#include "analyzer/category/classify.h"
#include "analyzer/history/lifetimes.h"
#include "analyzer/insight/block_sizes.h"
#include "analyzer/insight/out_of_memory.h"
#include "analyzer/insight/remedies.h"
#include "analyzer/replay/completed_trace.h"
#include "analyzer/report/category_shares.h"
#include "analyzer/verdict/verdict.h"
#include "formats/model/quantity.h"

namespace memreel::cli {
namespace {

constexpr std::size_t most_holders = 4;

/// "parameter 4.00 GiB, activation 3.20 GiB (most at train.py:41)"
std::string names_of(const Holders& holders) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most_holders, holders.parts.size()); ++i) {
    const Holder& holder = holders.parts[i];
    text += (text.empty() ? "" : ", ") + (holder.label.empty() ? "native code" : holder.label) + " " +
            text_of(holder.bytes);
    if (!holder.mostly.empty()) text += " (most at " + holder.mostly + ")";
  }
  return text.empty() ? "nothing that was recorded" : text;
}

Holders holders_at(const Trace& trace, const OutOfMemory& oom) {
  const std::vector<Lifetime> lives = lifetimes(trace);
  const Categories categories = classify(trace);
  Holders holders = holders_by_category(category_shares(trace, lives, categories, oom.heap, oom.event));
  return holders.parts.empty() ? holders_by_stack(trace, lives, oom.heap, oom.event) : holders;
}

/// The pool's numbers; at driver level, the device's.
std::string numbers_of(const OutOfMemory& oom) {
  if (oom.level == Level::driver)
    return oom.device_free ? text_of(*oom.device_free) + " free on the device" : "no sample of the device";
  return text_of(oom.live) + " live of " + text_of(oom.reserved) + " reserved, " + text_of(oom.free) +
         " free, largest block " + text_of(oom.largest_in_pool_stream);
}

/// A dump ends in its failure: how the step would have gone on is known from earlier ones, or not at all.
std::string remedy_for(const OutOfMemory& oom, const Remedies& remedies) {
  if (!oom.survivors.empty()) return survivor_text(remedies, oom) + " would have served it";
  if (oom.serve_only.empty()) return "no setting would have served it";
  return remedies.tried[oom.serve_only.front().remedy].text + " would have served it; " +
         (oom.rest ? "not the rest of the step" : "what would follow is not recorded");
}

}  // namespace

std::vector<std::string> failure_lines(Trace trace) {
  complete_trace(trace);
  Remedies remedies = untried_remedies(trace);
  OutOfMemories failures = judge_failures(trace, recorded_blocks(trace), remedies);
  replay_remedies(trace, remedies);
  find_survivors(trace, remedies, failures);
  if (failures.examined.empty()) return {"out of memory: the failed request is not among the events that were kept"};
  const OutOfMemory& oom = failures.examined.back();
  const Heap& heap = trace.tables[oom.heap];
  std::string verdict(name_of(oom.verdict));
  if (oom.verdict == OomVerdict::lack_of_memory) verdict += ", not fragmentation";
  if (oom.own_limit()) verdict += ", at a limit that the program set";
  return {"out of memory on GPU " + std::to_string(heap.device) + ": " + text_of(oom.requested) + " refused, " +
              text_of(oom.live) + " live, held by " + names_of(holders_at(trace, oom)),
          verdict + " (" + numbers_of(oom) + "); " + remedy_for(oom, remedies)};
}

}  // namespace memreel::cli
