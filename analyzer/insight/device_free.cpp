#include "analyzer/insight/device_free.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "formats/model/device_sample.h"

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
  const EventColumns& events = trace.events;
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    const Origin& origin = trace.tables[events.origin[i]];
    const Heap& heap = trace.tables[origin.heap];
    if (heap.device < 0) continue;
    DeviceState& device = devices[heap.device];
    const EventKind kind = events.kind[i];
    for (; next < instants.size() && instants[next] == i; ++next) {
      if (device.last) {
        found[next] = state_of(device, *device.last, events.time[i]);
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
    if (taken) device.held += events.size[i];
    if (given_back) device.held -= std::min(device.held, events.size[i]);
    if (kind != EventKind::memory_info || !samples_device(trace.tables, origin)) continue;
    device.last = {
        .used = events.size[i], .free = Bytes{events.address_or_value[i]}, .held = device.held, .time = events.time[i]};
    for (const std::size_t waiting : device.before_samples) {
      DeviceState then;
      then.held = held_then[waiting];
      found[waiting] = state_of(then, *device.last, events.time[instants[waiting]]);
    }
    device.before_samples.clear();
  }
  return found;
}

}  // namespace memreel
