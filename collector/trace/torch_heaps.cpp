#include "collector/trace/torch_heaps.h"

#include <array>
#include <cstdlib>
#include <cstring>

#include "formats/torch/alloc_conf.h"

namespace memreel::agent {
namespace {

/// The key of a PyTorch pool: see Space::torch_traced.
Pool pool_of(std::span<const std::byte> name) {
  std::array<std::uint64_t, 2> key{};
  if (name.size() == sizeof key) std::memcpy(key.data(), name.data(), sizeof key);
  return {.key_high = key[0], .key_low = key[1]};
}

/// The allocator's settings at program start. Later changes by the program are not seen.
Settings settings_of_environment(TraceOutput& writer) {
  Settings settings;
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

const std::vector<Event>& TorchHeaps::events(const Record& record, ThreadId thread, HeapId driver,
                                             std::span<const std::byte> pool) {
  events_.clear();
  const HeapId heap = heap_of(record.device, driver);
  Event event{.kind = kind_of(record.kind),
              .origin = writer_->intern(Origin{.heap = heap,
                                               .pool = writer_->intern(pool_of(pool)),
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
