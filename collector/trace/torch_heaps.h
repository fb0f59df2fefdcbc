// The reports of PyTorch's allocator (collector/torch/allocator_trace.h) as heaps of the trace: one per device, as in
// an imported PyTorch history.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/recorder/record.h"
#include "formats/writer/trace_output.h"

namespace memreel::agent {

/// The name of a device's torch heap.
inline constexpr std::string_view torch_heap_name = "torch.cuda";

class TorchHeaps {
 public:
  explicit TorchHeaps(TraceOutput& writer) : writer_(&writer) {}

  /// The events for a record, without time and stack, which are the record's. `record` is in Space::torch_traced and
  /// comes from `thread`, `driver` is the driver's heap on its device, `pool` the name that its object refers to. The
  /// result is valid until the next call.
  const std::vector<Event>& events(const Record& record, ThreadId thread, HeapId driver,
                                   std::span<const std::byte> pool);

 private:
  HeapId heap_of(std::int16_t device, HeapId driver);

  TraceOutput* writer_;
  std::unordered_map<std::int16_t, HeapId> heaps_;  // by device
  std::vector<Event> events_;
};

}  // namespace memreel::agent
