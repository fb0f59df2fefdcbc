// SPDX-License-Identifier: Apache-2.0
#include "formats/reader/block_decoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "formats/wire/column.h"
#include "formats/wire/framing.h"
#include "formats/wire/message.h"

namespace memreel {

void AllocationNumbers::add(std::uint64_t begin, std::uint64_t count) {
  if (count == 0) return;
  if (runs_.empty() || begin != runs_.back().end) runs_.push_back({begin, begin, next_id_});
  runs_.back().end += count;
  next_id_ += count;
}

AllocationId AllocationNumbers::find(std::uint64_t ordinal) const {
  const auto after = std::ranges::upper_bound(runs_, ordinal, {}, &Run::begin);
  if (after == runs_.begin()) return AllocationId::none;
  const Run& run = *std::prev(after);
  return ordinal < run.end ? id(run, ordinal) : AllocationId::none;
}

namespace {

using wire::Table;

wire::EventColumnsMessage decode_columns_message(std::string_view content) {
  auto columns = wire::read_message<wire::EventColumnsMessage>(content);
  columns.time_unit = std::max(columns.time_unit, 1U);
  columns.address_shift %= 64;
  return columns;
}

std::uint64_t address_of(const wire::EventColumnsMessage& columns, std::uint64_t code) {
  return columns.address_base + (code << columns.address_shift);
}

/// The number of events of each kind.
using KindCounts = std::array<std::size_t, 256>;

KindCounts count_kinds(std::span<const EventKind> kinds) {
  // Four tables: otherwise runs of equal kinds would wait for each other's increment.
  std::array<std::array<std::uint32_t, 256>, 4> counts{};
  for (std::size_t i = 0; i < kinds.size(); ++i) ++counts[i % 4][static_cast<std::uint8_t>(kinds[i])];
  KindCounts total{};
  for (std::size_t kind = 0; kind < total.size(); ++kind)
    for (const auto& part : counts) total[kind] += part[kind];
  return total;
}

std::size_t count_of(const KindCounts& counts, EventKind kind) { return counts[static_cast<std::size_t>(kind)]; }

/// The number of events of known kinds for which `has` holds.
template <class Has>
std::size_t count_if(const KindCounts& counts, Has has) {
  std::size_t total = 0;
  for (std::size_t kind = 0; kind < event_kind_count; ++kind)
    if (has(static_cast<EventKind>(kind))) total += counts[kind];
  return total;
}

void resize(EventColumns& events, std::size_t count) {
  events.kind.resize(count);
  events.origin.resize(count);
  events.stack.resize(count);
  events.allocation.resize(count);
  events.time.resize(count);
  events.address_or_value.resize(count);
  events.size.resize(count);
}

/// The rows of one block inside EventColumns.
struct Rows {
  std::span<EventKind> kind;
  std::span<OriginId> origin;
  std::span<StackId> stack;
  std::span<AllocationId> allocation;
  std::span<Nanoseconds> time;
  std::span<std::uint64_t> address_or_value;
  std::span<Bytes> size;

  Rows(EventColumns& e, std::size_t begin)
      : kind(std::span(e.kind).subspan(begin)),
        origin(std::span(e.origin).subspan(begin)),
        stack(std::span(e.stack).subspan(begin)),
        allocation(std::span(e.allocation).subspan(begin)),
        time(std::span(e.time).subspan(begin)),
        address_or_value(std::span(e.address_or_value).subspan(begin)),
        size(std::span(e.size).subspan(begin)) {}

