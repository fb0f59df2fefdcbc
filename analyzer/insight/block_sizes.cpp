#include "analyzer/insight/block_sizes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "analyzer/policies/torch_settings.h"

namespace memreel {
namespace {

/// Live blocks of the large pools in segments that are not expandable: only their tails depend on neighbours.
class LargeSegments {
 public:
  void add(Address address, Bytes size) { segments_[address] = {.end = address + size}; }

  void remove(Address address, Bytes size) {
    const auto first = segments_.lower_bound(address);
    segments_.erase(first, segments_.lower_bound(address + size));
  }

  /// How many bytes from `address` up to the next block or the end of the segment. 0 when no segment is known there.
  /// `address` becomes a block.
  Bytes take(Address address) {
    Segment* const segment = segment_of(address);
    if (segment == nullptr) return {};
    const auto next = std::ranges::upper_bound(segment->blocks, address);
    const Address end = next == segment->blocks.end() ? segment->end : *next;
    segment->blocks.insert(next, address);
    return end - address;
  }

  void give_back(Address address) {
    Segment* const segment = segment_of(address);
    if (segment == nullptr) return;
    const auto block = std::ranges::lower_bound(segment->blocks, address);
    if (block != segment->blocks.end() && *block == address) segment->blocks.erase(block);
  }

 private:
  struct Segment {
    Address end;
    std::vector<Address> blocks;  // ascending
  };

  Segment* segment_of(Address address) {
    const auto after = segments_.upper_bound(address);
    if (after == segments_.begin()) return nullptr;
    Segment& segment = std::prev(after)->second;
    return address < segment.end ? &segment : nullptr;
  }

  std::map<Address, Segment> segments_;
};

/// One heap of PyTorch's, event by event.
class TorchBlocks {
 public:
  void set(const TorchSettings& settings) { settings_ = settings; }
  const TorchSettings& settings() const { return settings_; }
  LargeSegments& segments() { return segments_; }

  Bytes block_size(Address address, Bytes requested) {
    const Bytes rounded = settings_.round(requested);
    if (TorchSettings::is_small(rounded) || settings_.expandable) return rounded;
    const Bytes room = segments_.take(address);
    if (room <= rounded) return rounded;
    const bool oversize = rounded >= settings_.max_split_size;
    return oversize || room - rounded <= TorchSettings::max_small ? room : rounded;
  }

 private:
  TorchSettings settings_;
  LargeSegments segments_;
};

std::map<std::string, std::string> text_of_settings(const Tables& tables, const Settings& settings) {
  std::map<std::string, std::string> text;
  for (const auto& [key, value] : settings.entries) text[tables[key]] = tables[value];
  return text;
}

}  // namespace

bool is_torch_heap(const Tables& tables, HeapId heap) {
  return tables[heap].level == Level::framework && tables[tables[heap].name].starts_with("torch");
}

RecordedBlocks recorded_blocks(const Trace& trace) {
  RecordedBlocks result;
  result.sizes.resize(trace.allocation_events.size());
  std::vector<TorchBlocks> heaps(trace.tables.heaps.size());
  std::vector<char> is_torch(trace.tables.heaps.size());
  for (std::uint32_t h = 0; h < is_torch.size(); ++h) is_torch[h] = is_torch_heap(trace.tables, HeapId{h}) ? 1 : 0;
  const EventColumns& events = trace.events;
  for (std::size_t i = 0; i < events.count(); ++i) {
    const HeapId heap = trace.tables[events.origin[i]].heap;
    TorchBlocks& blocks = heaps[index(heap)];
    const Bytes size = events.size[i];
    const bool by_rules = is_torch[index(heap)] != 0;
    switch (events.kind[i]) {
      case EventKind::alloc:
        result.sizes[index(events.allocation[i])] = by_rules ? blocks.block_size(events.address(i), size) : size;
        break;
      case EventKind::free_requested:
      case EventKind::free_completed:
        if (!by_rules || size <= TorchSettings::max_small) break;
        if (events.kind[i] == EventKind::free_completed || !trace.tables[heap].observes_completion)
          blocks.segments().give_back(events.address(i));
        break;
      case EventKind::segment_alloc:
        if (by_rules && size != TorchSettings::small_segment) blocks.segments().add(events.address(i), size);
        break;
      case EventKind::segment_free:
        if (by_rules) blocks.segments().remove(events.address(i), size);
        break;
      case EventKind::settings: {
        const SettingsId id{static_cast<std::uint32_t>(events.address_or_value[i])};
        blocks.set(TorchSettings::recorded(text_of_settings(trace.tables, trace.tables[id])));
        break;
      }
      default:
        break;
    }
  }
  for (const TorchBlocks& heap : heaps) result.large_runs.push_back(heap.settings().run_size(false));
  return result;
}

}  // namespace memreel
