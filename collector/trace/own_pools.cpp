#include "collector/trace/own_pools.h"

#include <algorithm>

#include "formats/model/limits.h"

namespace memreel::agent {

OwnPools::Pool& OwnPools::make(std::uint64_t number, std::uint64_t parent, std::int16_t device, HeapId driver,
                               std::string_view name) {
  const auto outer = pools_.find(parent);
  // Pools with the same name are still distinct: the number distinguishes them.
  const Tables& tables = writer_->tables();
  const bool taken = std::ranges::any_of(pools_, [&](const auto& other) {
    const Heap& heap = tables[other.second.heap];
    return heap.device == device && tables[heap.name] == name;
  });
  // A trace has a limited number of heaps: programs that make a pool for each request share the last one.
  constexpr std::size_t others = 64;  // for those of drivers and frameworks
  const bool full = tables.heaps.size() + others >= max_heaps;
  const std::string text = full           ? "other pools"
                           : name.empty() ? "pool " + std::to_string(number)
                           : taken        ? std::string(name) + " " + std::to_string(number)
                                          : std::string(name);
  Pool& pool = pools_[number];
  pool = {};
  pool.heap = writer_->intern(Heap{.name = writer_->intern(text),
                                   .level = Level::framework,
                                   .device = device,
                                   .parent = outer != pools_.end() && !full ? outer->second.heap : driver});
  return pool;
}

OwnPools::Pools::iterator OwnPools::pool_at(std::uint64_t address) {
  return std::ranges::find_if(pools_, [&](const auto& pool) { return pool.second.live.contains(address); });
}

void OwnPools::end_allocation(Pool& pool, std::uint64_t address) {
  if (pool.live.erase(address) != 0) pool.requested.insert(address);
  step(pool, {.kind = EventKind::free_requested, .address = {address}});
}

void OwnPools::complete(Pool& pool, std::uint64_t address) {
  pool.requested.erase(address);
  step(pool, {.kind = EventKind::free_completed, .address = {address}});
}

const std::vector<OwnPools::Step>& OwnPools::steps(const Record& record, HeapId driver, std::string_view name) {
  steps_.clear();
  if (record.kind == RecordKind::own_pool_made) {
    make(record.object, record.stream, record.device, driver, name);
    return steps_;
  }
  const auto known = record.object != 0 ? pools_.find(record.object) : pool_at(record.address);
  if (record.object == 0 && known == pools_.end()) return steps_;
  // A pool created before the recording began: only its number is known.
  Pool& pool = known != pools_.end() ? known->second : make(record.object, 0, record.device, driver, "");

  switch (record.kind) {
    case RecordKind::own_pool_gone:
      while (!pool.live.empty()) end_allocation(pool, *pool.live.begin());
      while (!pool.requested.empty()) complete(pool, *pool.requested.begin());
      for (const auto& [address, size] : pool.segments)
        step(pool, {.kind = EventKind::segment_free, .address = {address}, .size = {size}});
      pools_.erase(record.object);
      break;
    case RecordKind::alloc:
      if (pool.live.contains(record.address)) end_allocation(pool, record.address);
      if (pool.requested.contains(record.address)) complete(pool, record.address);
      pool.live.insert(record.address);
      step(pool, {.kind = EventKind::alloc, .address = {record.address}, .size = {record.size}});
      break;
    case RecordKind::resized:
      end_allocation(pool, record.address);
      complete(pool, record.address);
      pool.live.insert(record.address);
      step(pool, {.kind = EventKind::alloc, .address = {record.address}, .size = {record.size}});
      break;
    case RecordKind::free:
      end_allocation(pool, record.address);
      complete(pool, record.address);
      break;
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

}  // namespace memreel::agent
