// SPDX-License-Identifier: Apache-2.0
#include "formats/export/export.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <protozero/pbf_builder.hpp>

#include "formats/export/row.h"
#include "formats/export/stack_weights.h"
#include "formats/model/stack_text.h"
#include "formats/model/trace.h"

namespace memreel {
namespace {

using protozero::pbf_builder;
using protozero::pbf_tag_type;

// The fields written, with their public numbers.
enum class TraceField : pbf_tag_type { packet = 1 };
enum class PacketField : pbf_tag_type {
  timestamp = 8,
  sequence_id = 10,
  track_event = 11,
  sequence_flags = 13,
  track_descriptor = 60,
  gpu_mem_total_event = 71,
};
enum class GpuMemTotalField : pbf_tag_type { gpu_id = 1, pid = 2, size = 3 };
enum class DescriptorField : pbf_tag_type { uuid = 1, name = 2, process = 3, thread = 4, parent_uuid = 5, counter = 8 };
enum class ProcessField : pbf_tag_type { pid = 1, process_name = 6 };
enum class ThreadField : pbf_tag_type { pid = 1, tid = 2, thread_name = 5 };
enum class CounterField : pbf_tag_type { unit = 3 };
enum class EventField : pbf_tag_type {
  debug_annotations = 4,
  type = 9,
  track_uuid = 11,
  name = 23,
  counter_value = 30,
};
enum class AnnotationField : pbf_tag_type { uint_value = 3, string_value = 6, name = 10 };

enum class EventType : std::int32_t { slice_begin = 1, slice_end = 2, instant = 3, counter = 4 };
constexpr std::int32_t unit_bytes = 3;
constexpr std::uint32_t sequence = 1;       // all packets come from one writer
constexpr std::uint32_t state_cleared = 1;  // SEQ_INCREMENTAL_STATE_CLEARED, in its first packet
constexpr std::int64_t ns_per_untimed_event = 1000;

using Uuid = std::uint64_t;
constexpr Uuid process_track = 1;

/// A number over time, written when it changes.
struct Counter {
  Uuid track = 0;
  Bytes value;
};

/// What a device holds, for Perfetto's built-in "GPU Memory" counters.
struct DeviceTotals {
  Bytes process;
  Bytes told_process, told_device;  // in the last packet; device: as it reported itself
};

struct HeapCounters {
  bool is_of_device = false;  // stack_weights.h
  bool has_segments = false;  // otherwise its allocations count as held
  std::optional<Counter> live, allocated, reserved, used;
  std::map<PoolId, Counter> pools;
  std::map<std::string_view, Counter> categories;
};

class PerfettoWriter {
 public:
  PerfettoWriter(const Trace& trace, const ExportOptions& options, std::ostream& out)
      : trace_(trace), options_(options), out_(out), heaps_(trace.tables.heaps.size()) {
    const auto times = trace.events.times();
    const std::vector<bool> of_device = device_heaps(trace.tables);
    for (std::size_t h = 0; h < heaps_.size(); ++h) heaps_[h].is_of_device = of_device[h];
    for (std::size_t i = 0; i < trace.events.count(); ++i)
      if (is_segment(trace.events.kind(i)) && level_of(i) == Level::framework) heap_of(i).has_segments = true;
    has_times_ = !times.empty() && *std::max_element(times.begin(), times.end()) > times.front();
    for (const Origin& origin : trace.tables.origins) {
      if (origin.pool != PoolId::default_pool) heaps_[index(origin.heap)].pools[origin.pool];
    }
  }

  void write() {
    describe_process();
    for (std::size_t i = 0; i < trace_.events.count() && out_; ++i) {
      const std::int64_t time =
          has_times_ ? trace_.events.time(i).count() : static_cast<std::int64_t>(i) * ns_per_untimed_event;
      // Threads that write concurrently may be slightly out of order; counters must not run backwards.
      now_ = std::max(now_, static_cast<std::uint64_t>(std::max<std::int64_t>(time, 0)));
      write_event(i);
    }
  }

 private:
  void write_event(std::size_t i) {
    const Events& events = trace_.events;
    switch (events.kind(i)) {
      case EventKind::alloc:
      case EventKind::free_requested:
        if (events.allocation(i) != AllocationId::none) change_live(i);
        break;
      case EventKind::segment_alloc:
      case EventKind::segment_map:
        change(counter(heap_of(i).reserved, "reserved", events.origin(i)), events.size(i), true);
        if (heap_of(i).has_segments) hold(events.origin(i), events.size(i), true);
        break;
      case EventKind::segment_free:
      case EventKind::segment_unmap:
        change(counter(heap_of(i).reserved, "reserved", events.origin(i)), events.size(i), false);
        if (heap_of(i).has_segments) hold(events.origin(i), events.size(i), false);
        break;
      case EventKind::memory_info:
        if (is_torch_heap(trace_.tables, trace_.tables[events.origin(i)].heap)) {
          set(counter(heap_of(i).reserved, "reserved", events.origin(i)), events.size(i) + Bytes{events.value(i)});
          break;
        }
        set(counter(heap_of(i).used,
                    trace_.tables[trace_.tables[events.origin(i)].heap].device < 0
                        ? "resident set of the process"
                        : "in use, as reported by the device",
                    events.origin(i)),
            events.size(i));
        if (samples_device(trace_.tables, trace_.tables[events.origin(i)]))
          tell_total(events.origin(i), 0, totals_[device_of(events.origin(i))].told_device, events.size(i));
        break;
      case EventKind::alloc_failed:
        write_failure(i);
        break;
      case EventKind::empty_cache:
        write_instant(i, "empty_cache");
        break;
      case EventKind::mark:
        write_mark(i);
        break;
      default:
        break;
    }
  }

