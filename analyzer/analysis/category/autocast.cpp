// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "analyzer/analysis/category/classify.h"

namespace memreel {
namespace {

bool is_cached_cast(const FrameText& frame) { return frame.function.starts_with("at::autocast::cached_cast"); }

/// Python's names the end of autocast too, and is there where native frames were not recorded.
bool ends_autocast(const FrameText& frame) {
  if (frame.function.starts_with("at::autocast::clear_cache")) return true;
  return base_name(frame.file) == "autocast_mode.py" && frame.function.ends_with("__exit__");
}

/// By StackId: whether a frame of the stack is such; empty if no frame is.
std::vector<char> stacks_through(const Tables& tables, bool (*is_such)(const FrameText&)) {
  std::vector<char> frames(tables.frames.size());
  bool found = false;
  for (std::uint32_t f = 1; f < frames.size(); ++f) {
    frames[f] = is_such(frame_text(tables, FrameId{f})) ? 1 : 0;
    found = found || frames[f] != 0;
  }
  if (!found) return {};
  std::vector<char> stacks(tables.stacks.size());
  for (std::uint32_t s = 1; s < stacks.size(); ++s) {  // callers come first
    const Stack& stack = tables.stacks[s];
    stacks[s] = frames[index(stack.frame)] != 0 || stacks[index(stack.caller)] != 0 ? 1 : 0;
  }
  return stacks;
}

/// An operator's cast of its input is freed when the operator is done, after a few events; a cached one stays for the
/// whole pass.
constexpr std::uint32_t events_of_operator = 32;

/// Whether the evidence is stronger than what sizes and names of native functions show: a backward pass that uses the
/// copy, or the program's own code.
bool is_settled(Evidence evidence) {
  switch (evidence) {
    case Evidence::none:
    case Evidence::freed_in_pass:
    case Evidence::kept_graph:
    case Evidence::forward_at_end:
    case Evidence::feeds_forward:
    case Evidence::carried_between_calls:
    case Evidence::rest_of_serving:
      return false;
    default:
      return true;
  }
}

/// Whether it may be a weight: held since before the first forward pass, and nothing else by its evidence, such as the
/// graph of a pass before the recording.
bool may_be_weight(const Observations& seen, const Observation& of, Evidence evidence) {
  const Category category = category_of(evidence);
  return of.begin != never && seen.is_kept_from_setup(of) &&
         (category == Category::unknown || category == Category::parameter || category == Category::parameter_copy);
}

/// How many weights a copy of each size in 16 bit can be of: half the sizes of what may be weights. PyTorch rounds
/// sizes up to 512 bytes, which snapshots show for some.
SizeCounts copies_of_weights(const Observations& seen, const std::vector<Evidence>& evidence) {
  constexpr std::uint64_t rounding = 512;
  SizeCounts copies;
  for (std::uint32_t id = 0; id < evidence.size(); ++id) {
    const Observation& of = seen.allocations[id];
    if (!may_be_weight(seen, of, evidence[id])) continue;
    const std::uint64_t half = of.size.count / 2;
    copies.add(Bytes{half});
    if (half % rounding != 0) copies.add(Bytes{(half / rounding + 1) * rounding});
  }
  return copies;
}

}  // namespace

void conclude_autocast(const Trace& trace, const Observations& seen, std::vector<Evidence>& evidence) {
  const std::vector<char> casts = stacks_through(trace.tables, is_cached_cast);
  const std::vector<char> ends = stacks_through(trace.tables, ends_autocast);
  if (casts.empty() && ends.empty()) return;
  const SizeCounts weights = copies_of_weights(seen, evidence);
  std::map<std::pair<std::uint32_t, Bytes>, std::uint32_t> made;  // by pass and size: a weight has one copy
  for (std::uint32_t id = 0; id < evidence.size(); ++id) {
    const Observation& of = seen.allocations[id];
    if (of.begin == never || is_settled(evidence[id])) continue;
    const bool cleared = of.is_freed() && !ends.empty() && ends[index(trace.events.stack(of.end))] != 0;
    if (casts.empty()) {
      if (cleared && weights.has(of.size)) evidence[id] = Evidence::autocast_copy;
      continue;
    }
    const bool stays = !of.is_freed() || of.end - of.begin > events_of_operator;
    if (casts[index(of.stack)] == 0 || (!cleared && !stays)) continue;
    if (++made[{of.made_in, of.size}] <= weights.count(of.size) || cleared) evidence[id] = Evidence::autocast_copy;
  }
}

}  // namespace memreel
