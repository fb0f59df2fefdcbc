#include "collector/trace/dump_triggers.h"

#include "formats/model/device_sample.h"
#include "formats/model/quantity.h"

namespace memreel::agent {

void DumpTriggers::see(const Event& event, const Tables& tables) {
  switch (event.kind) {
    case EventKind::alloc_failed:
      return refused(event, tables);
    case EventKind::memory_info:
      return sampled(event, tables);
    case EventKind::alloc: {
      if (refusals_.empty()) return;
      const auto refusal = refusals_.find(index(tables[event.origin].thread));
      if (refusal != refusals_.end() && event.size.count >= refusal->second.size.count / 2) refusals_.erase(refusal);
      return;
    }
    default:
      return;
  }
}

void DumpTriggers::refused(const Event& event, const Tables& tables) {
  const Origin& origin = tables[event.origin];
  const Heap& heap = tables[origin.heap];
  if (heap.device < 0) return;
  const std::uint32_t thread = index(origin.thread);
  if (heap.level == Level::driver) {
    const auto [refusal, is_first] =
        refusals_.try_emplace(thread, Refusal{.time = event.time, .size = event.size, .device = heap.device});
    if (is_first) return;
    ++refusal->second.count;
    // It now requests much less, so the earlier request had failed for good.
    if (event.size.count < refusal->second.size.count / 2) {
      fail(refusal->second.size, refusal->second.device, refusal->second.count - 1);
      refusal->second = {.time = event.time, .size = event.size, .device = heap.device};
    }
    return;
  }
  refusals_.erase(thread);
  fail(event.size, heap.device);
}

void DumpTriggers::fail(Bytes size, std::int32_t device, std::uint64_t count) {
  failures_ += count;
  if (failure_) return;
  failure_ = {.reason = DumpReason::out_of_memory,
              .text = "out of memory on GPU " + std::to_string(device) + ": " + memreel::text_of(size) + " refused"};
}

void DumpTriggers::sampled(const Event& event, const Tables& tables) {
  const Origin& origin = tables[event.origin];
  if (!samples_device(tables, origin)) return;
  const std::int32_t number = tables[origin.heap].device;
  Device& device = devices_[number];
  const Bytes used = event.size, total = used + Bytes{event.value};
  if (options_.used) {
    constexpr double hysteresis = 0.02;
    const double share = share_of(used, total);
    if (share >= *options_.used && !device.over) {
      device.over = true;
      limit_ = {.reason = DumpReason::used,
                .text = text_of_share(share) + " of GPU " + std::to_string(number) + "'s memory is used"};
    } else if (share < *options_.used - hysteresis) {
      device.over = false;
    }
  }
  if (!options_.growth) return;
  auto& lows = device.lows;
  while (!lows.empty() && event.time - lows.front().first > options_.growth->time) lows.pop_front();
  while (!lows.empty() && lows.back().second >= used) lows.pop_back();
  lows.emplace_back(event.time, used);
  const Bytes grown = used - lows.front().second;
  if (grown >= options_.growth->bytes && !device.grows) {
    device.grows = true;
    limit_ = {.reason = DumpReason::growth,
              .text = "GPU " + std::to_string(number) + "'s memory use grew by " + memreel::text_of(grown) + " in " +
                      text_of_seconds(std::chrono::duration<double>(event.time - lows.front().first).count())};
  } else if (grown < options_.growth->bytes) {
    device.grows = false;
  }
}

std::optional<DumpCause> DumpTriggers::due(Nanoseconds now) {
  for (auto refusal = refusals_.begin(); refusal != refusals_.end();) {
    if (now - refusal->second.time < patience) {
      ++refusal;
      continue;
    }
    fail(refusal->second.size, refusal->second.device, refusal->second.count);
    refusal = refusals_.erase(refusal);
  }
  std::optional<DumpCause>& cause = failure_ ? failure_ : limit_;
  return std::exchange(cause, std::nullopt);
}

}  // namespace memreel::agent
