#include "formats/reader/packet_decoder.h"
#include "formats/wire/framing.h"
#include "formats/wire/message_reader.h"

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

}  // namespace memreel
