#include "analyzer/predict/device.h"

#include <algorithm>

#include "analyzer/predict/cards.h"
#include "formats/model/device_sample.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

/// The device memory in use besides the allocator's segments, by the samples of a recording.
std::optional<Bytes> sampled_others(std::span<const Recording> recordings) {
  std::optional<Bytes> most;
  for (const Recording& recording : recordings) {
    const EventColumns& events = recording.trace.events;
    const Tables& tables = recording.trace.tables;
    const std::int32_t device = tables[recording.heap].device;
    Bytes reserved;
    for (std::size_t i = 0; i < events.count(); ++i) {
      const EventKind kind = events.kind[i];
      const Origin& origin = tables[events.origin[i]];
      if (kind == EventKind::memory_info && samples_device(tables, origin) && tables[origin.heap].device == device &&
          events.size[i] >= reserved)
        most = std::max(most.value_or(Bytes{}), events.size[i] - reserved);
      if (origin.heap != recording.heap) continue;
      if (kind == EventKind::segment_alloc || kind == EventKind::segment_map) reserved += events.size[i];
      if (kind == EventKind::segment_free || kind == EventKind::segment_unmap) reserved -= events.size[i];
    }
  }
  return most;
}

}  // namespace

Result<PredictDevice> predict_device(const std::string& capacity, std::span<const Recording> recordings) {
  PredictDevice device;
  if (capacity.empty()) return device;
  const Card* const card = find_card(capacity);
  if (card == nullptr) {
    Result<Bytes> size = parse_bytes(capacity);
    if (!size) {
      std::string names;
      for (const Card& known : cards()) names += (names.empty() ? "" : ", ") + std::string(known.name);
      size.error().where = "--capacity";
      size.error().remedy = "give a size, e.g. 24GiB, or a card: " + names;
      return std::move(size).error();
    }
    device.capacity = *size;
    return device;
  }
  const std::optional<Bytes> sampled = sampled_others(recordings);
  device.card = card->name;
  device.gpu = card->gpu;
  device.others = sampled.value_or(assumed_context);
  device.assumed = !sampled;
  if (device.others >= card->memory)
    return Error{.what = "the recording shows more memory in use beside the allocator than the card has",
                 .where = "--capacity"};
  device.capacity = card->memory - device.others;
  return device;
}

}  // namespace memreel
