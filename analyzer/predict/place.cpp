#include "analyzer/predict/place.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "analyzer/engine/device.h"
#include "analyzer/engine/prepared.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/replay/recorded_torch.h"

namespace memreel {
namespace {

/// A device without limit that records the calls it gets.
class NotingDevice final : public Device {
 public:
  explicit NotingDevice(std::span<const RecordedSegment> recorded) : device_(DeviceModel{}, recorded) {}

  struct Call {
    EventKind kind = EventKind::unknown;
    Address address;
    Bytes size;
  };

  std::optional<Address> reserve(Bytes size) override {
    const std::optional<Address> address = device_.reserve(size);
    if (address) calls.push_back({EventKind::segment_alloc, *address, size});
    return address;
  }
  void release(Address address, Bytes size) override {
    device_.release(address, size);
    calls.push_back({EventKind::segment_free, address, size});
  }
  std::optional<Addresses> reserve_addresses(Bytes least, Bytes unit) override {
    return device_.reserve_addresses(least, unit);
  }
  bool map(Address address, Bytes size) override {
    if (!device_.map(address, size)) return false;
    calls.push_back({EventKind::segment_map, address, size});
    return true;
  }
  void unmap(Address address, Bytes size) override {
    device_.unmap(address, size);
    calls.push_back({EventKind::segment_unmap, address, size});
  }
  std::optional<Bytes> capacity() const override { return std::nullopt; }

  std::vector<Call> calls;  // since they were last taken

 private:
  SimulatedDevice device_;
};

/// Executes a row of a heap; returns true for a request.
bool perform(const Prepared& heap, std::size_t row, auto& policy) {
  const std::uint32_t slot = heap.slot[row];
  switch (heap.op[row]) {
    case Op::alloc:
      policy.allocate(slot, heap.size[row], heap.pool_stream[row]);
      return true;
    case Op::free:
      policy.free(slot, heap.size[row]);
      break;
    case Op::free_requested:
      policy.free_requested(slot, heap.size[row]);
      break;
    case Op::free_completed:
      policy.free_completed(slot, heap.size[row]);
      break;
    case Op::empty_cache:
      policy.empty_cache();
      break;
    case Op::empty_pool:
      policy.empty_pool(heap.pool_stream[row]);
      break;
    case Op::pool_ended:
      policy.pool_ended(heap.pool_stream[row]);
      break;
    default:
      break;
  }
  return false;
}

}  // namespace

void place(PredictedRun& predicted_run, const TorchSettings& settings) {
  const std::vector<Prepared> heaps = prepare(predicted_run.trace);
  const auto heap = std::ranges::find(heaps, predicted_run.heap, &Prepared::heap);
  if (heap == heaps.end()) return;
  EventColumns& events = predicted_run.trace.events;
  NotingDevice device(predicted_run.segments);
  std::vector<std::pair<std::uint32_t, Event>> segments;  // and the events that they precede
  with_torch(*heap, settings, device, [&](auto& policy, auto real) {
    for (std::size_t row = 0; row < heap->count(); ++row) {
      const std::uint32_t at = heap->event[row];
      if (perform(*heap, row, policy))
        events.address_or_value[at] = real(policy.extent_of(heap->slot[row]).address).value;
      for (const NotingDevice::Call& call : std::exchange(device.calls, {}))
        segments.push_back({at,
                            {.kind = call.kind,
                             .origin = events.origin[at],
                             .stack = events.stack[at],
                             .time = events.time[at],
                             .address = call.address,
                             .size = call.size}});
    }
  });
  EventColumns placed;
  placed.reserve(events.count() + segments.size());
  auto segment = segments.begin();
  for (std::uint32_t at = 0; at < events.count(); ++at) {
    for (; segment != segments.end() && segment->first == at; ++segment) placed.push_back(segment->second);
    Event event = events[at];
    if (event.kind == EventKind::alloc)
      predicted_run.trace.allocation_events[index(event.allocation)] = static_cast<std::uint32_t>(placed.count());
    else if (is_free(event.kind))
      event.address = placed.address(predicted_run.trace.allocation_events[index(event.allocation)]);
    placed.push_back(event);
  }
  events = std::move(placed);
}

}  // namespace memreel
