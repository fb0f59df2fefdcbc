// SPDX-License-Identifier: Apache-2.0
#include "collector/trace/trace_builder.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <limits>

#include "formats/model/stack_text.h"
#include "formats/model/value_check.h"

namespace memreel::agent {
namespace {

/// What is freed with its context. Memory created with cuMemCreate or from a pool stays (cuda.h, cuCtxDestroy).
bool belongs_to_context(Space space) {
  switch (space) {
    case Space::linear:
    case Space::managed:
    case Space::array:
    case Space::pinned:
    case Space::registered:
      return true;
    default:
      return false;
  }
}

/// Its name inside its heap. "(estimated)": the driver does not report the sizes of arrays.
std::string_view pool_name(Space space) {
  switch (space) {
    case Space::managed:
      return "managed";
    case Space::array:
      return "array (estimated)";
    case Space::ordered:
      return "async";
    case Space::graph:
      return "graph";
    case Space::physical:
      return "physical";
    case Space::pinned:
      return "pinned";
    case Space::registered:
      return "registered";
    default:
      return "";
  }
}

/// Further threads have no name and number in the trace: some programs create new ones forever.
constexpr std::size_t most_threads = std::size_t{1} << 16U;
/// A thread's pending free is remembered until it is known to have succeeded, for this many threads.
constexpr std::size_t most_taken = 4096;

std::string name_of_thread(std::uint32_t thread) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/comm";
  std::array<char, 64> name{};
  if (std::FILE* const file = std::fopen(path.c_str(), "re")) {
    if (std::fgets(name.data(), name.size(), file) == nullptr) name[0] = '\0';
    std::fclose(file);
  }
  std::string text = name.data();
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

TraceBuilder::TraceBuilder(Recorder& recorder, TraceOutput& writer, stacks::AddressRange own_code,
                           DumpTriggers* triggers, bool asks_torch)
    : writer_(&writer),
      triggers_(triggers),
      recorder_(&recorder),
      stacks_(recorder, writer, own_code),
      own_pools_(writer),
      torch_heaps_(writer),
      torch_start_(asks_torch),
      forward_stacks_(writer) {}

void TraceBuilder::add(std::span<const Record> records) {
  stacks_.refresh();
  if (taken_.size() > most_taken) taken_.clear();
  // Frees that failed within these records are dropped. give_back() handles those of earlier records.
  std::unordered_set<std::uint64_t> failed;
  for (const Record& record : records)
    if (record.kind == RecordKind::free_cancelled) failed.insert(record.object);
  const std::uint64_t first = records.empty() ? 0 : records.front().sequence;
  for (const Record& record : records) {
    if (record.kind == RecordKind::free_cancelled) {
      if (record.object < first) give_back(record);
    } else if (failed.empty() || !failed.contains(record.sequence)) {
      add_one(record);
    }
  }
}

void TraceBuilder::add_one(const Record& record) {
  if (record.space == Space::own) return own(record);
  if (record.space == Space::torch_traced) return torch_traced(record);
  if (record.space == Space::torch) check_sum(record);
  switch (record.kind) {
    case RecordKind::mark:
      return mark(record);
    case RecordKind::alloc:
      return record.space == Space::imported ? imported(record) : alloc(record);
    case RecordKind::free:
      return free(record);
    case RecordKind::alloc_failed:
      return alloc_failed(record);
    case RecordKind::addresses_reserved:
      return segment(EventKind::segment_alloc, record, "cuda.addresses", {.size = record.size, .device = -1});
    case RecordKind::addresses_released:
      taken_[record.thread] = {.record = record, .live = {}};
      return segment(EventKind::segment_free, record, "cuda.addresses", {.size = record.size, .device = -1});
    case RecordKind::handle_created:
      return handle_created(record);
    case RecordKind::handle_imported:
      imported_handles_[record.object] = record.device;
      return;
    case RecordKind::handle_retained:
      return physical_.retained(record.object, record.address);
    case RecordKind::handle_released:
      taken_[record.thread] = {.record = record, .live = {}};
      if (const auto gone = physical_.released(record.object)) end_piece(record, *gone);
      return;
    case RecordKind::mapped:
      return mapped(record);
    case RecordKind::unmapped:
      return unmapped(record);
    case RecordKind::pool_created:
      return pool_found(record);
    case RecordKind::pool_destroyed:
      std::erase_if(chosen_pools_, [&](const auto& chosen) { return chosen.second == record.object; });
      last_origin_ = OriginId::none;
      return;
    case RecordKind::pool_chosen:
      chosen_pools_[record.device] = record.object;
      last_origin_ = OriginId::none;
      return;
    case RecordKind::context_destroyed:
    case RecordKind::device_reset:
      return end_all(record);
    case RecordKind::graph_alloc:
    case RecordKind::graph_free:
      return graph_memory(record);
    case RecordKind::memory_info:
      return memory_info(record);
    case RecordKind::snapshot_begin:
      in_snapshot_ = true;
      touched_ = {};
      return torch_start_.attempt();
    case RecordKind::snapshot_taken:
      return torch_start_.taken();
    case RecordKind::snapshot_end:
      in_snapshot_ = false;
      touched_ = {};
      return end_snapshot(record);
    case RecordKind::snapshot_block:
      return held(record);
    case RecordKind::hook_lost:
      ++hook_lost_;
      return;
    default:
      return;
  }
}

TraceBuilder::Namespace TraceBuilder::namespace_of(Space space) {
  switch (space) {
    case Space::pinned:
    case Space::registered:
      return Namespace::host;
    case Space::array:
      return Namespace::handle;
    case Space::torch:
      return Namespace::torch;
    default:
      return Namespace::device;
  }
}

AllocationId TraceBuilder::append(const Record& record, Event event) {
  event.time = Nanoseconds(record.time);
  // A program may name its own pools' memory as it likes, but no reader takes what no device has.
  if (has_address(event.kind) && !is_possible(event.address, event.size)) {
    ++hook_lost_;
    return AllocationId::none;
  }
  if (event.stack == StackId::none) event.stack = stacks_.row(record.stack);
  ++events_;
  const AllocationId allocation = writer_->append(event);
  if (triggers_ != nullptr) triggers_->see(event, writer_->tables());
  if (event.kind == EventKind::alloc || is_free(event.kind) || is_segment(event.kind)) {
    const Tables& tables = writer_->tables();
    const HeapId heap = tables[event.origin].heap;
    recorder_->usage().follow(writer_->state_of(heap), tables[heap], tables[tables[heap].name]);
  }
  return allocation;
}

/// A pool's memory is on its own device, whatever stream and context the call had.
std::int16_t TraceBuilder::device_of(const Record& record) const {
  if (record.space != Space::ordered || record.object == 0) return record.device;
  const auto pool = pools_.find(record.object);
  return pool != pools_.end() ? pool->second.device : record.device;
}

void TraceBuilder::alloc(Record record) {
  record.device = device_of(record);
  const LiveKey key{record.address, namespace_of(record.space)};
  Live live{.record = record, .used = true};
  live.allocation = append(
      record,
      {.kind = EventKind::alloc, .origin = origin_of(record), .address = {record.address}, .size = {record.size}});
  keep(key, live);
  if (in_snapshot_) touched_.put(key, 0);
}

/// The handle may have been another pool's.
void TraceBuilder::pool_found(const Record& record) {
  pools_[record.object] = {.device = record.device, .managed = record.space == Space::managed};
  last_origin_ = OriginId::none;
}

StackId TraceBuilder::preexisting_stack() {
  const FrameId frame = writer_->intern(Frame{.function = writer_->intern(preexisting_frame)});
  return writer_->intern(Stack{.frame = frame});
}

/// Memory held before, unless it was seen to begin or end since.
void TraceBuilder::held(const Record& record) {
  const LiveKey key{record.address, namespace_of(record.space)};
  if (slots_.find(key) != absent || touched_.find(key) != absent) return;
  Live live{.record = record, .used = true};
  live.allocation = append(record, {.kind = EventKind::alloc,
                                    .origin = origin_of(record),
                                    .stack = preexisting_stack(),
                                    .address = {record.address},
                                    .size = {record.size}});
  keep(key, live);
  ++held_before_;
}

/// Returns its index in live_; a previous entry with this key is dropped: its free was not seen.
std::uint32_t TraceBuilder::keep(const LiveKey& key, const Live& live) {
  std::uint32_t slot = slots_.find(key);
  if (slot == absent) {
    if (empty_.empty()) {
      slot = static_cast<std::uint32_t>(live_.size());
      live_.emplace_back();
    } else {
      slot = empty_.back();
      empty_.pop_back();
    }
    slots_.put(key, slot);
  }
  live_[slot] = live;
  return slot;
}

void TraceBuilder::free(const Record& record) {
  const LiveKey key{record.address, namespace_of(record.space)};
  if (in_snapshot_) touched_.put(key, 0);
  const std::uint32_t slot = slots_.find(key);
  if (slot != absent) {
    taken_[record.thread] = {.record = record, .live = live_[slot]};
    return end(record, slot);
  }
  taken_[record.thread] = {.record = record, .live = {}};
  if (closed(record)) return;
  append(record, {.kind = EventKind::free_requested, .origin = origin_of(record), .address = {record.address}});
}

void TraceBuilder::end(const Record& because, std::uint32_t slot) {
  const Live live = std::exchange(live_[slot], {});
  slots_.erase({live.record.address, namespace_of(live.record.space)});
  empty_.push_back(slot);
  free_live(because, live);
}

void TraceBuilder::free_live(const Record& because, const Live& live) {
  // Freed in the heap it came from, whoever frees it.
  Record from = live.record;
  from.thread = because.thread;
  if (because.kind == RecordKind::free && because.space == Space::ordered) from.stream = because.stream;
  append(because, {.kind = EventKind::free_requested,
                   .origin = origin_of(from),
                   .allocation = live.allocation,
                   .address = {live.record.address}});
}

/// A call whose free was already written has failed: the memory is still allocated.
void TraceBuilder::give_back(const Record& cancelled) {
  const auto found = taken_.find(cancelled.thread);
  if (found == taken_.end() || found->second.record.sequence != cancelled.object) return;
  const Taken taken = std::move(found->second);
  taken_.erase(found);
  Record again = taken.record;
  again.time = cancelled.time;
  switch (taken.record.kind) {
    case RecordKind::free:
      if (!taken.live) return;
      again = taken.live->record;
      again.time = cancelled.time;
      return alloc(again);
    case RecordKind::addresses_released:
      return segment(EventKind::segment_alloc, again, "cuda.addresses", {.size = again.size, .device = -1});
    default:
      // The mapping, or the memory of the handle, is no longer known.
      ++hook_lost_;
  }
}

void TraceBuilder::alloc_failed(Record record) {
  constexpr std::uint16_t out_of_memory = 2;
  record.device = device_of(record);
  if (record.status == out_of_memory) {
    append(record, {.kind = EventKind::alloc_failed, .origin = origin_of(record), .size = {record.size}});
    return;
  }
  const MarkId mark = writer_->intern(
      Mark{.name = writer_->intern("CUDA error " + std::to_string(record.status) + " in an allocation")});
  append(record, {.kind = EventKind::mark, .origin = origin_of(record), .value = index(mark)});
}

void TraceBuilder::handle_created(const Record& record) {
  imported_handles_.erase(record.object);
  const auto number = physical_.created(record.object, record.size);
  Live live{.record = record, .used = true};
  // It has no address of its own, only mappings; its handle identifies it, and may be in use twice.
  live.record.address = record.object | std::uint64_t{physical_[number].namesakes} << 48U;
  live.allocation = append(
      record,
      {.kind = EventKind::alloc, .origin = origin_of(record), .address = {live.record.address}, .size = {record.size}});
  pieces_[number] = live;
}

void TraceBuilder::end_piece(const Record& because, cuda::PhysicalMemory::Number number) {
  const auto found = pieces_.find(number);
  if (found != pieces_.end()) {
    free_live(because, found->second);
    pieces_.erase(found);
  }
  physical_.forget(number);
}

void TraceBuilder::mapped(const Record& record) {
  const auto piece = physical_.mapped(record.address, record.size, record.object);
  const auto live = piece ? pieces_.find(*piece) : pieces_.end();
  Range range{.size = record.size, .device = live != pieces_.end() ? live->second.record.device : record.device};
  if (const auto import = imported_handles_.find(record.object); !piece && import != imported_handles_.end())
    range = {.size = record.size, .device = import->second, .imported = true};
  mappings_[record.address] = range;
  segment(EventKind::segment_map, record, range.imported ? "cuda.imported" : "cuda.mapped", range);
}

void TraceBuilder::unmapped(const Record& record) {
  taken_[record.thread] = {.record = record, .live = {}};
  Range range{.size = record.size, .device = record.device};
  auto mapping = mappings_.lower_bound(record.address);
  if (mapping != mappings_.end() && mapping->first == record.address) {
    range.device = mapping->second.device;
    range.imported = mapping->second.imported;
  }
  while (mapping != mappings_.end() && mapping->first - record.address < record.size)
    mapping = mappings_.erase(mapping);
  segment(EventKind::segment_unmap, record, range.imported ? "cuda.imported" : "cuda.mapped", range);
  for (const auto gone : physical_.unmapped(record.address, record.size)) end_piece(record, gone);
}

void TraceBuilder::end_all(const Record& because) {
  for (std::uint32_t slot = 0; slot < live_.size(); ++slot) {
    const Live& live = live_[slot];
    if (!live.used) continue;
    const bool with_context = because.kind == RecordKind::context_destroyed && live.record.context == because.context &&
                              belongs_to_context(live.record.space);
    const bool with_device = because.kind == RecordKind::device_reset && live.record.device == because.device &&
                             (belongs_to_context(live.record.space) || live.record.space == Space::ordered);
    if (with_context || with_device) end(because, slot);
  }
}

void TraceBuilder::graph_memory(const Record& record) {
  if (record.kind == RecordKind::graph_alloc) {
    const Range range{.size = record.size, .device = record.device};
    graph_nodes_[record.address] = range;
    segment(EventKind::segment_alloc, record, "cuda.graph", range);
  } else if (const auto node = graph_nodes_.find(record.address); node != graph_nodes_.end()) {
    segment(EventKind::segment_free, record, "cuda.graph", node->second);
    graph_nodes_.erase(node);
  }
}

void TraceBuilder::imported(const Record& record) {
  const auto [import, is_new] =
      imports_.try_emplace(record.address, Range{.size = record.size, .device = record.device});
  if (!is_new) {
    ++import->second.openings;  // the same memory, opened again, is at the same address
    return;
  }
  segment(EventKind::segment_map, record, "cuda.imported", import->second);
}

/// A free of memory that is not the program's own, or that belongs to a graph.
bool TraceBuilder::closed(const Record& record) {
  if (namespace_of(record.space) != Namespace::device) return false;
  if (const auto import = imports_.find(record.address); import != imports_.end()) {
    if (--import->second.openings > 0) return true;
    segment(EventKind::segment_unmap, record, "cuda.imported", import->second);
    imports_.erase(import);
    return true;
  }
  // A launch allocated it, and each further launch will again.
  return graph_nodes_.contains(record.address);
}

void TraceBuilder::memory_info(const Record& record) {
  if (record.space != Space::ordered && record.space != Space::graph && record.device >= 0)
    recorder_->usage().sample({.device = record.device, .used = {record.size}, .free = {record.address}});
  append(record,
         {.kind = EventKind::memory_info, .origin = origin_of(record), .size = {record.size}, .value = record.address});
}

std::string_view TraceBuilder::name_of(std::uint64_t number) const {
  if (number > std::numeric_limits<std::uint32_t>::max()) return {};
  const std::span name = Recorder::names()[static_cast<std::uint32_t>(number)];
  return {static_cast<const char*>(static_cast<const void*>(name.data())), name.size()};
}

void TraceBuilder::mark(const Record& record) {
  const std::string_view name = name_of(record.object);
  if (name.data() == nullptr) {
    ++hook_lost_;
    return;
  }
  const MarkId mark =
      writer_->intern(Mark{.name = writer_->intern(name), .phase = static_cast<MarkPhase>(record.status)});
  append(record, {.kind = EventKind::mark,
                  .origin = writer_->intern(Origin{.thread = thread_row(record.thread)}),
                  .value = index(mark)});
}

void TraceBuilder::own(const Record& record) {
  const std::string_view name = record.kind == RecordKind::own_pool_made ? name_of(record.address) : std::string_view{};
  Record unasked = record;
  unasked.stack = stacks::StackKey::none;
  for (const auto& [heap, event, implied] : own_pools_.steps(record, driver_heap(record.device), name)) {
    Event placed = event;
    placed.origin = writer_->intern(Origin{
        .heap = heap, .stream = writer_->intern(Stream{.handle = record.stream}), .thread = thread_row(record.thread)});
    if (record.status != 0 && event.kind == EventKind::alloc) {
      placed.stack = preexisting_stack();
      ++held_before_;
    }
    append(implied ? unasked : record, placed);
  }
}

/// Pools that there was no room for are one, which is not the default pool, and what is in them counts as lost.
Pool TraceBuilder::torch_pool(const Record& record) {
  const auto number = static_cast<std::uint32_t>(record.object);
  if (number == 0) return {};
  const std::span<const std::byte> bytes = recorder_->pool_keys()[number];
  std::array<std::uint64_t, 2> key{~std::uint64_t{0}, ~std::uint64_t{0}};
  if (bytes.size() == sizeof key)
    std::memcpy(key.data(), bytes.data(), sizeof key);
  else
    ++hook_lost_;
  return {.key_high = key[0], .key_low = key[1]};
}

void TraceBuilder::torch(const Record& record) {
  const auto sequence = static_cast<std::uint32_t>(record.object >> 32U);
  StackId stack = stacks_.row(record.stack);
  if (record.status != 0)
    stack = forward_stacks_.linked(sequence, stack);
  else
    forward_stacks_.note(sequence, record.thread, stack);
  const auto& events =
      torch_heaps_.events(record, thread_row(record.thread), driver_heap(record.device), torch_pool(record));
  if (torch_known_ && begun_.insert(record.device).second)
    writer_->add_initial_heap({.heap = writer_->tables()[events.front().origin].heap, .segments = {}});
  for (Event event : events) {
    event.stack = stack;
    append(record, event);
  }
}

void TraceBuilder::torch_traced(const Record& record) {
  if (record.kind == RecordKind::snapshot_segment || record.kind == RecordKind::snapshot_block)
    return torch_start_.add(record);
  if (torch_start_.waits(record)) return;
  finish();
  torch(record);
}

void TraceBuilder::finish() {
  for (const Record& record : torch_start_.take_waiting()) torch(record);
}

/// PyTorch reports its total with each event: the recorded sizes must add up to it.
void TraceBuilder::check_sum(const Record& record) {
  const auto size = static_cast<std::int64_t>(record.size);
  const std::int64_t change = record.kind == RecordKind::alloc ? size : record.kind == RecordKind::free ? -size : 0;
  if (change != 0 && !checksums_[record.device].agrees(change, record.object)) ++hook_lost_;
}

void TraceBuilder::segment(EventKind kind, const Record& record, std::string_view heap, const Range& range) {
  const HeapId id = writer_->intern(Heap{.name = writer_->intern(heap),
                                         .level = Level::driver,
                                         .device = range.device,
                                         .parent = range.device >= 0 ? driver_heap(range.device) : HeapId::none,
                                         .observes_completion = false});
  append(record, {.kind = kind,
                  .origin = writer_->intern(Origin{.heap = id, .thread = thread_row(record.thread)}),
                  .address = {record.address},
                  .size = {range.size}});
}

HeapId TraceBuilder::driver_heap(std::int16_t device) {
  return writer_->intern(Heap{.name = writer_->intern(device < 0 ? "cuda.host" : "cuda.driver"),
                              .level = Level::driver,
                              .device = device,
                              .observes_completion = false});
}

HeapId TraceBuilder::heap_of(Space space, std::int16_t device) {
  if (space != Space::torch) return driver_heap(device);
  return writer_->intern(Heap{.name = writer_->intern(torch_heap_name),
                              .level = Level::framework,
                              .device = device,
                              .parent = driver_heap(device),
                              .observes_completion = false});
}

PoolId TraceBuilder::pool_of(const Record& record) {
  std::uint64_t key = 0;
  std::string_view name = pool_name(record.space);
  if (record.kind == RecordKind::memory_info && record.device < 0 && name.empty()) name = "resident";  // the process's
  if (record.space == Space::ordered) {
    key = record.object;
    if (const auto pool = pools_.find(key); pool != pools_.end() && pool->second.managed) name = "async managed";
    const auto chosen = chosen_pools_.find(record.device);
    const bool sample = record.kind == RecordKind::memory_info;
    if (key == 0 && !sample && chosen != chosen_pools_.end()) key = chosen->second;
  }
  if (name.empty()) return PoolId::default_pool;
  return writer_->intern(Pool{.name = writer_->intern(name), .key_low = key, .inferred = record.space == Space::array});
}

ThreadId TraceBuilder::thread_row(std::uint32_t thread) {
  if (threads_.size() >= most_threads && !threads_.contains(thread)) return ThreadId::unknown;
  const auto [found, is_new] = threads_.try_emplace(thread, ThreadId::unknown);
  if (is_new) found->second = writer_->intern(Thread{.tid = thread, .name = writer_->intern(name_of_thread(thread))});
  return found->second;
}

OriginId TraceBuilder::origin_of(const Record& record) {
  const bool same = record.space == last_.space && record.device == last_.device && record.stream == last_.stream &&
                    (record.object == last_.object || record.space == Space::torch) && record.thread == last_.thread &&
                    (record.kind == RecordKind::memory_info) == (last_.kind == RecordKind::memory_info);
  if (!same || last_origin_ == OriginId::none) {
    last_ = record;
    last_origin_ = writer_->intern(Origin{.heap = heap_of(record.space, record.device),
                                          .pool = pool_of(record),
                                          .stream = writer_->intern(Stream{.handle = record.stream}),
                                          .thread = thread_row(record.thread)});
  }
  return last_origin_;
}

}  // namespace memreel::agent
