#include "formats/export/torch_host.h"

#include <charconv>
#include <cstdint>
#include <string_view>
#include <utility>

namespace memreel {
namespace {

constexpr std::string_view heap_name = "torch.host";
constexpr std::string_view threshold_key = "pinned_max_round_threshold_mb";
constexpr std::string_view cached_key = "pinned_max_cached_size_mb";
constexpr std::string_view reserve_key = "pinned_reserve_segment_size_mb";

/// The heap's initial settings.
const Settings* settings_of(const Trace& trace, HeapId heap) {
  for (std::size_t i = 0; i < trace.events.count(); ++i)
    if (trace.events.kind[i] == EventKind::settings && trace.tables[trace.events.origin[i]].heap == heap &&
        trace.events.address_or_value[i] < trace.tables.settings.size())
      return &trace.tables.settings[trace.events.address_or_value[i]];
  return nullptr;
}

/// None if it is not a number: unlimited.
std::optional<Bytes> mib_setting(const Trace& trace, HeapId heap, std::string_view wanted) {
  const Settings* settings = settings_of(trace, heap);
  if (settings == nullptr) return std::nullopt;
  for (const auto& [key, value] : settings->entries) {
    if (trace.tables[key] != wanted) continue;
    const std::string_view text = trace.tables[value];
    std::uint64_t mib = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mib);
    if (error == std::errc{} && end == text.data() + text.size() && mib <= std::uint64_t{1} << 30U) return 1_MiB * mib;
  }
  return std::nullopt;
}

std::string listed(std::optional<Bytes> limit) { return limit ? std::to_string(limit->count) : "-1"; }

}  // namespace

std::optional<HeapId> torch_host_heap(const Tables& tables) {
  for (std::uint32_t h = 1; h < tables.heaps.size(); ++h)
    if (tables.heaps[h].device < 0 && tables.heaps[h].level == Level::framework &&
        tables[tables.heaps[h].name] == heap_name)
      return HeapId{h};
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> torch_host_settings(const Trace& trace) {
  const std::optional<HeapId> host = torch_host_heap(trace.tables);
  if (!host) return {};
  const Bytes reserve = mib_setting(trace, *host, reserve_key).value_or(0_B);
  std::string conf;
  if (reserve > 0_B) conf = std::string(reserve_key) + ":" + std::to_string(reserve / 1_MiB);
  return {{"PYTORCH_CUDA_ALLOC_CONF", std::move(conf)},
          {"max_round_threshold", listed(mib_setting(trace, *host, threshold_key))},
          {"max_cached_size", listed(mib_setting(trace, *host, cached_key))}};
}

TorchHostReserve::TorchHostReserve(const Trace& trace) : tables_(trace.tables), host_(torch_host_heap(trace.tables)) {
  if (host_) size_ = mib_setting(trace, *host_, reserve_key).value_or(0_B);
}

bool TorchHostReserve::is_reserve(const Event& segment) {
  const Bytes size = std::exchange(size_, 0_B);
  if (size == 0_B || segment.size != size) return false;
  begin_ = segment.address;
  end_ = begin_ + size;
  return true;
}

bool TorchHostReserve::is_dropped(const Block& block) const {
  const PoolId pool = tables_[block.segment.origin].pool;
  return block.free && (pool == PoolId::default_pool || ended_.contains(pool));
}

Event TorchHostReserve::of_segment(Event alloc) {
  alloc.kind = EventKind::segment_alloc;
  alloc.allocation = AllocationId::none;
  return alloc;
}

void TorchHostReserve::note(const Event& event) {
  if (event.kind == EventKind::segment_free) {
    blocks_.erase(event.address);
  } else if (event.kind == EventKind::alloc) {
    blocks_[event.address] = {.segment = of_segment(event), .free = false};
  } else if (const auto block = blocks_.find(event.address); block != blocks_.end()) {
    block->second.free = event.kind == EventKind::free_completed;
  }
}

}  // namespace memreel