  Level level_of(std::size_t i) const { return trace_.tables[trace_.tables[trace_.events.origin(i)].heap].level; }
  std::int32_t device_of(OriginId origin) const { return trace_.tables[trace_.tables[origin].heap].device; }

  /// The process got memory from a device, or returned it.
  void hold(OriginId origin, Bytes size, bool is_more) {
    if (!heaps_[index(trace_.tables[origin].heap)].is_of_device) return;
    DeviceTotals& totals = totals_[device_of(origin)];
    totals.process = is_more ? totals.process + size : totals.process - std::min(size, totals.process);
    tell_total(origin, pid(), totals.told_process, totals.process);
  }

  /// `process` 0: all processes together.
  void tell_total(OriginId origin, std::int32_t process, Bytes& told, Bytes total) {
    if (told == total) return;
    told = total;
    write_packet([&](auto& packet) {
      packet.add_uint64(PacketField::timestamp, now_);
      pbf_builder<GpuMemTotalField> event(packet, PacketField::gpu_mem_total_event);
      event.add_uint32(GpuMemTotalField::gpu_id, static_cast<std::uint32_t>(std::max(device_of(origin), 0)));
      event.add_uint32(GpuMemTotalField::pid, static_cast<std::uint32_t>(process));
      event.add_uint64(GpuMemTotalField::size, total.count);
    });
  }

  HeapCounters& heap_of(std::size_t i) { return heaps_[index(trace_.tables[trace_.events.origin(i)].heap)]; }

  void change_live(std::size_t i) {
    const Events& events = trace_.events;
    const bool is_more = events.kind(i) == EventKind::alloc;
    const AllocationId id = events.allocation(i);
    const std::uint32_t begin = trace_.events.begin_of(id);
    const OriginId origin = events.origin(begin);
    HeapCounters& heap = heaps_[index(trace_.tables[origin].heap)];
    change(counter(heap.live, "live", origin), events.size(begin), is_more);
    if (!heap.has_segments) hold(origin, events.size(begin), is_more);
    if (!options_.block_sizes.empty())
      change(counter(heap.allocated, "allocated", origin), options_.block_sizes[index(id)], is_more);
    if (!options_.notes.category.empty()) {
      const std::string_view category = options_.notes.category[index(id)];
      Counter& of_category = heap.categories[category];
      if (of_category.track == 0) of_category.track = describe_counter("live: " + std::string(category), origin);
      change(of_category, events.size(begin), is_more);
    }
    if (heap.pools.empty()) return;
    Counter& pool = heap.pools[trace_.tables[origin].pool];
    if (pool.track == 0)
      pool.track = describe_counter("live in pool " + pool_label(trace_.tables, trace_.tables[origin].pool), origin);
    change(pool, events.size(begin), is_more);
  }

  Counter& counter(std::optional<Counter>& counter, const char* what, OriginId origin) {
    if (!counter) counter = Counter{.track = describe_counter(what, origin), .value = {}};
    return *counter;
  }

  void change(Counter& counter, Bytes size, bool is_more) {
    set(counter, is_more ? counter.value + size : counter.value - std::min(size, counter.value));
  }

  void set(Counter& counter, Bytes value) {
    if (counter.value == value) return;
    counter.value = value;
    write_track_event(EventType::counter, counter.track, [&](auto& event) {
      event.add_int64(EventField::counter_value, static_cast<std::int64_t>(value.count));
    });
  }

  void write_mark(std::size_t i) {
    const ExportRow row = export_row(trace_, i);
    Thread& thread = thread_of(i);
    if (row.mark_phase == "end") {
      if (thread.open == 0) return;  // it began before the recording
      --thread.open;
      write_track_event(EventType::slice_end, thread.track, [](auto&) {});
      return;
    }
    const bool begins = row.mark_phase == "begin";
    thread.open += begins ? 1 : 0;
    write_track_event(begins ? EventType::slice_begin : EventType::instant, thread.track,
                      [&](auto& event) { event.add_string(EventField::name, utf8(row.mark_name)); });
  }

  void write_instant(std::size_t i, const char* name) {
    write_track_event(EventType::instant, thread_of(i).track,
                      [&](auto& event) { event.add_string(EventField::name, name); });
  }