  std::size_t count() const { return kind.size(); }
};

/// False unless there are as many kinds as events, or one for all of them.
bool read_kinds(std::string_view column, std::span<EventKind> kinds) {
  if (column.size() == kinds.size()) {
    std::memcpy(kinds.data(), column.data(), column.size());
  } else if (column.size() <= 1) {
    const auto kind = column.empty() ? EventKind::unknown : static_cast<EventKind>(column.front());
    std::ranges::fill(kinds, kind);
  } else {
    return false;
  }
  return true;
}

bool read_times(std::string_view column, std::uint64_t unit, Nanoseconds first, std::span<Nanoseconds> times) {
  const auto store = [times](std::size_t i, std::uint64_t delta) { times[i] = Nanoseconds(wire::unzigzag(delta)); };
  if (!wire::read_column(column, times.size(), store)) return false;
  auto now = static_cast<std::uint64_t>(first.count());
  for (Nanoseconds& time : times) {
    now += static_cast<std::uint64_t>(time.count()) * unit;
    time = Nanoseconds(static_cast<std::int64_t>(now));
  }
  return true;
}

/// False if a row does not exist.
template <class Id>
bool read_ids(std::string_view column, Table table, const RowSpace& rows, std::span<Id> ids) {
  const std::uint32_t base = rows.base[table];
  std::uint64_t largest = 0;
  const auto store = [&largest, ids, base](std::size_t i, std::uint64_t row) {
    largest = std::max(largest, row);
    ids[i] = Id{static_cast<std::uint32_t>(row == 0 ? 0 : row + base)};
  };
  return wire::read_column(column, ids.size(), store) && rows.has(table, largest);
}

/// The values of some kinds are row numbers. False if the row does not exist.
bool resolve_value(EventKind kind, const RowSpace& rows, std::uint64_t& value) {
  const auto resolve = [&](Table table, std::uint64_t offset) {
    if (!rows.has(table, value - offset)) return false;
    value = rows(table, value - offset) + offset;
    return true;
  };
  if (kind == EventKind::mark) return resolve(Table::marks, 0);
  if (kind == EventKind::settings) return resolve(Table::settings, 0);
  if (kind == EventKind::sync && value >= sync_edge) return resolve(Table::streams, sync_edge);
  return true;
}

/// Where to find the allocations that a block frees.
struct Allocations {
  const AllocationNumbers& earlier;
  std::uint64_t first_ordinal = 0;  // of the block

