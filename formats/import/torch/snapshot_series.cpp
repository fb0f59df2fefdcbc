#include "formats/import/torch/snapshot_series.h"

#include <algorithm>
#include <utility>

#include "formats/import/torch/ranges.h"

namespace memreel::torch {
namespace {

bool has_history(const Snapshot& snapshot) {
  return snapshot.host.recorded > 0 ||
         std::ranges::any_of(snapshot.devices, [](const auto& device) { return device.second.recorded > 0; });
}

/// Appends entries with the same time.
class Appender {
 public:
  Appender(DeviceHistory& history, std::int64_t time_us) : history_(history), time_us_(time_us) {}

  void add(Action action, PoolStreamId pool_stream, std::uint64_t address, Bytes size, StackId stack = StackId::none) {
    Entry entry{.time_us = time_us_, .address = address, .size = size.count, .stack = stack};
    entry.set(action, pool_stream);
    history_.entries.push_back(entry);
    ++history_.recorded;
  }
  void describe(StringId metadata) {
    if (metadata != StringId::none)
      history_.metadata.push_back({.entry = history_.entries.count() - 1, .address = std::nullopt, .text = metadata});
  }

 private:
  DeviceHistory& history_;
  std::int64_t time_us_;
};

bool is_same(const Segment& a, const Segment& b) {
  return a.size == b.size && a.pool_stream == b.pool_stream && a.expandable == b.expandable;
}

bool is_same(const std::pair<Block, PoolStreamId>& a, const std::pair<Block, PoolStreamId>& b) {
  return a.first.requested == b.first.requested && a.first.stack == b.first.stack && a.second == b.second &&
         a.first.metadata == b.first.metadata && a.first.pending <= b.first.pending;
}

/// Calls `visit(address, size, pool_stream)` for what `some` holds and `others` don't. As expandable segments grow and
/// shrink, it may be any part of one.
template <class Segments, class Visit>
void for_each_only_in(const Segments& some, const Segments& others, bool expandable, const Visit& visit) {
  RangeMap<bool> held;
  for (const auto& [address, segment] : others)
    if (expandable && segment.expandable) held.set(Range::of(address.value, segment.size.count), true);
  for (const auto& entry : some) {
    const Address address = entry.first;
    const auto& segment = entry.second;
    if (segment.expandable != expandable) continue;
    if (expandable) {
      held.for_each_gap(Range::of(address.value, segment.size.count),
                        [&](Range gap) { visit(gap.begin, Bytes{gap.end - gap.begin}, segment.pool_stream); });
      continue;
    }
    const auto other = others.find(address);
    if (other == others.end() || !is_same(segment, other->second))
      visit(address.value, segment.size, segment.pool_stream);
  }
}

}  // namespace

Result<void> SnapshotSeries::add(const Snapshot& snapshot, const std::string& name, std::int64_t time_us) {
  if (has_history(snapshot))
    return Error{.what = "has a history, so it can't be part of a series",
                 .where = name,
                 .remedy = "import it alone; a series consists of snapshots without traces (include_traces=False)"};
  if (devices_.empty()) {
    whole_.settings = snapshot.settings;
    whole_.device_type = snapshot.device_type;
  }
  whole_.cut_stacks += snapshot.cut_stacks;
  for (const auto& [ordinal, history] : snapshot.devices) devices_.try_emplace(ordinal);
  bool marked = false;
  for (auto& [ordinal, before] : devices_) {
    DeviceHistory& history = whole_.devices[ordinal];
    if (!std::exchange(marked, true)) {
      const MarkId mark = writer_.intern(Mark{.name = writer_.intern(name), .phase = MarkPhase::instant});
      Appender(history, time_us).add(Action::mark, whole_.pool_streams.id({}), index(mark), {});
    }
    const auto found = snapshot.devices.find(ordinal);
    Held now = found == snapshot.devices.end() ? Held{} : held_by(found->second, snapshot.pool_streams);
    add_changes(history, before, now, time_us);
    before = std::move(now);
  }
  Held now = held_by(snapshot.host, snapshot.pool_streams);
  add_changes(whole_.host, host_, now, time_us);
  host_ = std::move(now);
  return {};
}

SnapshotSeries::Held SnapshotSeries::held_by(const DeviceHistory& history, const PoolStreams& pool_streams) {
  Held held;
  for (const Segment& segment : history.segments) {
    const PoolStreamId pool_stream = whole_.pool_streams.id(pool_streams[segment.pool_stream]);
    held.segments[segment.address] = {.address = segment.address,
                                      .size = segment.size,
                                      .pool_stream = pool_stream,
                                      .expandable = segment.expandable,
                                      .blocks = {}};
    for (const Block& block : segment.blocks) held.blocks[block.address] = {block, pool_stream};
  }
  return held;
}

void SnapshotSeries::add_changes(DeviceHistory& history, const Held& before, const Held& now, std::int64_t time_us) {
  Appender entries(history, time_us);
  for (const auto& [address, old] : before.blocks) {
    const auto& [block, pool_stream] = old;
    const auto kept = now.blocks.find(address);
    const bool stays = kept != now.blocks.end() && is_same(old, kept->second);
    if (!block.pending && (!stays || kept->second.first.pending))
      entries.add(Action::free_requested, pool_stream, address.value, block.requested);
    if (!stays) entries.add(Action::free_completed, pool_stream, address.value, block.requested);
  }
  for (const bool expandable : {false, true})
    for_each_only_in(
        before.segments, now.segments, expandable, [&](std::uint64_t address, Bytes size, PoolStreamId pool_stream) {
          entries.add(expandable ? Action::segment_unmap : Action::segment_free, pool_stream, address, size);
        });
  for (const bool expandable : {false, true})
    for_each_only_in(
        now.segments, before.segments, expandable, [&](std::uint64_t address, Bytes size, PoolStreamId pool_stream) {
          entries.add(expandable ? Action::segment_map : Action::segment_alloc, pool_stream, address, size);
        });
  for (const auto& [address, fresh] : now.blocks) {
    const auto& [block, pool_stream] = fresh;
    const auto known = before.blocks.find(address);
    if (known != before.blocks.end() && is_same(known->second, fresh)) continue;
    entries.add(Action::alloc, pool_stream, address.value, block.requested, block.stack);
    entries.describe(block.metadata);
    if (block.pending) entries.add(Action::free_requested, pool_stream, address.value, block.requested);
  }
}

}  // namespace memreel::torch
