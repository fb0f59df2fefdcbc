// SPDX-License-Identifier: Apache-2.0
#include "formats/import/torch/snapshot_to_trace.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "formats/import/torch/pools.h"
#include "formats/import/torch/preexisting.h"
#include "formats/model/stack_text.h"
#include "formats/model/units.h"

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
  const auto occurs = [&](Action action) { return history.entries.count(action) > 0; };
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

namespace {

constexpr std::int32_t host_memory = -1;  // the device number of its heaps

Nanoseconds from_microseconds(std::int64_t time_us) { return std::chrono::microseconds(time_us); }

EventKind kind_of(Action action) {
  switch (action) {
    case Action::alloc:
      return EventKind::alloc;
    case Action::free_requested:
      return EventKind::free_requested;
    case Action::free_completed:
      return EventKind::free_completed;
    case Action::segment_alloc:
      return EventKind::segment_alloc;
    case Action::segment_free:
      return EventKind::segment_free;
    case Action::segment_map:
      return EventKind::segment_map;
    case Action::segment_unmap:
      return EventKind::segment_unmap;
    case Action::oom:
      return EventKind::alloc_failed;
    case Action::mark:
      return EventKind::mark;
  }
  return EventKind::unknown;
}

/// What a device's own records don't state.
struct Inferred {
  PreexistingMemory before;
  std::vector<ReleaseRun> releases;
};

/// Whether a history that began late has as many entries as a ring that someone would ask for (`max_entries`, which
/// snapshots before PyTorch 2.12 don't state): 10,000 or 4,096 even if nothing else speaks for it, but 3,500, which a
/// loop may also make, only if older allocations were recorded. An overwritten entry leaves no other trace.
bool fills_ring(std::uint64_t entries, const PreexistingMemory& before) {
  if (entries < 1000 || before.empty()) return false;
  std::uint64_t digits = entries;
  while (digits % 10 == 0) digits /= 10;
  if (std::has_single_bit(entries) || digits == 1 || digits == 2 || digits == 5) return true;
  return before.was_recorded && digits < 100;
}

/// Writes into the entries what the releases reveal about destroyed pools.
Inferred infer(DeviceHistory& history, PoolStreams& pool_streams, const TorchSettings& rules, const Tables& tables,
               Effort& effort) {
  Inferred result;
  PreexistingMemory& before = result.before;
  // On a separate thread: it takes as long as the next two steps, which don't depend on it if nothing is older.
  auto allocations = std::async(find_preexisting_allocations, std::cref(history), std::ref(before));
  find_preexisting_segments(history, pool_streams, before);
  if (!before.segments.empty()) {
    allocations.get();
    if (find_skipped_actions(history).empty()) divide(history, pool_streams, rules, before);
  }
  result.releases = find_releases(history, before, pool_streams, rules, tables);
  if (allocations.valid()) allocations.get();
  if ((!before.empty() && !before.divided) || result.releases.empty() || history.states_pools) return result;
  // Which releases are calls reveals pools, and the pools decide which releases are calls: one that could have served
  // the next request is a call only if both are in the same pool. Once found to be a call, it stays one.
  constexpr int most_rounds = 4;
  std::set<std::size_t> calls;  // by their first entry
  for (int round = 0; round < most_rounds; ++round) {
    find_destroyed_pools(history, before, pool_streams, rules, result.releases, effort);
    std::vector<ReleaseRun> again = find_releases(history, before, pool_streams, rules, tables);
    for (std::size_t i = 0; i < again.size(); ++i) {
      if (again[i].is_call && !result.releases[i].is_call) calls.insert(again[i].first);
      again[i].is_call = again[i].is_call || calls.contains(again[i].first);
    }
    const bool settled = again == result.releases;
    result.releases = std::move(again);
    if (settled) break;
  }
  return result;
}

/// The notes on requests, by entry: made with them, or later about what lived at their address. The last one wins.
std::vector<std::pair<std::size_t, StringId>> metadata_by_entry(const DeviceHistory& history) {
  std::map<std::size_t, StringId> said;
  std::unordered_map<std::uint64_t, std::size_t> live;  // the request of the live allocation at an address
  const bool any_address =
      std::ranges::any_of(history.metadata, [](const Metadata& m) { return m.address.has_value(); });
  std::size_t entry = 0;
  for (const Metadata& metadata : history.metadata) {
    for (; any_address && entry < metadata.entry; ++entry) {
      const Entry& before = history.entries[entry];
      if (before.action() == Action::alloc) live[before.address] = entry;
      if (before.action() == Action::free_completed) live.erase(before.address);
    }
    if (!metadata.address)
      said[metadata.entry] = metadata.text;
    else if (const auto found = live.find(*metadata.address); found != live.end())
      said[found->second] = metadata.text;
  }
  return {said.begin(), said.end()};
}

using SettingTexts = std::vector<std::pair<std::string, std::string>>;

std::map<std::string, std::string> by_key(const SettingTexts& settings) {
  std::map<std::string, std::string> map;
  for (const auto& [key, value] : settings) map[key] = value;
  return map;
}

/// Writes the history of one heap, whose entries are gone once they are written.
class DeviceWriter {
 public:
  DeviceWriter(const Heap& heap, DeviceHistory& history, const PoolStreams& pool_streams, ImportOutput& writer)
      : history_(history),
        pool_streams_(pool_streams),
        writer_(writer),
        heap_(writer.intern(heap)),
        origins_(pool_streams.count(), OriginId::none),
        metadata_(metadata_by_entry(history)) {}

