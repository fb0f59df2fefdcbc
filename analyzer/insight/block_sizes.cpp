#include "analyzer/insight/block_sizes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "formats/torch/settings.h"

namespace memreel {
namespace {

/// Live blocks of the large pools in segments that are not expandable: only their unsplit remainders depend on
/// neighbours.
class LargeSegments {
 public:
  void add(Address address, Bytes size) { segments_[address] = {.end = address + size}; }

  void remove(Address address, Bytes size) {
    const auto first = segments_.lower_bound(address);
    segments_.erase(first, segments_.lower_bound(address + size));
  }

  /// The bytes from `address` to the next block or the end of the segment; 0 if no segment is known there. Marks
  /// `address` as a block.
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

std::map<std::string, std::string> text_of_settings(const Tables& tables, const Settings& settings) {
  std::map<std::string, std::string> text;
  for (const auto& [key, value] : settings.entries) text[tables[key]] = tables[value];
  return text;
}

}  // namespace

bool is_torch_heap(const Tables& tables, HeapId heap) {
  return tables[heap].level == Level::framework && tables[heap].device >= 0 &&
         tables[tables[heap].name].starts_with("torch");
}

/// One heap; for PyTorch's, derives its blocks event by event.
class BlockSizes::TorchBlocks {
 public:
  explicit TorchBlocks(bool is_torch) : is_torch_(is_torch) {}

  bool is_torch() const { return is_torch_; }
  void set(const TorchSettings& settings) { settings_ = settings; }
  const TorchSettings& settings() const { return settings_; }
  LargeSegments& segments() { return segments_; }

  Bytes block_size(Address address, Bytes requested) {
    const Bytes rounded = settings_.round(requested);
    if (TorchSettings::is_small(rounded) || settings_.expandable) return rounded;
    const Bytes room = segments_.take(address);
    if (room <= rounded) return rounded;
    return settings_.splits(room - rounded, rounded) ? rounded : room;
  }

 private:
  bool is_torch_;
  TorchSettings settings_;
  LargeSegments segments_;
};

BlockSizes::BlockSizes(const Tables& tables) : tables_(tables) {
  for (std::uint32_t h = 0; h < tables.heaps.size(); ++h) heaps_.emplace_back(is_torch_heap(tables, HeapId{h}));
}

BlockSizes::~BlockSizes() = default;

std::optional<Bytes> BlockSizes::see(const Event& event) {
  const HeapId heap = tables_[event.origin].heap;
  TorchBlocks& blocks = heaps_[index(heap)];
  const Bytes size = event.size;
  switch (event.kind) {
    case EventKind::alloc:
      return blocks.is_torch() ? blocks.block_size(event.address, size) : size;
    case EventKind::free_requested:
    case EventKind::free_completed:
      if (!blocks.is_torch() || size <= TorchSettings::max_small) break;
      if (event.kind == EventKind::free_completed || !tables_[heap].observes_completion)
        blocks.segments().give_back(event.address);
      break;
    case EventKind::segment_alloc:
      if (blocks.is_torch() && size != TorchSettings::small_segment) blocks.segments().add(event.address, size);
      break;
    case EventKind::segment_free:
      if (blocks.is_torch()) blocks.segments().remove(event.address, size);
      break;
    case EventKind::settings: {
      const SettingsId id{static_cast<std::uint32_t>(event.value)};
      blocks.set(TorchSettings::recorded(text_of_settings(tables_, tables_[id])));
      break;
    }
    default:
      break;
  }
  return std::nullopt;
}

Bytes BlockSizes::large_run(HeapId heap) const { return heaps_[index(heap)].settings().run_size(false); }

RecordedBlocks recorded_blocks(const Trace& trace) {
  RecordedBlocks result;
  result.sizes.resize(trace.allocation_events.size());
  BlockSizes blocks(trace.tables);
  for (std::size_t i = 0; i < trace.events.count(); ++i)
    if (const auto size = blocks.see(trace.events[i])) result.sizes[index(trace.events.allocation[i])] = *size;
  for (std::uint32_t h = 0; h < trace.tables.heaps.size(); ++h)
    result.large_runs.push_back(blocks.large_run(HeapId{h}));
  return result;
}

}  // namespace memreel
