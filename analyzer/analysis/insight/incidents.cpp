// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/out_of_memory.h"

#include <algorithm>
#include <map>

#include "formats/model/trace.h"

namespace memreel {
namespace {

/// The state of a device while the trace is scanned.
struct DeviceState {
  Bytes held;  // by the program: memory from the driver, and the segments of pools
  struct Sample {
    Bytes used, free, held;
    Nanoseconds time{};
  };
  std::optional<Sample> last;
  std::vector<std::size_t> before_samples;  // instants that wait for the first sample
};

/// For the driver's own memory, true only for what takes device memory at once: a stream-ordered pool has its own
/// memory, and managed memory lies where it is used.
bool takes_memory(const Tables& tables, const Origin& origin) {
  if (tables[origin.heap].level != Level::driver) return false;
  return origin.pool == PoolId::default_pool || tables[tables[origin.pool].name] == "physical";
}

DeviceFree state_of(const DeviceState& device, const DeviceState::Sample& sample, Nanoseconds now) {
  const Bytes all = sample.free + sample.held;
  return {.total = sample.used + sample.free,
          .free = all - std::min(all, device.held),
          .age = std::max(now - sample.time, Nanoseconds{})};
}

}  // namespace

std::vector<std::optional<DeviceFree>> device_free_at(const Trace& trace, std::span<const std::uint32_t> instants) {
  std::vector<std::optional<DeviceFree>> found(instants.size());
  if (instants.empty()) return found;
  std::map<std::int32_t, DeviceState> devices;
  std::vector<Bytes> held_then(instants.size());  // of those that wait
  std::size_t next = 0;
  const Events& events = trace.events;
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    const Origin& origin = trace.tables[events.origin(i)];
    const Heap& heap = trace.tables[origin.heap];
    if (heap.device < 0) {
      while (next < instants.size() && instants[next] == i) ++next;  // of no device
      continue;
    }
    DeviceState& device = devices[heap.device];
    const EventKind kind = events.kind(i);
    for (; next < instants.size() && instants[next] == i; ++next) {
      if (device.last) {
        found[next] = state_of(device, *device.last, events.time(i));
      } else {
        device.before_samples.push_back(next);
        held_then[next] = device.held;
      }
    }
    const bool segments = heap.level == Level::framework;
    const bool taken = segments ? kind == EventKind::segment_alloc || kind == EventKind::segment_map
                                : kind == EventKind::alloc && takes_memory(trace.tables, origin);
    const bool given_back = segments ? kind == EventKind::segment_free || kind == EventKind::segment_unmap
                                     : kind == EventKind::free_requested && takes_memory(trace.tables, origin);
    if (taken) device.held += events.size(i);
    if (given_back) device.held -= std::min(device.held, events.size(i));
    if (kind != EventKind::memory_info || !samples_device(trace.tables, origin)) continue;
    device.last = {
        .used = events.size(i), .free = Bytes{events.address_or_value(i)}, .held = device.held, .time = events.time(i)};
    for (const std::size_t waiting : device.before_samples) {
      DeviceState then;
      then.held = held_then[waiting];
      found[waiting] = state_of(then, *device.last, events.time(instants[waiting]));
    }
    device.before_samples.clear();
  }
  return found;
}

namespace {

/// A refusal that may turn out to be part of a larger one.
struct Open {
  Incident incident;
  bool got_more = false;  // a heap above got memory since
};

class Finder {
 public:
  explicit Finder(const Trace& trace) : trace_(trace) {}

  Incidents find() {
    const Events& events = trace_.events;
    for (std::uint32_t i = 0; i < events.count(); ++i) {
      const EventKind kind = events.kind(i);
      if (kind == EventKind::alloc_failed)
        refused(i);
      else if (!open_.empty() &&
               (kind == EventKind::alloc || kind == EventKind::segment_alloc || kind == EventKind::segment_map))
        served(i);
    }
    for (auto& [thread, open] : open_) close(open);
    std::ranges::sort(result_.failed, {}, &Incident::event);
    return std::move(result_);
  }

 private:
  /// Groups a request with its refusals: by thread and device.
  using ThreadKey = std::pair<std::uint32_t, std::int32_t>;

  const Origin& origin_of(std::uint32_t event) const { return trace_.tables[trace_.events.origin(event)]; }

  ThreadKey thread_of(std::uint32_t event) const {
    const Origin& origin = origin_of(event);
    return {index(origin.thread), trace_.tables[origin.heap].device};
  }

  /// Whether `heap` sub-allocates memory of `below`, perhaps through other heaps. Bounded, since damaged parents may
  /// form a cycle.
  bool is_above(HeapId heap, HeapId below) const {
    for (std::size_t depth = 0; depth < trace_.tables.heaps.size(); ++depth) {
      heap = trace_.tables[heap].parent;
      if (heap == below) return below != HeapId::none;
      if (heap == HeapId::none) return false;
    }
    return false;
  }

  /// Whether the request refused at `event` is what a request for `size` bytes needs.
  bool serves(std::uint32_t event, Bytes size) const {
    const Tables& tables = trace_.tables;
    return trace_.events.size(event) >= size || tables[tables[origin_of(event).pool].name] == "physical";
  }

  void refused(std::uint32_t event) {
    const HeapId heap = origin_of(event).heap;
    const Bytes size = trace_.events.size(event);
    std::vector<Open>& open = open_[thread_of(event)];
    Incident incident{.event = event, .refusals = {{.heap = heap, .requested = size, .events = {event}}}};
    while (!open.empty()) {
      Incident& last = open.back().incident;
      const Refusal& top = last.refusals.front();
      if (open.back().got_more || !is_above(heap, top.heap) || !serves(last.event, size)) break;
      // One heap below, a request is retried unchanged.
      if (incident.refusals.size() > 1 && incident.refusals[1].heap == top.heap) {
        Refusal& again = incident.refusals[1];
        if (again.requested != top.requested) break;
        again.events.insert(again.events.begin(), top.events.begin(), top.events.end());
      } else if (incident.refusals.size() == 1) {
        incident.refusals.insert(incident.refusals.end(), last.refusals.begin(), last.refusals.end());
      } else {
        break;
      }
      open.pop_back();
    }
    const bool may_be_part = std::ranges::any_of(trace_.tables.heaps, [&](const Heap& h) { return h.parent == heap; });
    if (!may_be_part) {
      close(open);
      result_.failed.push_back(std::move(incident));
    } else {
      open.push_back({.incident = std::move(incident)});
    }
  }

  void served(std::uint32_t event) {
    const auto found = open_.find(thread_of(event));
    if (found == open_.end() || found->second.empty()) return;
    std::vector<Open>& open = found->second;
    const HeapId heap = origin_of(event).heap;
    const HeapId refused = open.back().incident.refusals.front().heap;
    if (heap == refused || trace_.events.kind(event) != EventKind::alloc) {
      for (Open& each : open) each.got_more = true;
      return;
    }
    if (open.back().got_more && is_above(heap, refused)) {
      // Retries of a request have the same size.
      const Bytes size = open.back().incident.refusals.front().requested;
      while (!open.empty() && open.back().got_more && open.back().incident.refusals.front().requested == size)
        open.pop_back();
      ++result_.retried;
    }
    close(open);
  }

  void close(std::vector<Open>& open) {
    for (Open& each : open) result_.failed.push_back(std::move(each.incident));
    open.clear();
  }

  const Trace& trace_;
  std::map<ThreadKey, std::vector<Open>> open_;
  Incidents result_;
};

}  // namespace

Incidents find_incidents(const Trace& trace) { return Finder(trace).find(); }

}  // namespace memreel