  void set_releases(std::span<const ReleaseRun> runs) { calls_ = find_release_calls(history_, pool_streams_, runs); }
  void set_calls(std::vector<ReleaseCall> calls) { calls_ = std::move(calls); }

  /// Time of the next record; none at the end.
  std::optional<std::int64_t> next_time() const {
    if (range_is_next()) return history_.ranges[next_range_].time_us;
    if (next_entry_ == history_.entries.count()) return std::nullopt;
    return time_of(next_entry_);
  }

  void write_start(std::int64_t time_us, const SettingTexts& settings, const PreexistingMemory& before) {
    time_us_ = time_us;
    const Nanoseconds time = from_microseconds(time_us);
    if (!settings.empty()) {
      Settings row;
      for (const auto& [key, value] : settings) row.entries.emplace_back(writer_.intern(key), writer_.intern(value));
      writer_.append(
          {.kind = EventKind::settings, .origin = device_origin(), .time = time, .value = index(writer_.intern(row))});
    }
    if (before.divided) writer_.add_initial_heap(initial_heap(before.segments));
    const FrameId frame = writer_.intern(Frame{.function = writer_.intern(preexisting_frame)});
    const StackId root = writer_.intern(Stack{.frame = frame});
    for (const PreexistingSegment& segment : before.segments)
      writer_.append({.kind = segment.mapped ? EventKind::segment_map : EventKind::segment_alloc,
                      .origin = origin_of(segment.pool_stream, StringId::none),
                      .stack = root,
                      .time = time,
                      .address = segment.address,
                      .size = segment.size});
    for (const auto& [block, pool_stream] : before.allocations) {
      Event event{.kind = EventKind::alloc,
                  .origin = origin_of(pool_stream, block.metadata),
                  .stack = called_from(root, block.stack),
                  .time = time,
                  .address = block.address,
                  .size = block.requested};
      writer_.append(event);
      if (!block.pending) continue;
      event.kind = EventKind::free_requested;
      writer_.append(event);
    }
  }

  /// Writes the next record.
  void write_next() {
    if (range_is_next()) {
      const Annotation& range = history_.ranges[next_range_++];
      time_us_ = range.time_us;
      writer_.append({.kind = EventKind::mark,
                      .origin = device_origin(),
                      .time = from_microseconds(range.time_us),
                      .value = index(range.mark)});
      return;
    }
    const Entry& entry = history_.entries[next_entry_];
    time_us_ = time_of(next_entry_);
    const Nanoseconds time = from_microseconds(time_us_);
    for (; next_call_ < calls_.size() && calls_[next_call_].entry == next_entry_; ++next_call_) {
      const ReleaseCall& call = calls_[next_call_];
      writer_.append({.kind = call.kind,
                      .origin = call.pool_stream ? origin_of(*call.pool_stream, StringId::none) : device_origin(),
                      .stack = entry.stack,
                      .time = time});
    }
    const bool is_described = next_metadata_ < metadata_.size() && metadata_[next_metadata_].first == next_entry_;
    const StringId metadata = is_described ? metadata_[next_metadata_++].second : StringId::none;
    ++next_entry_;
    Event event{.kind = kind_of(entry.action()),
                .origin = origin_of(entry.pool_stream(), metadata),
                .stack = entry.stack,
                .time = time,
                .size = {entry.size}};
    if (has_address(entry.action()))
      event.address = {entry.address};
    else
      event.value = entry.address;
    if (entry.action() == Action::mark) event.size = {};
    writer_.append(event);
    history_.entries.forget_before(next_entry_);
  }

