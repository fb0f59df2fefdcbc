// SPDX-License-Identifier: Apache-2.0
#include "collector/nvtx/names.h"

#include <atomic>
#include <bit>
#include <cstddef>
#include <new>
#include <span>

#include "collector/annotate/annotations.h"
#include "collector/recorder/recorder.h"

namespace memreel::nvtx {
namespace {

using agent::Record;
using agent::Recorder;
using agent::RecordKind;

/// The target of a heap's handle. Never freed: programs have few, and may use a handle after unregistering it.
struct Heap {
  std::uint64_t pool = 0;
  std::uint64_t name = 0;
  std::int16_t device = 0;
  Range range{};
  Heap* before = nullptr;
};

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): NVTX's functions have no other context
std::atomic<int (*)()> current_device = nullptr;
std::atomic<Heap*> latest = nullptr;
/// For regions registered in no heap.
std::atomic<Heap*> process_wide = nullptr;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

constexpr std::uint64_t any_pool = 0;

Record record_of(RecordKind kind, std::uint64_t pool) {
  Record record;
  record.kind = kind;
  record.space = agent::Space::own;
  record.object = pool;
  return record;
}

void emit(Record record, const Range& range) {
  Recorder* const recorder = agent::recorder_for_annotations();
  if (recorder == nullptr || range.address == nullptr) return;
  record.address = std::bit_cast<std::uint64_t>(range.address);
  record.size = range.size;
  recorder->emit_with_stack(record);
}

void announce(const Heap& heap) {
  Recorder* const recorder = agent::recorder_for_annotations();
  if (recorder == nullptr) return;
  Record record = record_of(RecordKind::own_pool_made, heap.pool);
  record.address = heap.name;
  record.device = heap.device;
  recorder->emit(record);
  if (heap.range.size > 0) emit(record_of(RecordKind::segment_added, heap.pool), heap.range);
}

void forget(const Heap& heap) {
  if (Recorder* const recorder = agent::recorder_for_annotations())
    recorder->emit(record_of(RecordKind::own_pool_gone, heap.pool));
}

Heap* new_heap(std::uint64_t name, const Range& range) {
  int (*const device)() = current_device.load(std::memory_order_relaxed);
  auto* const heap = new (std::nothrow) Heap{.pool = annotate::next_pool(),  // NOLINT(cppcoreguidelines-owning-memory)
                                             .name = name,
                                             .device = static_cast<std::int16_t>(device != nullptr ? device() : -1),
                                             .range = range};
  if (heap == nullptr) return nullptr;
  heap->before = latest.load(std::memory_order_relaxed);
  while (!latest.compare_exchange_weak(heap->before, heap)) {
  }
  announce(*heap);
  return heap;
}

Heap* heap_of_process() {
  Heap* there = process_wide.load(std::memory_order_acquire);
  if (there != nullptr) return there;
  Heap* const made = new_heap(number_of("NVTX"), {});
  // Two threads may race: the loser's heap has a name and is empty.
  return process_wide.compare_exchange_strong(there, made) ? made : there;
}

/// Calls `act` for each element of an array whose element type may have grown since.
template <class Element, class Act>
void for_each(const void* elements, std::size_t count, std::size_t size, Act act) {
  if (elements == nullptr || size < sizeof(Element)) return;
  const auto* at = static_cast<const std::byte*>(elements);
  for (std::size_t i = 0; i < count; ++i, at += size) act(*static_cast<const Element*>(static_cast<const void*>(at)));
}

Heap* heap_register(const void* /*domain*/, const HeapDescription* description) {
  if (description == nullptr || description->struct_size < sizeof(HeapDescription)) return nullptr;
  Range range{};
  if (description->type == memory_virtual_address && description->detail != nullptr &&
      description->detail_size >= sizeof(Range))
    range = *static_cast<const Range*>(description->detail);
  std::uint64_t name = number_of(description->message_type, description->message);
  if (name == 0) name = number_of("NVTX heap");
  return new_heap(name, range);
}

void heap_unregister(const void* /*domain*/, const Heap* heap) {
  if (heap != nullptr) forget(*heap);
}

/// Ends everything in the heap.
void heap_reset(const void* /*domain*/, const Heap* heap) {
  if (heap == nullptr) heap = process_wide.load(std::memory_order_acquire);
  if (heap == nullptr) return;
  forget(*heap);
  announce(*heap);
}

void regions_register(const void* /*domain*/, const RegionsRegistered* batch) {
  if (batch == nullptr || batch->struct_size < sizeof(RegionsRegistered) || batch->type != memory_virtual_address)
    return;
  const Heap* const heap = batch->heap != nullptr ? static_cast<const Heap*>(batch->heap) : heap_of_process();
  if (heap == nullptr) return;
  std::size_t i = 0;
  for_each<Range>(batch->elements, batch->count, batch->element_size, [&](const Range& range) {
    emit(record_of(RecordKind::alloc, heap->pool), range);
    // A region is identified by its address, however it is referred to later.
    if (batch->handles != nullptr) batch->handles[i] = range.address;
    ++i;
  });
}

void regions_resize(const void* /*domain*/, const RegionsResized* batch) {
  if (batch == nullptr || batch->struct_size < sizeof(RegionsResized) || batch->type != memory_virtual_address) return;
  for_each<Range>(batch->elements, batch->count, batch->element_size,
                  [](const Range& range) { emit(record_of(RecordKind::resized, any_pool), range); });
}

void regions_unregister(const void* /*domain*/, const RegionsUnregistered* batch) {
  if (batch == nullptr || batch->struct_size < sizeof(RegionsUnregistered)) return;
  for_each<const void*>(batch->elements, batch->count, batch->element_size, [](const void* region) {
    emit(record_of(RecordKind::free, any_pool), {.size = 0, .address = region});
  });
}

}  // namespace

bool take_over_memory(const ExtensionInfo& info, int (*device)()) {
  if (info.module != extension_memory) return false;
  current_device.store(device, std::memory_order_relaxed);
  const ExtensionSlots slots(info);
  slots.replace(Memory::heap_register, heap_register);
  slots.replace(Memory::heap_unregister, heap_unregister);
  slots.replace(Memory::heap_reset, heap_reset);
  slots.replace(Memory::regions_register, regions_register);
  slots.replace(Memory::regions_resize, regions_resize);
  slots.replace(Memory::regions_unregister, regions_unregister);
  return true;
}

}  // namespace memreel::nvtx
