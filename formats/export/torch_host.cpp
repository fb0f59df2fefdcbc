#include "formats/export/torch_host.h"

#include <cstdint>
#include <map>
#include <utility>

#include "formats/torch/alloc_conf.h"

namespace memreel {
namespace {

/// The heap's initial settings.
const Settings* settings_of(const Trace& trace, HeapId heap) {
  for (std::size_t i = 0; i < trace.events.count(); ++i)
    if (trace.events.kind[i] == EventKind::settings && trace.tables[trace.events.origin[i]].heap == heap &&
        trace.events.address_or_value[i] < trace.tables.settings.size())
      return &trace.tables.settings[trace.events.address_or_value[i]];
  return nullptr;
}

TorchHostSettings settings_in_trace(const Trace& trace, HeapId heap) {
  std::map<std::string, std::string> texts;
  if (const Settings* settings = settings_of(trace, heap))
    for (const auto& [key, value] : settings->entries) texts[trace.tables[key]] = trace.tables[value];
  const auto parsed = TorchHostSettings::parse(texts);
  return parsed ? *parsed : TorchHostSettings{};
}

std::string listed(Bytes limit) { return limit == TorchHostSettings::unlimited ? "-1" : std::to_string(limit.count); }

}  // namespace

std::optional<HeapId> torch_host_heap(const Tables& tables) {
  for (std::uint32_t h = 1; h < tables.heaps.size(); ++h)
    if (tables.heaps[h].device < 0 && tables.heaps[h].level == Level::framework &&
        tables[tables.heaps[h].name] == TorchHostSettings::policy)
      return HeapId{h};
  return std::nullopt;
}

std::vector<std::pair<std::string, std::string>> torch_host_settings(const Trace& trace) {
  const std::optional<HeapId> host = torch_host_heap(trace.tables);
  if (!host) return {};
  const TorchHostSettings settings = settings_in_trace(trace, *host);
  return {{conf_variables.front(), alloc_conf(TorchHostSettings{.reserve = settings.reserve})},
          {"max_round_threshold", listed(settings.round_threshold)},
          {"max_cached_size", listed(settings.cached)}};
}

TorchHostReserve::TorchHostReserve(const Trace& trace) : tables_(trace.tables), host_(torch_host_heap(trace.tables)) {
  if (host_) size_ = settings_in_trace(trace, *host_).reserve;
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
