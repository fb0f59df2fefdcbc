#include <algorithm>
#include <array>

#include "formats/reader/packet_decoder.h"
#include "formats/wire/framing.h"
#include "formats/wire/message_reader.h"

namespace memreel {
namespace {

using wire::MessageReader;

struct SegmentColumns {
  std::vector<std::uint64_t> address, size, origin, small, mapped, range, blocks, block_size, block_use;

  bool of_equal_length() const {
    return std::ranges::all_of(std::array{&size, &origin, &small, &mapped, &range, &blocks},
                               [&](const auto* column) { return column->size() == address.size(); }) &&
           block_use.size() == block_size.size();
  }
};

SegmentColumns read_segments(std::string_view content) {
  using Field = wire::InitialHeapRowsField;
  SegmentColumns columns;
  wire::read_columns<Field>(content, {{Field::segment_address, &columns.address},
                                      {Field::segment_size, &columns.size},
                                      {Field::segment_origin, &columns.origin},
                                      {Field::segment_small, &columns.small},
                                      {Field::segment_mapped, &columns.mapped},
                                      {Field::segment_range, &columns.range},
                                      {Field::segment_blocks, &columns.blocks},
                                      {Field::block_size, &columns.block_size},
                                      {Field::block_use, &columns.block_use}});
  return columns;
}

/// The blocks from `first` on that fill the segment; none if they don't.
std::optional<std::vector<InitialBlock>> blocks_of(const SegmentColumns& columns, std::size_t first,
                                                   std::uint64_t count, std::uint64_t size) {
  if (count > columns.block_size.size() - first) return std::nullopt;
  std::vector<InitialBlock> blocks;
  blocks.reserve(count);
  for (std::size_t i = first; i < first + count; ++i) {
    const std::uint64_t block = columns.block_size[i];
    if (block == 0 || block > size || columns.block_use[i] > static_cast<std::uint64_t>(InitialUse::pending))
      return std::nullopt;
    size -= block;
    blocks.push_back({.size = {block}, .use = static_cast<InitialUse>(columns.block_use[i])});
  }
  return size == 0 ? std::optional(std::move(blocks)) : std::nullopt;
}

std::optional<std::vector<InitialSegment>> decode_segments(const SegmentColumns& columns) {
  if (!columns.of_equal_length()) return std::nullopt;
  std::vector<InitialSegment> segments;
  segments.reserve(columns.address.size());
  std::size_t block = 0;
  std::uint64_t end = 0;  // of the segment before
  for (std::size_t i = 0; i < columns.address.size(); ++i) {
    const std::uint64_t address = columns.address[i], size = columns.size[i];
    const bool sane = address >= end && size > 0 && size <= ~address && columns.range[i] <= address &&
                      columns.origin[i] <= ~std::uint32_t{};
    if (!sane) return std::nullopt;
    auto blocks = blocks_of(columns, block, columns.blocks[i], size);
    if (!blocks) return std::nullopt;
    block += blocks->size();
    end = address + size;
    segments.push_back({.address = {address},
                        .size = {size},
                        .origin = OriginId{static_cast<std::uint32_t>(columns.origin[i])},
                        .small = columns.small[i] != 0,
                        .mapped = columns.mapped[i] != 0,
                        .range = {columns.range[i]},
                        .blocks = *std::move(blocks)});
  }
  return block == columns.block_size.size() ? std::optional(std::move(segments)) : std::nullopt;
}

}  // namespace

std::optional<InitialHeap> decode_initial_heap(std::string_view message, wire::Decompressor& decompressor) {
  using Field = wire::InitialHeapField;
  InitialHeap initial;
  std::string_view rows_zstd;
  std::size_t rows_size = 0;
  for (MessageReader<Field> fields(message); fields.next();) {
    switch (fields.field()) {
      case Field::heap:
        initial.heap = HeapId{fields.uint32()};
        break;
      case Field::rows_zstd:
        rows_zstd = fields.bytes();
        break;
      case Field::rows_size:
        rows_size = fields.uint32();
        break;
      default:
        fields.skip();
    }
  }
  if (rows_size > wire::max_content_size) return std::nullopt;
  const auto content = decompressor.decompress(rows_zstd, rows_size);
  if (!content) return std::nullopt;
  auto segments = decode_segments(read_segments(*content));
  if (!segments) return std::nullopt;
  initial.segments = *std::move(segments);
  return initial;
}

}  // namespace memreel