 private:
  InitialHeap initial_heap(std::span<const PreexistingSegment> segments) {
    InitialHeap initial{.heap = heap_};
    for (const PreexistingSegment& segment : segments)
      initial.segments.push_back({.address = segment.address,
                                  .size = segment.size,
                                  .origin = origin_of(segment.pool_stream, StringId::none),
                                  .small = segment.small,
                                  .mapped = segment.mapped,
                                  .range = segment.range,
                                  .blocks = segment.blocks});
    return initial;
  }

  std::int64_t time_of(std::size_t entry) const {
    const std::int64_t time = history_.entries[entry].time_us;
    return time == no_time ? time_us_ : time;
  }
  bool range_is_next() const {
    if (next_range_ == history_.ranges.size()) return false;
    return next_entry_ == history_.entries.count() || history_.ranges[next_range_].time_us <= time_of(next_entry_);
  }

  /// For events that concern the whole heap.
  OriginId device_origin() { return writer_.intern(Origin{.heap = heap_}); }

  OriginId origin_of(PoolStreamId id, StringId metadata) {
    OriginId& origin = origins_[static_cast<std::size_t>(id)];
    if (metadata != StringId::none) {
      Origin row = writer_.tables()[origin_of(id, StringId::none)];
      row.metadata = metadata;
      return writer_.intern(row);
    }
    if (origin != OriginId::none) return origin;
    const PoolStream& pool_stream = pool_streams_[id];
    const PoolKey key = pool_stream.pool.value_or(PoolKey{});
    Origin row{.heap = heap_};
    if (key != PoolKey{})
      row.pool = writer_.intern(Pool{.key_high = key.high, .key_low = key.low, .inferred = is_inferred(key)});
    if (pool_stream.stream != 0) row.stream = writer_.intern(Stream{.handle = pool_stream.stream});
    origin = writer_.intern(row);
    return origin;
  }

  /// `stack` with `root` as its outermost frame.
  StackId called_from(StackId root, StackId stack) {
    std::vector<FrameId> frames;
    for (; stack != StackId::none; stack = writer_.tables()[stack].caller)
      frames.push_back(writer_.tables()[stack].frame);
    StackId result = root;
    for (; !frames.empty(); frames.pop_back()) result = writer_.intern(Stack{.frame = frames.back(), .caller = result});
    return result;
  }

  DeviceHistory& history_;
  const PoolStreams& pool_streams_;
  ImportOutput& writer_;
  HeapId heap_;
  std::vector<OriginId> origins_;                           // by PoolStreamId
  std::vector<std::pair<std::size_t, StringId>> metadata_;  // by entry
  std::size_t next_metadata_ = 0;
  std::vector<ReleaseCall> calls_;
  std::size_t next_entry_ = 0;
  std::size_t next_range_ = 0;
  std::size_t next_call_ = 0;
  std::int64_t time_us_ = 0;  // of the previous record
};

/// Writes the records of all devices in the order of their times; of equal ones, the first device's first.
void write_all(std::vector<DeviceWriter>& devices) {
  using Next = std::pair<std::int64_t, std::size_t>;  // time, device
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  const auto wait = [&](std::size_t device) {
    if (const std::optional<std::int64_t> time = devices[device].next_time()) next.emplace(*time, device);
  };
  for (std::size_t device = 0; device < devices.size(); ++device) wait(device);
  while (!next.empty()) {
    const std::size_t device = next.top().second;
    next.pop();
    do devices[device].write_next();
    while (next.empty() && devices[device].next_time());
    wait(device);
  }
}

std::int64_t first_time(const Snapshot& snapshot) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  const auto see = [&](const DeviceHistory& history) {
    if (!history.ranges.empty()) first = std::min(first, history.ranges.front().time_us);
    for (std::size_t i = 0; i < history.entries.count(); ++i) {
      const std::int64_t time = history.entries[i].time_us;
      if (time == no_time) continue;
      first = std::min(first, time);
      break;
    }
  };
  see(snapshot.host);
  for (const auto& [ordinal, history] : snapshot.devices) see(history);
  return first == std::numeric_limits<std::int64_t>::max() ? 0 : first;
}

bool holds_anything(const DeviceHistory& history) { return history.recorded > 0 || !history.segments.empty(); }

/// What the trace of pinned host memory is made from.
struct Host {
  TorchHostSettings rules;
  PreexistingMemory before;
  HostHistory history;
};