  void write_failure(std::size_t i) {
    const ExportRow row = export_row(trace_, i);
    write_track_event(EventType::instant, thread_of(i).track, [&](auto& event) {
      event.add_string(EventField::name, "out of memory");
      annotate(event, "requested bytes", row.event.size.count);
      if (row.event.value != 0) annotate(event, "free bytes, as reported by the device", row.event.value);
      annotate(event, "heap", std::string(row.heap_name) + ", device " + std::to_string(row.heap->device));
      annotate(event, "stream", stream_label(trace_.tables, trace_.tables[row.event.origin].stream));
      std::string stack;
      for (const FrameText& frame : frames_of(trace_.tables, row.event.stack))
        stack += (stack.empty() ? "" : "\n") + text_of(frame);
      if (!stack.empty()) annotate(event, "stack", utf8(stack));
    });
  }

  static void annotate(pbf_builder<EventField>& event, const char* name, std::uint64_t value) {
    pbf_builder<AnnotationField> annotation(event, EventField::debug_annotations);
    annotation.add_string(AnnotationField::name, name);
    annotation.add_uint64(AnnotationField::uint_value, value);
  }
  static void annotate(pbf_builder<EventField>& event, const char* name, const std::string& value) {
    pbf_builder<AnnotationField> annotation(event, EventField::debug_annotations);
    annotation.add_string(AnnotationField::name, name);
    annotation.add_string(AnnotationField::string_value, value);
  }

  struct Thread {
    Uuid track = 0;
    std::uint32_t open = 0;  // ranges
  };

  Thread& thread_of(std::size_t i) {
    const ThreadId id = trace_.tables[trace_.events.origin(i)].thread;
    Thread& thread = threads_[id];
    if (thread.track != 0) return thread;
    thread.track = ++last_track_;
    const memreel::Thread& row = trace_.tables[id];
    describe(thread.track, [&](auto& track) {
      track.add_uint64(DescriptorField::parent_uuid, process_track);
      if (row.tid == 0) {
        track.add_string(DescriptorField::name, "marks");
        return;
      }
      pbf_builder<ThreadField> described(track, DescriptorField::thread);
      described.add_int32(ThreadField::pid, pid());
      described.add_int32(ThreadField::tid, static_cast<std::int32_t>(row.tid));
      if (row.name != StringId::none) described.add_string(ThreadField::thread_name, utf8(trace_.tables[row.name]));
    });
    return thread;
  }

  std::int32_t pid() const { return trace_.header.process == 0 ? 1 : static_cast<std::int32_t>(trace_.header.process); }

  void describe_process() {
    describe(process_track, [&](auto& track) {
      pbf_builder<ProcessField> process(track, DescriptorField::process);
      process.add_int32(ProcessField::pid, pid());
      process.add_string(ProcessField::process_name,
                         trace_.header.source_name.empty() ? "GPU memory" : utf8(trace_.header.source_name));
    });
  }

  Uuid describe_counter(const std::string& what, OriginId origin) {
    const Uuid uuid = ++last_track_;
    const Heap& heap = trace_.tables[trace_.tables[origin].heap];
    describe(uuid, [&](auto& track) {
      track.add_uint64(DescriptorField::parent_uuid, process_track);
      track.add_string(DescriptorField::name,
                       "device " + std::to_string(heap.device) + " " + utf8(trace_.tables[heap.name]) + ": " + what);
      pbf_builder<CounterField> counter(track, DescriptorField::counter);
      counter.add_int32(CounterField::unit, unit_bytes);
    });
    return uuid;
  }

  template <class Fill>
  void describe(Uuid uuid, Fill fill) {
    write_packet([&](auto& packet) {
      if (std::exchange(is_first_, false)) packet.add_uint32(PacketField::sequence_flags, state_cleared);
      pbf_builder<DescriptorField> track(packet, PacketField::track_descriptor);
      track.add_uint64(DescriptorField::uuid, uuid);
      fill(track);
    });
  }

  template <class Fill>
  void write_track_event(EventType type, Uuid track, Fill fill) {
    write_packet([&](auto& packet) {
      packet.add_uint64(PacketField::timestamp, now_);
      pbf_builder<EventField> event(packet, PacketField::track_event);
      event.add_enum(EventField::type, static_cast<std::int32_t>(type));
      event.add_uint64(EventField::track_uuid, track);
      fill(event);
    });
  }

  template <class Fill>
  void write_packet(Fill fill) {
    packet_.clear();
    {
      pbf_builder<TraceField> trace(packet_);
      pbf_builder<PacketField> packet(trace, TraceField::packet);
      packet.add_uint32(PacketField::sequence_id, sequence);
      fill(packet);
    }
    out_.write(packet_.data(), static_cast<std::streamsize>(packet_.size()));
  }

  const Trace& trace_;
  const ExportOptions& options_;
  std::ostream& out_;
  bool has_times_ = false;
  bool is_first_ = true;
  std::uint64_t now_ = 0;
  Uuid last_track_ = process_track;
  std::vector<HeapCounters> heaps_;
  std::map<ThreadId, Thread> threads_;
  std::map<std::int32_t, DeviceTotals> totals_;  // by device
  std::string packet_;
};

}  // namespace

void export_perfetto(const Trace& trace, const ExportOptions& options, std::ostream& out) {
  PerfettoWriter(trace, options, out).write();
}

}  // namespace memreel
