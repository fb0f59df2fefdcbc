// SPDX-License-Identifier: Apache-2.0
// Decodes what a trace says besides its events: sums of older ones, heaps as they were at first, and what keeps memory.
#include "formats/reader/packet_decoder.h"

#include <algorithm>

#include "formats/wire/message.h"

namespace memreel {

std::optional<FoldedHistory> decode_folded(std::string_view message, wire::Decompressor& decompressor) {
  const auto read = wire::read_message<wire::FoldedMessage>(message);
  const auto content = wire::unpack_rows(read, decompressor);
  if (read.interval.count() <= 0 || !content) return std::nullopt;
  wire::ColumnsOf<FoldedRow> rows;
  wire::read_columns(*content, rows);
  if (!rows.have_equal_length()) return std::nullopt;
  FoldedHistory folded{.begin = read.begin, .until = read.until, .interval = read.interval};
  rows.append_to(folded.rows);
  if (!folded.rows.empty() && folded.rows.back().interval > max_folded_intervals) return std::nullopt;  // the highest
  return folded;
}

namespace {

/// None if columns differ in length, an origin is none, or the segments do not have all blocks between them.
std::optional<std::vector<InitialSegment>> decode_segments(std::string_view content) {
  wire::ColumnsOf<InitialSegment> segment_columns;
  wire::ColumnsOf<wire::BlockCount> count_columns;
  wire::ColumnsOf<InitialBlock> block_columns;
  wire::read_columns(content, segment_columns, count_columns, block_columns);
  if (!segment_columns.have_equal_length() || count_columns.count() != segment_columns.count() ||
      !block_columns.have_equal_length())
    return std::nullopt;
  std::vector<InitialSegment> segments;
  std::vector<wire::BlockCount> counts;
  std::vector<InitialBlock> blocks;
  wire::FileRows origins;
  segment_columns.append_to(segments, origins);
  count_columns.append_to(counts);
  block_columns.append_to(blocks);
  if (origins.out_of_range) return std::nullopt;
  std::span<const InitialBlock> rest(blocks);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (counts[i].count > rest.size()) return std::nullopt;
    segments[i].blocks.assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(counts[i].count));
    rest = rest.subspan(counts[i].count);
  }
  return rest.empty() ? std::optional(std::move(segments)) : std::nullopt;
}

}  // namespace

std::optional<InitialHeap> decode_initial_heap(std::string_view message, wire::Decompressor& decompressor) {
  const auto read = wire::read_message<wire::InitialHeapMessage>(message);
  const auto content = wire::unpack_rows(read, decompressor);
  if (!content) return std::nullopt;
  auto segments = decode_segments(*content);
  if (!segments) return std::nullopt;
  InitialHeap initial{.heap = read.heap, .segments = *std::move(segments)};
  return is_sound(initial) ? std::optional(std::move(initial)) : std::nullopt;
}

namespace {

constexpr std::uint64_t longest_walk_ns = 1'000'000'000'000;

/// False if the columns differ in length.
bool decode_holder_rows(std::string_view content, PythonHolders& holders) {
  using Row = wire::MembersOf<PythonHolder>;
  std::vector<std::string_view> text, kind;
  wire::ColumnsOf<PythonHolder> rows;
  wire::ColumnsOf<PythonBlock> blocks;
  for (wire::MessageReader<std::uint32_t> fields(content); fields.next();) {
    if (fields.field() == Row::text)
      text.push_back(fields.bytes());
    else if (fields.field() == Row::kind)
      kind.push_back(fields.bytes());
    else if (!rows.read(fields) && !blocks.read(fields))
      fields.skip();
  }
  if (!rows.have_equal_length() || text.size() != rows.count() || kind.size() != rows.count() ||
      !blocks.have_equal_length())
    return false;
  rows.append_to(holders.rows);
  blocks.append_to(holders.blocks);
  holders.rows.resize(std::min(holders.rows.size(), PythonHolders::most_rows));
  holders.blocks.resize(std::min(holders.blocks.size(), PythonHolders::most_blocks));
  for (std::size_t i = 0; i < holders.rows.size(); ++i) {
    holders.rows[i].text = text[i];
    holders.rows[i].kind = kind[i];
  }
  return true;
}

}  // namespace

std::optional<PythonHolders> decode_python_holders(std::string_view message, wire::Decompressor& decompressor) {
  const auto read = wire::read_message<wire::PythonHoldersMessage>(message);
  const auto content = wire::unpack_rows(read, decompressor);
  PythonHolders holders{.time = read.time,
                        .took = Nanoseconds(static_cast<std::int64_t>(std::min(read.took_ns, longest_walk_ns))),
                        .objects = read.objects,
                        .note = read.note};
  if (!content || !decode_holder_rows(*content, holders)) return std::nullopt;
  tidy(holders);
  return holders;
}

}  // namespace memreel
