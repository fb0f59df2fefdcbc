#include "analyzer/replay/implied_capacity.h"

#include <algorithm>

namespace memreel {

void ImpliedCapacity::see(EventKind kind, Bytes size) {
  if (kind == EventKind::segment_free || kind == EventKind::segment_unmap) {
    if (!burst_.running) {
      burst_.running = true;
      burst_.reserved_before = reserved_;
    }
    reserved_ -= std::min(size, reserved_);
    return;
  }
  if (kind == EventKind::segment_alloc || kind == EventKind::segment_map) {
    // Collecting garbage releases too, at any time that more than the threshold is reserved.
    if (burst_.running && !burst_.asked_for)
      refuse(std::max(burst_.reserved_before + size, settings_.collected_below(burst_.reserved_before)));
    reserved_ += size;
    most_reserved_ = std::max(most_reserved_, reserved_);
  } else if (kind == EventKind::alloc_failed) {
    refuse(reserved_ + settings_.segment_size(settings_.round(size)));
  }
  burst_ = {.asked_for = kind == EventKind::empty_cache};
}

void ImpliedCapacity::refuse(Bytes total) { least_refused_ = std::min(least_refused_.value_or(total), total); }

std::optional<Bytes> ImpliedCapacity::result() const {
  if (!least_refused_) return std::nullopt;
  return std::max(*least_refused_ - 1_B, most_reserved_);
}

DeviceModel implied_device(const Prepared& heap) {
  if (!heap.implied_capacity) return {};
  return {.kind = DeviceModel::Kind::capacity, .capacity = *heap.implied_capacity, .told = true};
}

}  // namespace memreel
