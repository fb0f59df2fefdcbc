// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/sites.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "formats/model/live_set.h"
#include "formats/model/stack_text.h"

namespace memreel::attach {
namespace {

std::string_view name_of(std::string_view path) { return path.substr(path.find_last_of("/\\") + 1); }

/// As memreel.holders(site=...) writes frames (memreel/holding.py, sites_of()).
bool is_at(const FrameText& frame, std::string_view site) {
  if (frame.file.empty()) return false;
  const std::string text =
      std::string(name_of(frame.file)) + ':' + std::to_string(frame.line) + ' ' + std::string(frame.function);
  return text.find(site) != std::string::npos;
}

/// Answers for each stack once.
class Sites {
 public:
  Sites(const Tables& tables, std::string_view site) : tables_(&tables), site_(site) {}

  bool contains(StackId stack) {
    if (stack == StackId::none) return false;
    const auto [known, is_new] = known_.try_emplace(index(stack), false);
    if (is_new)
      known->second = std::ranges::any_of(frames_of(*tables_, stack),
                                          [this](const FrameText& frame) { return is_at(frame, site_); });
    return known->second;
  }

 private:
  const Tables* tables_;
  std::string_view site_;
  std::unordered_map<std::uint64_t, bool> known_;
};

}  // namespace

Result<std::vector<Address>> allocated_at(TraceReader& trace, const std::string& site, std::size_t most) {
  LiveSet live(trace.tables());
  EventBatch batch;
  while (true) {
    const auto more = trace.next(batch);
    if (!more) return more.error();
    if (!*more) break;
    std::uint64_t allocation = batch.first_allocation;
    for (std::size_t i = 0; i < batch.events.count(); ++i) {
      Event event = batch.events[i];
      if (event.kind == EventKind::alloc) event.allocation = AllocationId{static_cast<std::uint32_t>(allocation++)};
      live.apply(event);
    }
  }
  std::vector<LiveAllocation> found = live.snapshot().allocations;
  Sites sites(trace.tables(), site);
  std::erase_if(found, [&](const LiveAllocation& one) { return !sites.contains(one.stack); });
  std::ranges::stable_sort(found, std::ranges::greater{}, &LiveAllocation::size);
  std::vector<Address> addresses;
  std::unordered_set<std::uint64_t> seen;
  for (const LiveAllocation& one : found)
    if (addresses.size() < most && seen.insert(one.address.value).second) addresses.push_back(one.address);
  return addresses;
}

}  // namespace memreel::attach