  AllocationId operator[](std::uint64_t ordinal) const {
    if (ordinal < first_ordinal) return earlier[ordinal];
    return AllocationId{static_cast<std::uint32_t>(earlier.next_id() + (ordinal - first_ordinal))};
  }
};

/// Reads the addresses and sizes of the frees at `places`, whose allocations are not in the trace.
bool read_unmatched(const wire::EventColumnsMessage& columns, std::span<const std::uint32_t> places, Rows& rows) {
  return wire::read_column(columns.unmatched_address, places.size(),
                           [&](std::size_t i, std::uint64_t code) {
                             rows.address_or_value[places[i]] = address_of(columns, code);
                           }) &&
         wire::read_column(columns.unmatched_size, places.size(),
                           [&](std::size_t i, std::uint64_t size) { rows.size[places[i]] = {size}; });
}

/// False if a column does not have as many values as the kinds require.
bool read_details(const wire::EventColumnsMessage& columns, const KindCounts& kinds, DetailColumns& details) {
  const auto read = [](std::string_view column, std::size_t count, std::vector<std::uint64_t>& values) {
    values.resize(count);
    return wire::read_column(column, count,
                             [to = values.data()](std::size_t i, std::uint64_t value) { to[i] = value; });
  };
  const auto has_own_address = [](EventKind kind) { return has_address(kind) && !is_free(kind); };
  const auto has_own_size = [](EventKind kind) { return has_size(kind) && !is_free(kind); };
  return read(columns.requested_back, count_of(kinds, EventKind::free_requested), details.requested_back) &&
         read(columns.completed_back, count_of(kinds, EventKind::free_completed), details.completed_back) &&
         read(columns.address, count_if(kinds, has_own_address), details.address) &&
         read(columns.size, count_if(kinds, has_own_size), details.size) &&
         read(columns.value, count_if(kinds, has_value), details.value);
}

/// Assigns to each event the fields of its kind. False if a reference is invalid.
bool assign_details(const wire::EventColumnsMessage& columns, const DetailColumns& details, const RowSpace& row_space,
                    const Allocations& allocations, Rows& rows, DecodedBlock& result) {
  constexpr std::uint64_t no_ordinal = ~std::uint64_t{0};
  const std::uint64_t* requested_back = details.requested_back.data();
  const std::uint64_t* completed_back = details.completed_back.data();
  const std::uint64_t* address = details.address.data();
  const std::uint64_t* size = details.size.data();
  const std::uint64_t* value = details.value.data();
  std::uint64_t ordinal = allocations.first_ordinal;  // of the next ALLOC
  std::uint64_t requested = no_ordinal;               // what the latest FREE_REQUESTED named
  std::vector<std::uint32_t> unmatched;

  const auto free = [&](std::size_t i, std::uint64_t freed) {
    if (freed == no_ordinal) {
      unmatched.push_back(static_cast<std::uint32_t>(i));
      return AllocationId::none;
    }
    const AllocationId id = allocations[freed];
    if (id == AllocationId::none) ++result.orphaned_frees;
    return id;
  };

  for (std::size_t i = 0; i < rows.count(); ++i) {
    AllocationId allocation = AllocationId::none;
    std::uint64_t address_or_value = 0;
    Bytes bytes;
    switch (const EventKind kind = rows.kind[i]) {
      case EventKind::alloc:
        allocation = allocations[ordinal++];
        [[fallthrough]];
      case EventKind::segment_alloc:
      case EventKind::segment_free:
      case EventKind::segment_map:
      case EventKind::segment_unmap:
        address_or_value = address_of(columns, *address++);
        bytes = {*size++};
        break;
      case EventKind::free_requested: {
        const std::uint64_t back = *requested_back++;
        if (back > ordinal) return false;
        requested = back == 0 ? no_ordinal : ordinal - back;
        allocation = free(i, requested);
        break;
      }
      case EventKind::free_completed: {
        const std::uint64_t code = *completed_back++;
        if (code > ordinal + 1 || (code == 0 && requested == no_ordinal)) return false;
        allocation = free(i, code == 0 ? requested : code == 1 ? no_ordinal : ordinal - (code - 1));
        break;
      }
      case EventKind::alloc_failed:
      case EventKind::memory_info:
        bytes = {*size++};
        address_or_value = *value++;
        break;
      case EventKind::sync:
      case EventKind::mark:
      case EventKind::settings:
        address_or_value = *value++;
        if (!resolve_value(kind, row_space, address_or_value)) return false;
        break;
      case EventKind::pool_begin:
      case EventKind::pool_end:
      case EventKind::empty_cache:
      case EventKind::pool_created:
      case EventKind::pool_destroyed:
        break;
      default:
        rows.kind[i] = EventKind::unknown;
        ++result.unknown_events;
    }
    rows.allocation[i] = allocation;
    rows.address_or_value[i] = address_or_value;
    rows.size[i] = bytes;
  }
  return read_unmatched(columns, unmatched, rows);
}

}  // namespace

DecodedBlock BlockDecoder::decode(const BlockMessage& block, const RowSpace& row_space,
                                  const AllocationNumbers& allocations, EventColumns& events) {
  const auto content = decompressor_.decompress(block.columns_zstd, block.columns_size);
  if (!content || allocations.next_id() + block.allocation_count > index(AllocationId::none)) return {};
  const wire::EventColumnsMessage columns = decode_columns_message(*content);

  const std::size_t begin = events.count();
  resize(events, begin + block.count);
  Rows rows(events, begin);
  DecodedBlock result;
  result.sound = read_kinds(columns.kind, rows.kind) &&
                 read_times(columns.time_delta, columns.time_unit, block.first_time, rows.time) &&
                 read_ids(columns.origin, Table::origins, row_space, rows.origin) &&
                 read_ids(columns.stack, Table::stacks, row_space, rows.stack);
  if (result.sound) {
    const KindCounts kinds = count_kinds(rows.kind);
    result.sound = count_of(kinds, EventKind::alloc) == block.allocation_count &&
                   read_details(columns, kinds, details_) &&
                   assign_details(columns, details_, row_space, {allocations, block.first_allocation}, rows, result);
  }
  if (!result.sound) {
    resize(events, begin);
    return {};
  }
  return result;
}

void remove_unknown(EventColumns& events, std::size_t begin) {
  std::size_t kept = begin;
  for (std::size_t i = begin; i < events.count(); ++i) {
    if (events.kind[i] == EventKind::unknown) continue;
    events.kind[kept] = events.kind[i];
    events.origin[kept] = events.origin[i];
    events.stack[kept] = events.stack[i];
    events.allocation[kept] = events.allocation[i];
    events.time[kept] = events.time[i];
    events.address_or_value[kept] = events.address_or_value[i];
    events.size[kept] = events.size[i];
    ++kept;
  }
  resize(events, kept);
}

}  // namespace memreel