/// The settings of its heap.
SettingTexts settings_of_host(const TorchHostSettings& rules) {
  SettingTexts settings{{"kind", std::string(TorchHostSettings::policy)}};
  for (auto& [key, value] : rules.parameters()) settings.emplace_back(key, value);
  return settings;
}

Host host_of(Snapshot& snapshot) {
  DeviceHistory& whole = snapshot.host;
  if (snapshot.is_series)
    return {.rules = TorchHostSettings::recorded(by_key(snapshot.settings)),
            .before = {},
            .history = {.allocator = std::move(whole)}};
  complete_frees(whole, find_skipped_actions(whole));
  Host host{.rules = TorchHostSettings::recorded(by_key(snapshot.settings)), .before = {}, .history = {}};
  find_preexisting_segments(whole, snapshot.pool_streams, host.before);
  find_preexisting_allocations(whole, host.before);
  host.history = split_host_history(whole, snapshot.pool_streams, host.rules, host.before.empty());
  return host;
}

}  // namespace

void write_trace(Snapshot snapshot, ImportOutput& writer) {
  writer.set_python_holders(std::move(snapshot.python_holders));
  Losses losses{.stack_table_full = snapshot.cut_stacks,
                .unknown_actions = snapshot.unknown_actions,
                .history_overflowed = snapshot.ring_overflowed};
  const auto any_history = [&](auto what) {
    return what(snapshot.host) || std::ranges::any_of(snapshot.devices, [&](const auto& d) { return what(d.second); });
  };
  const bool has_history = any_history([](const DeviceHistory& history) { return history.recorded > 0; });
  const bool has_segments = any_history([](const DeviceHistory& history) { return !history.segments.empty(); });
  const TorchSettings rules = TorchSettings::recorded(by_key(snapshot.settings));
  const std::int64_t start = first_time(snapshot);
  std::vector<Inferred> inferred;
  std::uint64_t entries = 0;
  for (const auto& [ordinal, history] : snapshot.devices) entries += history.entries.count();
  Effort effort(entries);
  for (auto& [ordinal, history] : snapshot.devices) {
    if (snapshot.is_series) {
      inferred.emplace_back();
      continue;
    }
    const EventKinds skipped = find_skipped_actions(history);
    complete_frees(history, skipped);
    losses.skipped = losses.skipped | skipped;
    infer_pools(history, snapshot.pool_streams);
    inferred.push_back(infer(history, snapshot.pool_streams, rules, writer.tables(), effort));
    const PreexistingMemory& before = inferred.back().before;
    losses.preexisting_allocations += before.allocations.size();
    losses.began_late = losses.began_late || !before.empty();
    losses.history_overflowed =
        losses.history_overflowed || history.recorded >= snapshot.ring_capacity || fills_ring(history.recorded, before);
  }
  if (snapshot.is_series) losses.skipped = all_between_instants();
  if (!has_history && has_segments) {
    losses.skipped = all_of_a_history();
    losses.history_overflowed = false;
  }
  std::vector<DeviceReleases> releases;
  for (auto& [ordinal, history] : snapshot.devices)
    releases.push_back({.history = &history, .runs = &inferred[releases.size()].releases});
  join_calls(releases);
  // Reports need the losses before the first event.
  writer.set_losses(losses);

  std::vector<DeviceWriter> heaps;
  heaps.reserve(snapshot.devices.size() + 2);
  const StringId name = writer.intern("torch." + snapshot.device_type);
  for (auto& [ordinal, history] : snapshot.devices) {
    const Inferred& of_device = inferred[heaps.size()];
    const Heap heap{.name = name, .level = Level::framework, .device = ordinal};
    heaps.emplace_back(heap, history, snapshot.pool_streams, writer);
    heaps.back().set_releases(of_device.releases);
    heaps.back().write_start(start, snapshot.settings, of_device.before);
  }
  std::optional<Host> host;
  if (holds_anything(snapshot.host)) {
    host = host_of(snapshot);
    const Heap heap{.name = writer.intern(TorchHostSettings::policy), .level = Level::framework, .device = host_memory};
    heaps.emplace_back(heap, host->history.allocator, snapshot.pool_streams, writer);
    heaps.back().set_calls(host->history.releases);
    heaps.back().write_start(start, settings_of_host(host->rules), host->before);
    if (host->history.registered.entries.count() > 0) {
      const StringId driver = writer.intern(snapshot.device_type + ".host");
      heaps.emplace_back(Heap{.name = driver, .level = Level::driver, .device = host_memory}, host->history.registered,
                         snapshot.pool_streams, writer);
    }
  }
  write_all(heaps);
}

}  // namespace memreel::torch
