#include "formats/writer/block_encoder.h"

#include <algorithm>
#include <bit>
#include <protozero/pbf_builder.hpp>
#include <span>

#include "formats/wire/framing.h"
#include "formats/wire/schema.h"

namespace memreel {
namespace {

using protozero::pbf_builder;
using wire::BlockField;
using wire::ColumnField;

/// Wraps around instead of overflowing; the reader adds with the same arithmetic.
std::int64_t delta(Nanoseconds from, Nanoseconds to) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(to.count()) - static_cast<std::uint64_t>(from.count()));
}

/// The coarsest unit in which all differences are whole: sources that count in microseconds save a byte per event.
std::int64_t time_unit_of(std::span<const Nanoseconds> times) {
  const auto divides = [times](std::int64_t unit) {
    for (std::size_t i = 1; i < times.size(); ++i)
      if (delta(times[i - 1], times[i]) % unit != 0) return false;
    return true;
  };
  if (!divides(1'000)) return 1;
  return divides(1'000'000) ? 1'000'000 : 1'000;
}

/// Addresses are written as distances from the lowest, without their common trailing zero bits. Distances from the
/// previous address take more: a reused address then no longer looks like its first use.
struct AddressCode {
  std::uint64_t base = 0;
  int shift = 0;

  std::uint64_t operator()(std::uint64_t address) const { return (address - base) >> shift; }
};

AddressCode address_code_of(const PendingBlock& block) {
  const auto for_each_address = [&block](auto use) {
    std::ranges::for_each(block.address, use);
    std::ranges::for_each(block.unmatched_address, use);
  };
  if (block.address.empty() && block.unmatched_address.empty()) return {};
  std::uint64_t lowest = ~std::uint64_t{0}, used_bits = 0;
  for_each_address([&](std::uint64_t address) { lowest = std::min(lowest, address); });
  for_each_address([&](std::uint64_t address) { used_bits |= address - lowest; });
  return {.base = lowest, .shift = used_bits == 0 ? 0 : std::countr_zero(used_bits)};
}

}  // namespace

void PendingBlock::clear() {
  kind.clear();
  time.clear();
  origin.clear();
  stack.clear();
  requested_back.clear();
  completed_back.clear();
  address.clear();
  size.clear();
  value.clear();
  unmatched_address.clear();
  unmatched_size.clear();
}

void BlockEncoder::encode_columns(const PendingBlock& block) {
  columns_.clear();
  pbf_builder<ColumnField> message(columns_);
  const auto add = [&message](ColumnField field, std::string_view bytes) {
    if (!bytes.empty()) message.add_bytes(field, bytes.data(), bytes.size());
  };
  const auto add_values = [&]<class T>(ColumnField field, const std::vector<T>& values) {
    add(field, encoder_.encode(std::span<const T>(values)));
  };

  // Kinds are one byte each and below 128, so their varint column is a column of bytes.
  add(ColumnField::kind, encoder_.encode(block.count(), [&](std::size_t i) -> std::uint64_t {
    return static_cast<std::uint8_t>(block.kind[i]);
  }));
  const std::int64_t unit = time_unit_of(block.time);
  add(ColumnField::time_delta, encoder_.encode(block.count(), [&](std::size_t i) {
    return i == 0 ? 0 : wire::zigzag(delta(block.time[i - 1], block.time[i]) / unit);
  }));
  message.add_uint32(ColumnField::time_unit_ns, static_cast<std::uint32_t>(unit));
  add_values(ColumnField::origin, block.origin);
  add_values(ColumnField::stack, block.stack);
  add_values(ColumnField::requested_back, block.requested_back);
  add_values(ColumnField::completed_back, block.completed_back);

  const AddressCode code = address_code_of(block);
  const auto add_addresses = [&](ColumnField field, const std::vector<std::uint64_t>& addresses) {
    add(field, encoder_.encode(addresses.size(), [&](std::size_t i) { return code(addresses[i]); }));
  };
  add_addresses(ColumnField::address, block.address);
  if (code.base != 0) message.add_uint64(ColumnField::address_base, code.base);
  if (code.shift != 0) message.add_uint32(ColumnField::address_shift, static_cast<std::uint32_t>(code.shift));
  add_values(ColumnField::size, block.size);
  add_values(ColumnField::value, block.value);
  add_addresses(ColumnField::unmatched_address, block.unmatched_address);
  add_values(ColumnField::unmatched_size, block.unmatched_size);
}

std::string BlockEncoder::encode(const PendingBlock& block, const std::vector<HeapState>& state_after,
                                 const wire::RowCounts& rows, wire::Compressor& compressor) {
  encode_columns(block);
  const std::string_view frame = compressor.compress(columns_);

  std::string packet = wire::open_packet();
  packet.reserve(packet.size() + frame.size() + 256);
  {
    pbf_builder<wire::PacketField> body(packet);
    pbf_builder<BlockField> message(body, wire::PacketField::events);
    message.add_uint32(BlockField::count, static_cast<std::uint32_t>(block.count()));
    message.add_uint64(BlockField::first_event, block.first_event);
    message.add_uint64(BlockField::first_allocation, block.first_allocation);
    message.add_sint64(BlockField::first_time_ns, block.time.front().count());
    message.add_sint64(BlockField::last_time_ns, block.time.back().count());
    for (const HeapState& heap : state_after) {
      pbf_builder<wire::HeapStateField> state(message, BlockField::state);
      state.add_uint32(wire::HeapStateField::heap, index(heap.heap));
      state.add_uint64(wire::HeapStateField::live_bytes, heap.live.count);
      state.add_uint64(wire::HeapStateField::reserved_bytes, heap.reserved.count);
    }
    message.add_bytes(BlockField::rows_before, wire::encode(rows));
    message.add_bytes(BlockField::columns_zstd, frame.data(), frame.size());
    message.add_uint32(BlockField::columns_size, static_cast<std::uint32_t>(columns_.size()));
    message.add_uint32(BlockField::allocation_count,
                       static_cast<std::uint32_t>(std::ranges::count(block.kind, EventKind::alloc)));
  }
  wire::seal_packet(packet);
  return packet;
}

}  // namespace memreel
