// SPDX-License-Identifier: Apache-2.0
#include "analyzer/history/device_samples.h"

#include <algorithm>
#include <string>

namespace memreel {

SampledDevices::SampledDevices(const Trace& trace) {
  const EventColumns& events = trace.events;
  const Tables& tables = trace.tables;
  std::map<std::pair<HeapId, PoolId>, Bytes> unused, graphs;
  const auto sum_of = [&](const std::map<std::pair<HeapId, PoolId>, Bytes>& parts, std::int32_t device) {
    Bytes sum;
    for (const auto& [of, bytes] : parts)
      if (tables[of.first].device == device) sum += bytes;
    return sum;
  };
  for (std::uint32_t i = 0; i < events.count(); ++i) {
    if (events.kind[i] != EventKind::memory_info) continue;
    const Origin& origin = tables[events.origin[i]];
    const Heap& heap = tables[origin.heap];
    if (heap.level != Level::driver || heap.device < 0) continue;
    const Bytes used = events.size[i], free{events.address_or_value[i]};
    std::vector<Sample>& samples = devices_[heap.device].samples;
    if (samples_device(tables, origin)) {
      samples.push_back({.event = i, .used = used, .free = free});
    } else if (const std::string& name = tables[tables[origin.pool].name]; name == "graph") {
      graphs[{origin.heap, origin.pool}] = used + free;
    } else if (name == "async") {
      unused[{origin.heap, origin.pool}] = free;
      unused_[{origin.heap, origin.pool}].emplace_back(i, free);
    }
    // Pools are asked directly after their device.
    if (samples.empty()) continue;
    samples.back().pools = sum_of(unused, heap.device);
    samples.back().graphs = sum_of(graphs, heap.device);
  }
}

void SampledDevices::see(std::int32_t device, std::uint32_t event, Bytes held) {
  const auto found = devices_.find(device);
  if (found == devices_.end()) return;
  Device& of = found->second;
  for (; of.next < of.samples.size() && of.samples[of.next].event < event; ++of.next)
    of.samples[of.next].held = of.held;
  of.held = held;
}

std::optional<DeviceSamples> SampledDevices::around(std::int32_t device, std::uint32_t event) const {
  const auto found = devices_.find(device);
  if (found == devices_.end() || found->second.samples.empty()) return std::nullopt;
  const Device& of = found->second;
  const auto result_of = [&](std::size_t i) {
    const Sample& sample = of.samples[i];
    const Bytes known = (i < of.next ? sample.held : of.held) + sample.pools + sample.graphs;
    return DeviceSamples{.total = sample.used + sample.free,
                         .pools = sample.pools,
                         .graphs = sample.graphs,
                         .of_nobody = sample.used - std::min(sample.used, known)};
  };
  const auto after =
      static_cast<std::size_t>(std::ranges::upper_bound(of.samples, event, {}, &Sample::event) - of.samples.begin());
  if (after == 0) return result_of(0);
  const DeviceSamples before = result_of(after - 1);
  if (after == of.samples.size()) return before;
  DeviceSamples result = before;
  result.of_nobody = std::min(before.of_nobody, result_of(after).of_nobody);
  return result;
}

std::optional<Bytes> SampledDevices::unused(HeapId heap, PoolId pool, std::uint32_t event) const {
  const auto found = unused_.find({heap, pool});
  if (found == unused_.end()) return std::nullopt;
  const auto after = std::ranges::upper_bound(found->second, event, {}, &std::pair<std::uint32_t, Bytes>::first);
  return after == found->second.begin() ? found->second.front().second : std::prev(after)->second;
}

}  // namespace memreel
