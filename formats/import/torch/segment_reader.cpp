#include "formats/import/torch/segment_reader.h"

#include <optional>
#include <utility>

namespace memreel::torch {

bool SegmentReader::read(Value segments, std::string_view list) {
  const auto items = values_.consume(segments, ValueKind::list, list);
  if (!items) return false;
  for (std::size_t i = 0; i < items->size(); ++i) {
    values_.at({.list = list, .item = i});
    if (!read_segment((*items)[i])) return false;
  }
  return true;
}

bool SegmentReader::read_segment(Value dict) {
  const auto items = values_.consume(dict, ValueKind::dict, "the segment");
  if (!items) return false;
  Segment segment;
  PoolStream pool_stream{.pool = PoolKey{}};
  std::int32_t device = 0;
  std::optional<Value> blocks;
  bool has_address = false;
  bool has_size = false;
  for (std::size_t i = 0; i < items->size(); i += 2) {
    const Value value = (*items)[i + 1];
    bool good = true;
    switch (values_.word((*items)[i])) {
      case SnapshotKey::device:
        good = values_.read_device(value, device);
        break;
      case SnapshotKey::device_type:
        good = values_.read_device_type(value, snapshot_.device_type);
        break;
      case SnapshotKey::address:
        good = values_.read_address(value, "address", segment.address.value);
        has_address = true;
        break;
      case SnapshotKey::total_size:
        good = values_.read_size(value, "total_size", segment.size.count);
        has_size = true;
        break;
      case SnapshotKey::stream:
        good = values_.read_unsigned(value, "stream", pool_stream.stream);
        break;
      case SnapshotKey::segment_pool_id:
        good = values_.read_pool(value, pool_stream.pool);
        break;
      case SnapshotKey::is_expandable:
        segment.expandable = values_.arena().as_boolean(value).value_or(false);
        break;
      case SnapshotKey::segment_type:
        segment.small = values_.word(value) == SnapshotKey::small;
        break;
      case SnapshotKey::blocks:
        blocks = value;
        break;
      default:
        break;
    }
    if (!good) return false;
  }
  if (!has_address || !has_size) return values_.fail(has_address ? "has no 'total_size'" : "has no 'address'");
  if (!tables_.read_pool_stream(pool_stream, segment.pool_stream)) return false;
  if (blocks) {
    const auto list = values_.consume(*blocks, ValueKind::list, "blocks");
    if (!list) return false;
    std::uint64_t address = segment.address.value;
    for (const Value block : *list)
      if (!read_block(block, segment, address)) return false;
  }
  DeviceHistory& history = device < 0 ? snapshot_.host : snapshot_.devices[device];
  history.segments.push_back(std::move(segment));
  return true;
}

bool SegmentReader::read_block(Value dict, Segment& segment, std::uint64_t& address) {
  const auto items = values_.consume(dict, ValueKind::dict, "a block");
  if (!items) return false;
  Block block;
  std::uint64_t size = 0;
  std::optional<std::uint64_t> requested;
  SnapshotKey state = SnapshotKey::other;
  std::optional<Value> history;
  for (std::size_t i = 0; i < items->size(); i += 2) {
    const Value value = (*items)[i + 1];
    bool good = true;
    switch (values_.word((*items)[i])) {
      case SnapshotKey::address:  // since 2.1; before, blocks are only known to be contiguous
        good = values_.read_address(value, "address", address);
        break;
      case SnapshotKey::size:
        good = values_.read_size(value, "size", size);
        break;
      case SnapshotKey::requested_size:
        good = values_.read_size(value, "requested_size", requested.emplace());
        break;
      case SnapshotKey::state:
        good = values_.expect(value, ValueKind::text, "state");
        if (good) state = values_.word(value);
        break;
      case SnapshotKey::frames:
        good = tables_.read_stack(value, block.stack);
        break;
      case SnapshotKey::history:
        history = value;
        break;
      case SnapshotKey::user_metadata:
        block.metadata = tables_.name(value);
        break;
      default:
        break;
    }
    if (!good) return false;
  }
  block.address = {address};
  if (block.address > max_address) return values_.fail_address("address");
  address += size;
  block.pending = state == SnapshotKey::active_pending_free || state == SnapshotKey::active_awaiting_free;
  if (state != SnapshotKey::active_allocated && !block.pending) return true;
  block.requested = {requested.value_or(size)};
  block.size = {size};
  if (history && !read_block_history(*history, block)) return false;
  segment.blocks.push_back(block);
  return true;
}

// Up to 2.0 a block lists its allocations, latest first.
bool SegmentReader::read_block_history(Value history, Block& block) {
  const auto records = values_.consume(history, ValueKind::list, "history");
  if (!records || records->empty()) return records.has_value();
  const auto items = values_.consume(records->front(), ValueKind::dict, "a record of 'history'");
  if (!items) return false;
  for (std::size_t i = 0; i < items->size(); i += 2) {
    const SnapshotKey key = values_.word((*items)[i]);
    if (key == SnapshotKey::real_size && !values_.read_size((*items)[i + 1], "real_size", block.requested.count))
      return false;
    if (key == SnapshotKey::frames && !tables_.read_stack((*items)[i + 1], block.stack)) return false;
  }
  return true;
}

}  // namespace memreel::torch
