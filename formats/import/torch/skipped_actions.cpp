#include "formats/import/torch/skipped_actions.h"

#include <array>
#include <cstdint>
#include <unordered_set>
#include <utility>

namespace memreel::torch {
namespace {

/// Whether `second` happened at an address where `first` happened earlier.
bool follows(const Entries& entries, Action first, Action second) {
  std::unordered_set<std::uint64_t> addresses;
  for (std::size_t i = 0; i < entries.count(); ++i) {
    const Entry& entry = entries[i];
    if (entry.action() == second && addresses.contains(entry.address)) return true;
    if (entry.action() == first) addresses.insert(entry.address);
  }
  return false;
}

/// In every complete history, `missing` occurs between `first` and `second` at the same address.
struct Between {
  Action first, missing, second;
  EventKind kind;
};
constexpr std::array between{
    Between{Action::alloc, Action::free_requested, Action::alloc, EventKind::free_requested},
    Between{Action::alloc, Action::free_requested, Action::free_completed, EventKind::free_requested},
    Between{Action::alloc, Action::free_completed, Action::alloc, EventKind::free_completed},
    Between{Action::free_requested, Action::alloc, Action::free_requested, EventKind::alloc},
    Between{Action::free_completed, Action::alloc, Action::free_completed, EventKind::alloc},
    Between{Action::segment_alloc, Action::segment_free, Action::segment_alloc, EventKind::segment_free},
    Between{Action::segment_free, Action::segment_alloc, Action::segment_free, EventKind::segment_alloc},
};

}  // namespace

EventKinds find_skipped_actions(const DeviceHistory& history) {
  std::array<std::size_t, 16> count{};  // by Action
  for (std::size_t i = 0; i < history.entries.count(); ++i)
    ++count.at(static_cast<std::size_t>(history.entries[i].action()));
  const auto occurs = [&](Action action) { return count.at(static_cast<std::size_t>(action)) > 0; };
  EventKinds skipped;
  for (const auto& [first, missing, second, kind] : between)
    if (!occurs(missing) && occurs(first) && occurs(second) && !skipped.contains(kind) &&
        follows(history.entries, first, second))
      skipped.add(kind);
  return skipped;
}

void complete_frees(DeviceHistory& history, EventKinds skipped) {
  const bool requests = skipped.contains(EventKind::free_requested);
  if (requests == skipped.contains(EventKind::free_completed)) return;
  const Action recorded = requests ? Action::free_completed : Action::free_requested;
  Entries whole;
  auto metadata = history.metadata.begin();
  for (std::size_t i = 0; i < history.entries.count(); ++i) {
    for (; metadata != history.metadata.end() && metadata->entry == i; ++metadata) metadata->entry = whole.count();
    Entry entry = history.entries[i];
    if (entry.action() != recorded) {
      whole.push_back(entry);
      continue;
    }
    for (const Action half : {Action::free_requested, Action::free_completed}) {
      entry.set(half, entry.pool_stream());
      whole.push_back(entry);
    }
  }
  for (; metadata != history.metadata.end(); ++metadata) metadata->entry = whole.count();
  history.entries = std::move(whole);
}

}  // namespace memreel::torch
