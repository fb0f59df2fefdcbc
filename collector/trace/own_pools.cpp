// SPDX-License-Identifier: Apache-2.0
#include "collector/trace/trace_builder.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "collector/trace/job.h"
#include "formats/model/value_check.h"
#include "formats/torch/alloc_conf.h"
#include "formats/torch/release.h"

namespace memreel::agent {

namespace {

/// Destroyed pools beyond this are forgotten: some programs make one for each request. Their use is then one of a pool
/// made before the recording.
constexpr std::size_t most_gone = std::size_t{1} << 16U;

}  // namespace

/// A trace has a limited number of heaps: programs that make a pool for each request share the last one.
bool OwnPools::is_full() const {
  constexpr std::size_t others = 64;  // for those of drivers and frameworks
  return writer_->tables().heaps.size() + others >= max_heaps;
}

OwnPools::Pool& OwnPools::make(std::uint64_t number, std::uint64_t parent, std::int16_t device, HeapId driver,
                               std::string_view name) {
  const auto outer = pools_.find(parent);
  const bool full = is_full();
  // Pools with the same name are still distinct: the number distinguishes them.
  const auto is_taken = [&](StringId text) {
    const auto first = heaps_.lower_bound({device, text, HeapId{}});
    return first != heaps_.end() && std::get<0>(*first) == device && std::get<1>(*first) == text;
  };
  StringId text = writer_->intern(full           ? "other pools"
                                  : name.empty() ? "pool " + std::to_string(number)
                                                 : std::string(name));
  if (!full && !name.empty() && is_taken(text))
    text = writer_->intern(std::string(name) + " " + std::to_string(number));
  return open(number, writer_->intern(Heap{.name = text,
                                           .level = Level::framework,
                                           .device = device,
                                           .parent = outer != pools_.end() && !full ? outer->second.heap : driver}));
}

OwnPools::Pool& OwnPools::open(std::uint64_t number, HeapId heap) {
  if (const auto before = pools_.find(number); before != pools_.end()) close(before);
  const Heap& row = writer_->tables()[heap];
  if (++sharing_[heap] == 1) heaps_.emplace(row.device, row.name, heap);
  Pool& pool = pools_[number];
  pool.heap = heap;
  return pool;
}

void OwnPools::close(Pools::iterator pool) {
  const HeapId heap = pool->second.heap;
  const auto sharing = sharing_.find(heap);
  if (--sharing->second == 0) {
    sharing_.erase(sharing);
    const Heap& row = writer_->tables()[heap];
    heaps_.erase({row.device, row.name, heap});
  }
  pools_.erase(pool);
}

/// A pool created before the recording began, of which only the number is known; or one that was destroyed, again in
/// its heap unless that is another's by now.
OwnPools::Pool& OwnPools::unknown(const Record& record, HeapId driver) {
  const auto gone = gone_.find(record.object);
  if (gone == gone_.end()) return make(record.object, 0, record.device, driver, "");
  HeapId id = gone->second;
  gone_.erase(gone);
  if (!is_full() && sharing_.contains(id)) {
    Heap heap = writer_->tables()[id];
    heap.name = writer_->intern(writer_->tables()[heap.name] + " " + std::to_string(record.object));
    id = writer_->intern(heap);
  }
  Pool& pool = open(record.object, id);
  step(pool, {.kind = EventKind::pool_destroyed}, true);
  return pool;
}

OwnPools::Pools::iterator OwnPools::pool_at(std::uint64_t address) {
  return std::ranges::find_if(pools_, [&](const auto& pool) { return pool.second.live.contains(address); });
}

void OwnPools::end_allocation(Pool& pool, std::uint64_t address, bool implied) {
  if (pool.live.erase(address) != 0) pool.requested.insert(address);
  step(pool, {.kind = EventKind::free_requested, .address = {address}}, implied);
}

void OwnPools::complete(Pool& pool, std::uint64_t address, bool implied) {
  pool.requested.erase(address);
  step(pool, {.kind = EventKind::free_completed, .address = {address}}, implied);
}

void OwnPools::destroy(Pool& pool) {
  step(pool, {.kind = EventKind::pool_destroyed});
  while (!pool.live.empty()) end_allocation(pool, *pool.live.begin(), true);
  while (!pool.requested.empty()) complete(pool, *pool.requested.begin(), true);
  for (const auto& [address, size] : pool.segments)
    step(pool, {.kind = EventKind::segment_free, .address = {address}, .size = {size}}, true);
}

const std::vector<OwnPools::Step>& OwnPools::steps(const Record& record, HeapId driver, std::string_view name) {
  steps_.clear();
  if (record.kind == RecordKind::own_pool_made) {
    step(make(record.object, record.stream, record.device, driver, name), {.kind = EventKind::pool_created});
    return steps_;
  }
  const auto known = record.object != 0 ? pools_.find(record.object) : pool_at(record.address);
  if (record.object == 0 && known == pools_.end()) return steps_;
  Pool& pool = known != pools_.end() ? known->second : unknown(record, driver);

  switch (record.kind) {
    case RecordKind::own_pool_gone:
      destroy(pool);
      if (gone_.size() >= most_gone) gone_.clear();
      gone_[record.object] = pool.heap;
      close(pools_.find(record.object));
      break;
    case RecordKind::alloc:
      if (pool.live.contains(record.address)) end_allocation(pool, record.address, true);
      if (pool.requested.contains(record.address)) complete(pool, record.address, true);
      pool.live.insert(record.address);
      step(pool, {.kind = EventKind::alloc, .address = {record.address}, .size = {record.size}});
      break;
    case RecordKind::resized:
      end_allocation(pool, record.address);
      complete(pool, record.address);
      pool.live.insert(record.address);
      step(pool, {.kind = EventKind::alloc, .address = {record.address}, .size = {record.size}});
      break;
    case RecordKind::free: {
      // Of what is not there, one event is enough.
      const bool is_there = pool.live.contains(record.address) || pool.requested.contains(record.address);
      end_allocation(pool, record.address);
      if (is_there) complete(pool, record.address);
      break;
    }
    case RecordKind::free_requested:
      end_allocation(pool, record.address);
      break;
    case RecordKind::free_completed:
      complete(pool, record.address);
      break;
    case RecordKind::segment_added:
      pool.segments[record.address] = record.size;
      step(pool, {.kind = EventKind::segment_alloc, .address = {record.address}, .size = {record.size}});
      break;
    case RecordKind::segment_removed:
      step(pool, {.kind = EventKind::segment_free,
                  .address = {record.address},
                  .size = {pool.segments.contains(record.address) ? pool.segments[record.address] : 0}});
      pool.segments.erase(record.address);
      break;
    case RecordKind::alloc_failed:
      step(pool, {.kind = EventKind::alloc_failed, .size = {record.size}});
      break;
    default:
      break;
  }
  return steps_;
}

namespace {

/// The allocator's release and settings at program start. Later changes by the program are not seen.
Settings settings_of_environment(TraceOutput& writer) {
  Settings settings;
  std::ifstream maps("/proc/self/maps");
  const Variables versions = loaded_versions(maps);
  if (const auto release = versions.find("torch"); release != versions.end())
    settings.entries.emplace_back(writer.intern(TorchRelease::recorded_key), writer.intern(release->second));
  for (const char* const variable : conf_variables)
    if (const char* const value = std::getenv(variable))  // NOLINT(concurrency-mt-unsafe): reads only
      settings.entries.emplace_back(writer.intern(variable), writer.intern(value));
  return settings;
}

EventKind kind_of(RecordKind kind) {
  switch (kind) {
    case RecordKind::alloc:
      return EventKind::alloc;
    case RecordKind::free:
    case RecordKind::free_requested:
      return EventKind::free_requested;
    case RecordKind::free_completed:
      return EventKind::free_completed;
    case RecordKind::segment_added:
      return EventKind::segment_alloc;
    case RecordKind::segment_removed:
      return EventKind::segment_free;
    case RecordKind::mapped:
      return EventKind::segment_map;
    case RecordKind::unmapped:
      return EventKind::segment_unmap;
    case RecordKind::alloc_failed:
      return EventKind::alloc_failed;
    default:
      return EventKind::unknown;
  }
}

}  // namespace

HeapId TorchHeaps::heap_of(std::int16_t device, HeapId driver) {
  const auto [found, is_new] = heaps_.try_emplace(device, HeapId::none);
  if (!is_new) return found->second;
  found->second = writer_->intern(
      Heap{.name = writer_->intern(torch_heap_name), .level = Level::framework, .device = device, .parent = driver});
  if (const Settings settings = settings_of_environment(*writer_); !settings.entries.empty())
    events_.push_back({.kind = EventKind::settings,
                       .origin = writer_->intern(Origin{.heap = found->second}),
                       .value = index(writer_->intern(settings))});
  return found->second;
}

const std::vector<Event>& TorchHeaps::events(const Record& record, ThreadId thread, HeapId driver, const Pool& pool) {
  events_.clear();
  const HeapId heap = heap_of(record.device, driver);
  Event event{.kind = kind_of(record.kind),
              .origin = writer_->intern(Origin{.heap = heap,
                                               .pool = writer_->intern(pool),
                                               .stream = writer_->intern(Stream{.handle = record.stream}),
                                               .thread = thread}),
              .size = {record.size}};
  if (event.kind == EventKind::alloc_failed)
    event.value = record.address;
  else
    event.address = {record.address};
  events_.push_back(event);
  if (record.kind == RecordKind::free) {
    event.kind = EventKind::free_completed;
    events_.push_back(event);
  }
  return events_;
}

}  // namespace memreel::agent
