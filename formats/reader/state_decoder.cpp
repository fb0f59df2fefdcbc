// SPDX-License-Identifier: Apache-2.0
// Decodes what a trace says besides its events: sums of older ones, heaps as they were at first, and what keeps memory.
#include "formats/reader/packet_decoder.h"

#include <algorithm>
#include <array>

#include "formats/model/stack_text.h"
#include "formats/wire/column.h"
#include "formats/wire/framing.h"
#include "formats/wire/message.h"

namespace memreel {
namespace {

using wire::MessageReader;

/// False if columns differ in length, or an interval is out of range.
bool decode_rows(std::string_view content, std::vector<FoldedRow>& rows) {
  using Field = wire::FoldedRowsField;
  std::vector<std::uint64_t> interval, heap, stack, allocations, frees, allocated, freed;
  wire::read_columns<Field>(content, {{Field::interval_delta, &interval},
                                      {Field::heap, &heap},
                                      {Field::stack, &stack},
                                      {Field::allocations, &allocations},
                                      {Field::frees, &frees},
                                      {Field::allocated_bytes, &allocated},
                                      {Field::freed_bytes, &freed}});
  for (const auto* column : {&heap, &stack, &allocations, &frees, &allocated, &freed})
    if (column->size() != interval.size()) return false;
  std::uint64_t at = 0;
  rows.reserve(interval.size());
  for (std::size_t i = 0; i < interval.size(); ++i) {
    at += interval[i];
    if (interval[i] > max_folded_intervals || at > max_folded_intervals) return false;
    rows.push_back({.interval = static_cast<std::uint32_t>(at),
                    .heap = HeapId{static_cast<std::uint32_t>(heap[i])},
                    .stack = StackId{static_cast<std::uint32_t>(stack[i])},
                    .allocations = allocations[i],
                    .frees = frees[i],
                    .allocated = {allocated[i]},
                    .freed = {freed[i]}});
  }
  return true;
}

}  // namespace

std::optional<FoldedHistory> decode_folded(std::string_view message, wire::Decompressor& decompressor) {
  using Field = wire::FoldedField;
  FoldedHistory folded;
  std::string_view rows_zstd;
  std::size_t rows_size = 0;
  for (MessageReader<Field> fields(message); fields.next();) {
    switch (fields.field()) {
      case Field::begin_ns:
        folded.begin = Nanoseconds(fields.sint64());
        break;
      case Field::until_ns:
        folded.until = Nanoseconds(fields.sint64());
        break;
      case Field::interval_ns:
        folded.interval = Nanoseconds(fields.sint64());
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
  if (folded.interval.count() <= 0 || rows_size > wire::max_content_size) return std::nullopt;
  const auto content = decompressor.decompress(rows_zstd, rows_size);
  if (!content) return std::nullopt;
  if (!decode_rows(*content, folded.rows)) return std::nullopt;
  return folded;
}

namespace {

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

/// `count` blocks from `first` on; none if there are fewer, or one has an unknown use.
std::optional<std::vector<InitialBlock>> blocks_of(const SegmentColumns& columns, std::size_t first,
                                                   std::uint64_t count) {
  if (count > columns.block_size.size() - first) return std::nullopt;
  std::vector<InitialBlock> blocks;
  blocks.reserve(count);
  for (std::size_t i = first; i < first + count; ++i) {
    if (columns.block_use[i] > static_cast<std::uint64_t>(InitialUse::pending)) return std::nullopt;
    blocks.push_back({.size = {columns.block_size[i]}, .use = static_cast<InitialUse>(columns.block_use[i])});
  }
  return blocks;
}

std::optional<std::vector<InitialSegment>> decode_segments(const SegmentColumns& columns) {
  if (!columns.of_equal_length()) return std::nullopt;
  std::vector<InitialSegment> segments;
  segments.reserve(columns.address.size());
  std::size_t block = 0;
  for (std::size_t i = 0; i < columns.address.size(); ++i) {
    if (columns.origin[i] > ~std::uint32_t{}) return std::nullopt;
    auto blocks = blocks_of(columns, block, columns.blocks[i]);
    if (!blocks) return std::nullopt;
    block += blocks->size();
    segments.push_back({.address = {columns.address[i]},
                        .size = {columns.size[i]},
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
  return is_sound(initial) ? std::optional(std::move(initial)) : std::nullopt;
}

namespace {

constexpr std::uint64_t longest_walk_ns = 1'000'000'000'000;

/// False if the columns differ in length.
bool decode_holder_rows(std::string_view content, PythonHolders& holders) {
  using Field = wire::PythonHoldersRowsField;
  std::vector<std::string> text, kind;
  std::vector<std::uint64_t> length, before, blocks, bytes, address_delta, block_holder;
  for (MessageReader<Field> fields(content); fields.next();) {
    if (fields.field() == Field::text)
      text.emplace_back(fields.bytes());
    else if (fields.field() == Field::kind)
      kind.emplace_back(fields.bytes());
    else
      fields.skip();
  }
  wire::read_columns<Field>(content, {{Field::length, &length},
                                      {Field::length_before, &before},
                                      {Field::blocks, &blocks},
                                      {Field::bytes, &bytes},
                                      {Field::block_address_delta, &address_delta},
                                      {Field::block_holder, &block_holder}});
  const bool equal =
      std::ranges::all_of(std::array{kind.size(), length.size(), before.size(), blocks.size(), bytes.size()},
                          [&](std::size_t size) { return size == text.size(); });
  if (!equal || address_delta.size() != block_holder.size()) return false;
  for (std::size_t i = 0; i < std::min(text.size(), PythonHolders::most_rows); ++i)
    holders.rows.push_back({.text = std::move(text[i]),
                            .kind = std::move(kind[i]),
                            .length = length[i],
                            .length_before = before[i],
                            .blocks = blocks[i],
                            .bytes = {bytes[i]}});
  std::uint64_t address = 0;
  for (std::size_t i = 0; i < std::min(address_delta.size(), PythonHolders::most_blocks); ++i) {
    address += address_delta[i];
    if (block_holder[i] < holders.rows.size())
      holders.blocks.push_back({.address = {address}, .holder = static_cast<std::uint32_t>(block_holder[i])});
  }
  return true;
}

}  // namespace

std::optional<PythonHolders> decode_python_holders(std::string_view message, wire::Decompressor& decompressor) {
  using Field = wire::PythonHoldersField;
  PythonHolders holders;
  std::string_view rows_zstd;
  std::size_t rows_size = 0;
  for (MessageReader<Field> fields(message); fields.next();) {
    switch (fields.field()) {
      case Field::time_ns:
        holders.time = Nanoseconds(fields.sint64());
        break;
      case Field::took_ns:
        holders.took =
            Nanoseconds(static_cast<std::int64_t>(std::min<std::uint64_t>(fields.uint64(), longest_walk_ns)));
        break;
      case Field::objects:
        holders.objects = fields.uint64();
        break;
      case Field::note:
        holders.note = std::string(fields.bytes());
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
  if (!content || !decode_holder_rows(*content, holders)) return std::nullopt;
  tidy(holders);
  return holders;
}

}  // namespace memreel
