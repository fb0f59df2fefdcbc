// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <new>

#include "collector/annotate/annotations.h"
#include "collector/nvtx/nvtx.h"
#include "collector/recorder/recorder.h"
#include "formats/model/quantity.h"
#include "formats/model/tables.h"

namespace memreel::nvtx {
namespace {

/// Maximum length of a name, in bytes.
constexpr std::size_t longest = 256;

/// The static schemas whose payloads begin with a communicator, a bit each. Other libraries may use the same numbers:
/// only ranges with names of NCCL's functions are looked up here.
std::atomic<std::uint64_t> with_communicators = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

/// What NCCL calls the entry (src/include/nvtx_payload_schemas.h).
constexpr std::string_view entry_of_nccl = "NCCL communicator ID";

std::uint64_t bit_of(std::uint64_t schema) {
  return schema >= first_static_schema && schema < first_static_schema + 64
             ? std::uint64_t{1} << (schema - first_static_schema)
             : 0;
}

/// 0: none of them names one.
std::uint64_t communicator_in(std::span<const Payload> payloads) {
  for (const Payload& payload : payloads) {
    std::uint64_t communicator = 0;
    if ((with_communicators.load(std::memory_order_relaxed) & bit_of(payload.schema)) == 0) continue;
    if (payload.data == nullptr || payload.size < sizeof communicator) continue;
    std::memcpy(&communicator, payload.data, sizeof communicator);
    return communicator;
  }
  return 0;
}

/// `name`, or its copy in `room`.
std::string_view text_of(const char* name, std::array<char, longest>& /*room*/) { return name; }

std::string_view text_of(const wchar_t* name, std::array<char, longest>& room) {
  std::size_t size = 0;
  for (; size < room.size() && name[size] != L'\0'; ++size)
    room[size] = name[size] > 0 && name[size] < 128 ? static_cast<char>(name[size]) : '?';
  return {room.data(), size};
}

/// Whether or not anything is recorded.
std::uint64_t interned(std::string_view name) {
  const std::uint32_t number = agent::Recorder::names().number_of({std::as_bytes(std::span(name.substr(0, longest)))});
  return number != 0 ? number : lost_name;
}

}  // namespace

std::uint64_t number_of(std::string_view name) {
  return agent::recorder_for_annotations() == nullptr ? 0 : interned(name);
}

std::uint64_t number_of(const char* name) { return name == nullptr ? 0 : number_of(std::string_view(name)); }

std::uint64_t number_of(const wchar_t* name) {
  std::array<char, longest> room{};
  return name == nullptr ? 0 : number_of(text_of(name, room));
}

std::uint64_t number_of(std::int64_t type, const Message& message) {
  switch (type) {
    case message_ascii:
      return number_of(message.ascii);
    case message_wide:
      return number_of(message.wide);
    case message_registered:
      return std::min(std::bit_cast<std::uint64_t>(message.registered), lost_name);
    default:
      return 0;
  }
}

std::uint64_t number_of(const Attributes* attributes) {
  // Versions only ever append fields; the oldest one with a message has all of these.
  if (attributes == nullptr || attributes->size < sizeof(Attributes)) return 0;
  const std::uint64_t name = number_of(attributes->message_type, attributes->message);
  if (attributes->payload_type != payload_extended || attributes->reserved <= 0) return name;
  return with_communicator(
      name, {std::bit_cast<const Payload*>(attributes->payload), static_cast<std::size_t>(attributes->reserved)});
}

std::uint64_t with_communicator(std::uint64_t name, std::span<const Payload> payloads) {
  const std::uint64_t communicator = communicator_in(payloads);
  if (communicator == 0 || name == 0 || agent::recorder_for_annotations() == nullptr) return name;
  const std::span<const std::byte> text = agent::Recorder::names()[static_cast<std::uint32_t>(name)];
  constexpr std::string_view prefix = "nccl";
  if (text.size() < prefix.size() || std::memcmp(text.data(), prefix.data(), prefix.size()) != 0) return name;
  std::array<char, 16> digits{};
  for (std::size_t i = 0; i < digits.size(); ++i) digits[i] = hex_digit(communicator >> (60 - 4 * i));
  const std::uint32_t full = agent::Recorder::names().number_of(
      {text, std::as_bytes(std::span(nccl_communicator)), std::as_bytes(std::span(digits))});
  return full != 0 ? full : name;
}

std::uint64_t register_schema(const void* /*domain*/, const Schema* schema) {
  static std::atomic<std::uint64_t> next = first_dynamic_schema;
  if (schema == nullptr || (schema->fields & schema_has_id) == 0) return next.fetch_add(1, std::memory_order_relaxed);
  if (schema->entries != nullptr && schema->entry_count > 0 && schema->entries[0].name != nullptr &&
      schema->entries[0].name == entry_of_nccl)
    with_communicators.fetch_or(bit_of(schema->id), std::memory_order_relaxed);
  return schema->id;
}

// NVTX's marks and ranges become marks in the trace. At its first call, a program's copy of NVTX loads the library
// named in NVTX_INJECTION64_PATH, and its functions are replaced by those below.

namespace {

using agent::Recorder;

void record(std::uint64_t name, MarkPhase phase) {
  Recorder* const recorder = agent::recorder_for_annotations();
  if (recorder == nullptr || name == 0) return;
  agent::Record record;
  record.kind = agent::RecordKind::mark;
  record.object = name;
  record.status = static_cast<std::uint16_t>(phase);
  recorder->emit(record);
}

/// The ranges that a thread has pushed, by name. Deeper ones are counted but not recorded.
struct Pushed {
  static constexpr int deepest = 128;
  std::array<std::uint64_t, deepest> names;
  int depth;
};
// Initial-exec: no allocation at a thread's first access.
[[gnu::tls_model("initial-exec")]] constinit thread_local Pushed pushed{};  // NOLINT

template <class Name>
void mark(Name name) {
  record(number_of(name), MarkPhase::instant);
}

/// A range's number includes that of its name.
std::uint64_t start_named(std::uint64_t name) {
  static std::atomic<std::uint64_t> ranges = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
  record(name, MarkPhase::begin);
  return ranges.fetch_add(1, std::memory_order_relaxed) << 32U | name;
}

template <class Name>
std::uint64_t start(Name name) {
  return start_named(number_of(name));
}

void end(std::uint64_t range) { record(range & 0xFFFF'FFFF, MarkPhase::end); }

/// Like NVTX, returns the depth of the range: 0 for the first.
int push_named(std::uint64_t name) {
  const int depth = pushed.depth++;
  if (depth < Pushed::deepest) {
    pushed.names[static_cast<std::size_t>(depth)] = name;
    record(name, MarkPhase::begin);
  }
  return depth;
}

template <class Name>
int push(Name name) {
  return push_named(pushed.depth < Pushed::deepest ? number_of(name) : 0);
}

int pop() {
  if (pushed.depth == 0) return -1;
  const int depth = --pushed.depth;
  if (depth < Pushed::deepest) record(pushed.names[static_cast<std::size_t>(depth)], MarkPhase::end);
  return depth;
}

// Domains separate different libraries' ranges. In a trace they are all marks.
void mark_in(const void* /*domain*/, const Attributes* name) { mark(name); }
std::uint64_t start_in(const void* /*domain*/, const Attributes* name) { return start(name); }
void end_in(const void* /*domain*/, std::uint64_t range) { end(range); }
int push_in(const void* /*domain*/, const Attributes* name) { return push(name); }
int pop_in(const void* /*domain*/) { return pop(); }

// Ranges that have only a payload have no name; they are not recorded, but count.
std::uint64_t start_with(const void* /*domain*/, const Payload* /*payloads*/, std::size_t /*count*/) {
  return start_named(0);
}
void end_with(const void* /*domain*/, std::uint64_t range, const Payload* /*payloads*/, std::size_t /*count*/) {
  end(range);
}
int push_with(const void* /*domain*/, const Payload* /*payloads*/, std::size_t /*count*/) { return push_named(0); }

/// A call of NCCL that makes a communicator says so only at its end: an instant within the range.
int pop_with(const void* /*domain*/, const Payload* payloads, std::size_t count) {
  if (pushed.depth > 0 && pushed.depth <= Pushed::deepest && payloads != nullptr) {
    const std::uint64_t name = pushed.names[static_cast<std::size_t>(pushed.depth - 1)];
    const std::uint64_t full = with_communicator(name, {payloads, count});
    if (full != name) record(full, MarkPhase::instant);
  }
  return pop();
}

/// A registered string is its number, which need not be an address. Programs register once, and use it in recordings
/// that begin later.
template <class Name>
const void* register_string(const void* /*domain*/, Name name) {
  std::array<char, longest> room{};
  return name == nullptr ? nullptr : std::bit_cast<const void*>(interned(text_of(name, room)));
}

/// Replaces the functions of one module of a copy of NVTX.
class Module {
 public:
  Module(const Callbacks& callbacks, std::uint32_t module) {
    if (callbacks.module_functions(module, &functions_, &count_) == 0) count_ = 0;
  }

  template <class Number, class Ours>
  void replace(Number number, Ours* ours) const {
    const auto i = static_cast<std::uint32_t>(number);
    if (i < count_ && functions_[i] != nullptr) *functions_[i] = std::bit_cast<Function>(ours);
  }

 private:
  Function** functions_ = nullptr;
  unsigned count_ = 0;
};

}  // namespace

bool take_over(GetExportTable get_table) {
  const auto* const callbacks = static_cast<const Callbacks*>(get_table(callbacks_table));
  if (callbacks == nullptr || callbacks->size < sizeof(Callbacks)) return false;

  const Module core(*callbacks, module_core);
  core.replace(Core::mark_ex, &mark<const Attributes*>);
  core.replace(Core::mark_ascii, &mark<const char*>);
  core.replace(Core::mark_wide, &mark<const wchar_t*>);
  core.replace(Core::range_start_ex, &start<const Attributes*>);
  core.replace(Core::range_start_ascii, &start<const char*>);
  core.replace(Core::range_start_wide, &start<const wchar_t*>);
  core.replace(Core::range_end, &end);
  core.replace(Core::range_push_ex, &push<const Attributes*>);
  core.replace(Core::range_push_ascii, &push<const char*>);
  core.replace(Core::range_push_wide, &push<const wchar_t*>);
  core.replace(Core::range_pop, &pop);

  const Module core2(*callbacks, module_core2);
  core2.replace(Core2::mark_ex, &mark_in);
  core2.replace(Core2::range_start_ex, &start_in);
  core2.replace(Core2::range_end, &end_in);
  core2.replace(Core2::range_push_ex, &push_in);
  core2.replace(Core2::range_pop, &pop_in);
  core2.replace(Core2::register_string_ascii, &register_string<const char*>);
  core2.replace(Core2::register_string_wide, &register_string<const wchar_t*>);
  return true;
}

bool take_over_payloads(const ExtensionInfo& info) {
  if (info.module != extension_payload) return false;
  const ExtensionSlots slots(info);
  slots.replace(WithPayload::schema_register, register_schema);
  slots.replace(WithPayload::range_push, push_with);
  slots.replace(WithPayload::range_pop, pop_with);
  slots.replace(WithPayload::range_start, start_with);
  slots.replace(WithPayload::range_end, end_with);
  return true;
}

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
