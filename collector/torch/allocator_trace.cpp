// SPDX-License-Identifier: Apache-2.0
#include "collector/torch/allocator_trace.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <functional>
#include <span>

#include "collector/stacks/module_table.h"
#include "collector/torch/diverted_calls.h"
#include "collector/torch/reporters.h"
#include "formats/torch/alloc_conf.h"

namespace memreel::torch {
namespace {

using agent::Record;
using agent::Recorder;
using agent::RecordKind;

/// The part of c10::cuda::CUDACachingAllocator::TraceEntry (c10::CachingDeviceAllocator since PyTorch 2.9) that is
/// identical from 2.2 to 2.15: c10/cuda/CUDACachingAllocator.h, c10/core/CachingDeviceAllocator.h. In 2.2 `device` is
/// an int, of which this is the lowest byte.
struct Entry {
  std::uint32_t action;
  std::int8_t device;
  std::uint64_t address;  // for a failure: the device's free memory
  std::array<void*, 2> context;
  std::uint64_t stream;
  std::uint64_t size;  // bytes; for allocations as requested
  // Since 2.8 two of them are the pool (MempoolId_t). Then the time: trace_time_, the processor's counter
  // (c10/util/ApproximateClock.h).
  std::array<std::uint64_t, 3> others;
};
static_assert(offsetof(Entry, address) == 8 && offsetof(Entry, stream) == 32 && offsetof(Entry, others) == 48);

enum class Action : std::uint32_t {
  alloc = 0,
  free_requested = 1,
  free_completed = 2,
  segment_alloc = 3,
  segment_free = 4,
  segment_map = 5,
  segment_unmap = 6,
  snapshot = 7,
  out_of_memory = 8,
};

using Tracker = std::function<void(const Entry&)>;
/// A member function of the allocator: `self` is its `this`.
using Attach = void(void* self, Tracker tracker);

constexpr const char* allocator_symbol = "_ZN3c104cuda20CUDACachingAllocator9allocatorE";
constexpr std::string_view table_symbol = "_ZTVN3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocatorE";
constexpr std::string_view attach_symbol =
    "_ZN3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocator27attachAllocatorTraceTrackerESt8function";
// Since 2.3 its device is a signed char (`EPPvamP11CUstream_st`), in 2.2 an int (`EPPvimP11CUstream_st`).
constexpr std::string_view malloc_symbol =
    "_ZN3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocator6mallocEPPv";
constexpr std::string_view record_symbol =
    "_ZN3c104cuda20CUDACachingAllocator6Native22DeviceCachingAllocator12record_traceE";
constexpr std::string_view pool_parameter = "St4pairIyyE";

/// The relevant addresses in PyTorch.
struct Allocator {
  void* const volatile* variable = nullptr;  // points to the allocator in use
  const void* initial = nullptr;             // the one in use when it was found
  std::uintptr_t table = 0;                  // the vtable at the start of an object of the class
  Attach* attach = nullptr;
  stacks::AddressRange malloc;  // its code
  bool tells_pool = false;
  bool was_replaced = false;  // ... and it was not PyTorch's
};

enum class State : std::uint8_t { unknown, found, following, refused };

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): PyTorch calls back without saying for whom
Allocator allocator;  // constant once `state` is not unknown
std::atomic<State> state = State::unknown;
std::atomic<std::uint32_t> recording = 1;  // changes with each recording

constexpr std::size_t most_devices = 64;
/// Per device, changed with the allocator's lock for it held.
struct Device {
  bool followed = false;        // its trace has reported something
  std::uint32_t recording = 0;  // the one that `sum` is of
  Checksum sum;
  std::atomic<std::uint64_t> entries = 0;
};
std::array<Device, most_devices> devices;

/// The recorder with the clock that PyTorch reads. Null: unknown.
std::atomic<const Recorder*> timed = nullptr;

/// Whether an allocation's trace entry has ever agreed with its report.
std::atomic<bool> agreed = false;

#if defined(__aarch64__)
constexpr std::size_t line_size = 16;  // the C library refuses to load a library whose initial-exec data needs more
#else
constexpr std::size_t line_size = 64;
#endif

/// What the allocator's trace has reported on this thread and no report has confirmed yet. Kind none: nothing.
struct Underway {
  alignas(line_size) Record alloc;  // one cache line each
  alignas(line_size) Record freed;
  std::uint32_t recording = 0;  // the one that they are of
};
// Initial-exec: no allocation at a thread's first access.
[[gnu::tls_model("initial-exec")]] constinit thread_local Underway underway{};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

bool follows() { return state.load(std::memory_order_acquire) == State::following; }

void refuse() { state.store(State::refused, std::memory_order_release); }

bool is_device(std::int8_t device) { return device >= 0 && static_cast<std::size_t>(device) < most_devices; }

/// Whether the entry is plausible.
bool is_plausible(const Entry& entry) {
  constexpr std::uint32_t most_actions = 16;
  if (entry.action >= most_actions || !is_device(entry.device)) return false;
  return entry.action > static_cast<std::uint32_t>(Action::segment_unmap) || (entry.address != 0 && entry.size != 0);
}

/// PyTorch's counter value for this entry, as reading the counter takes longer than everything else for a record; 0 if
/// it is not the recorder's.
std::int64_t time_of(const Entry& entry, const Recorder& recorder) {
  const std::uint64_t ticks = allocator.tells_pool ? entry.others[2] : entry.others[0];
  if (timed.load(std::memory_order_relaxed) != &recorder) {
    if (!recorder.clock().can_be_recent(ticks)) return 0;
    timed.store(&recorder, std::memory_order_relaxed);
  }
  return static_cast<std::int64_t>(ticks);
}

/// Fills in `record` from an entry, in place: a copy would stall until its parts are written.
void take(Record& record, Recorder& recorder, const Entry& entry, RecordKind kind) {
  record.kind = kind;
  record.space = agent::Space::torch_traced;
  record.address = entry.address;
  record.size = entry.size;
  record.stream = entry.stream;
  record.device = std::int16_t{entry.device};
  record.object = allocator.tells_pool ? recorder.number_of_pool({entry.others[0], entry.others[1]}) : 0;
  record.time = time_of(entry, recorder);
}

Record record_of(Recorder& recorder, const Entry& entry, RecordKind kind) {
  Record record;
  take(record, recorder, entry, kind);
  return record;
}

/// A free that was not completed at once: the device may still be using the memory.
void end_free(Recorder& recorder) {
  if (underway.freed.kind == RecordKind::none) return;
  recorder.emit_with_stack(underway.freed);
  underway.freed.kind = RecordKind::none;
}

/// Called by PyTorch with its lock for the device held.
[[gnu::hot]] void on_entry(const Entry& entry) noexcept {
  Recorder* const recorder = agent::recorder();
  if (recorder == nullptr || !follows()) return;
  if (!is_plausible(entry)) return refuse();
  Device& own = devices[static_cast<std::uint8_t>(entry.device)];
  own.followed = true;
  if (const std::uint32_t now = recording.load(std::memory_order_relaxed); underway.recording != now) [[unlikely]] {
    underway.alloc.kind = underway.freed.kind = RecordKind::none;
    underway.recording = now;
  }
  const auto action = static_cast<Action>(entry.action);
  if (action == Action::snapshot) return;  // itself an entry
  own.entries.store(own.entries.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  if (action == Action::free_completed) {
    Record& freed = underway.freed;
    if (freed.kind == RecordKind::none || freed.address != entry.address) {
      recorder->emit(record_of(*recorder, entry, RecordKind::free_completed));
      return;
    }
    freed.kind = RecordKind::free;
    return end_free(*recorder);
  }
  end_free(*recorder);
  const auto emit = [&](RecordKind kind) { recorder->emit_with_stack(record_of(*recorder, entry, kind)); };
  switch (action) {
    case Action::alloc:
      return take(underway.alloc, *recorder, entry, RecordKind::alloc);
    case Action::free_requested:
      return take(underway.freed, *recorder, entry, RecordKind::free_requested);
    case Action::segment_alloc:
      return emit(RecordKind::segment_added);
    case Action::segment_free:
      return emit(RecordKind::segment_removed);
    case Action::segment_map:
      return emit(RecordKind::mapped);
    case Action::segment_unmap:
      return emit(RecordKind::unmapped);
    case Action::out_of_memory:
      return emit(RecordKind::alloc_failed);
    default:
      return;  // not about memory
  }
}

/// Whether an allocator is the caching one, whose objects begin with the vtable `table`.
bool is_native(const void* object, std::uintptr_t table) {
  return object != nullptr && *static_cast<const std::uintptr_t*>(object) == table;
}

/// From this call on: the allocator is initialised, and this thread is not iterating over its trackers. Its locks are
/// recursive.
void follow() noexcept {
  State expected = State::found;
  if (!state.compare_exchange_strong(expected, State::following)) return;
  void* const self = *allocator.variable;
  if (!is_native(self, allocator.table)) return refuse();
  allocator.attach(self, on_entry);
}

/// Whether PyTorch was configured to map its first memory into a range of addresses.
bool begins_expandable() {
  for (const char* const variable : conf_variables)
    if (const char* const value = std::getenv(variable))  // NOLINT(concurrency-mt-unsafe): reads only
      return value_in(value, "expandable_segments") == "True";
  return false;
}

/// What the report alone says about a block.
Record reported(std::uint64_t address, std::uint64_t block, std::int8_t device) {
  Record record;
  record.space = agent::Space::torch_traced;
  record.address = address;
  record.size = block;
  record.device = std::int16_t{device};
  record.stream = current_stream(device);
  return record;
}

}  // namespace

void look_for_allocator() {
  if (state.load(std::memory_order_relaxed) != State::unknown) return;
  void* const library = dlopen("libc10_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  link_map* loaded = nullptr;
  if (library == nullptr || dlinfo(library, RTLD_DI_LINKMAP, &loaded) != 0) return;
  Allocator found{.variable = static_cast<void* const volatile*>(dlsym(library, allocator_symbol))};
  bool is_known = false;
  // The vtable's functions start after the offset to top and the type information.
  constexpr std::size_t before_functions = 2 * sizeof(void*);
  for (const LocalSymbol& symbol :
       local_symbols(*loaded, {table_symbol, attach_symbol, malloc_symbol, record_symbol})) {
    const std::string_view name = symbol.name;
    if (name.ends_with(".cold")) continue;  // the cold part of a function
    if (name == table_symbol) found.table = symbol.address + before_functions;
    if (name.starts_with(attach_symbol)) found.attach = std::bit_cast<Attach*>(symbol.address);
    if (name.starts_with(malloc_symbol)) found.malloc = {symbol.address, symbol.address + symbol.size};
    if (!name.starts_with(record_symbol)) continue;
    is_known = true;
    found.tells_pool = name.find(pool_parameter) != std::string_view::npos;
  }
  is_known = is_known && found.variable != nullptr && found.table != 0 && found.attach != nullptr;
  if (found.variable != nullptr && found.table != 0) {
    found.initial = *found.variable;
    found.was_replaced = found.initial != nullptr && !is_native(found.initial, found.table);
  }
  allocator = found;
  state.store(is_known ? State::found : State::refused, std::memory_order_release);
}

bool follow_trace() {
  if (!follows()) follow();
  return follows();
}

std::uint64_t trace_entries() {
  std::uint64_t sum = 0;
  for (const Device& device : devices) sum += device.entries.load(std::memory_order_acquire);
  return sum;
}

bool trace_states_pools() { return allocator.tells_pool; }

void forget_recording() { recording.fetch_add(1, std::memory_order_relaxed); }

bool is_replaced() noexcept {
  if (state.load(std::memory_order_acquire) == State::unknown) return false;
  if (allocator.variable == nullptr || allocator.initial == nullptr) return false;
  // During program exit its destructors run: an object's vtable is meaningless then.
  return *allocator.variable != allocator.initial || allocator.was_replaced;
}

void follow_from_driver_call(Recorder& recorder) noexcept {
  if (state.load(std::memory_order_acquire) != State::found) return;
  for (stacks::StackKey key = recorder.capture_stack(); key != stacks::StackKey::none;) {
    const stacks::StackTree::Node node = recorder.stacks()[key];
    if (!node.frame.is_python() && allocator.malloc.contains(node.frame.code_address())) {
      return follow();
    }
    key = node.caller;
  }
}

[[gnu::hot]] bool take_report(Recorder& recorder, std::uint64_t address, std::int64_t change, std::uint64_t allocated,
                              std::uint64_t reserved, std::int8_t device) noexcept {
  if (!is_device(device)) return false;
  if (!follows()) {
    follow();
    if (!follows()) return false;
  }
  Device& own = devices[static_cast<std::uint8_t>(device)];
  const std::uint32_t now = recording.load(std::memory_order_relaxed);
  if (std::exchange(own.recording, now) != now) own.sum = {};
  if (!own.sum.agrees(change, allocated)) recorder.emit({.kind = RecordKind::hook_lost});

  if (change < 0) {
    if (own.followed) {
      end_free(recorder);
      return true;
    }
    Record record = reported(address, static_cast<std::uint64_t>(-change), device);
    record.kind = RecordKind::free;
    recorder.emit_with_stack(record);
    return true;
  }
  const auto block = static_cast<std::uint64_t>(change);
  Record& told = underway.alloc;
  const bool agrees = told.kind == RecordKind::alloc && told.address == address && told.size <= block;
  if (agrees) {
    agreed.store(true, std::memory_order_relaxed);
  } else if (told.kind == RecordKind::alloc && !agreed.load(std::memory_order_relaxed)) {
    told.kind = RecordKind::none;
    refuse();
    return false;
  } else {
    told = reported(address, block, device);
    if (!own.followed && allocated == block) {
      // The first allocation on the device: its segment, too, was obtained before the trace was followed. This happens
      // when one thread starts on this device while another thread starts on another device.
      Record segment = told;
      segment.kind = begins_expandable() ? RecordKind::mapped : RecordKind::segment_added;
      segment.size = reserved;
      recorder.emit_with_stack(segment);
    }
    told.kind = RecordKind::alloc;
  }
  const AutogradPosition place = autograd_position();
  told.object |= std::uint64_t{place.sequence} << 32U;
  told.status = place.backward ? 1 : 0;
  recorder.emit_with_stack(told);
  told.kind = RecordKind::none;
  return true;
}

bool takes_failures() noexcept { return follows(); }

}  // namespace memreel::torch
