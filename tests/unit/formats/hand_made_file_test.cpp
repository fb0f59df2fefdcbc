// SPDX-License-Identifier: Apache-2.0
// Files that our writer never produces: from a newer version, or malicious.
#include <gtest/gtest.h>

#include <cstring>
#include <protozero/pbf_builder.hpp>

#include "formats/reader/trace_index.h"
#include "formats/reader/trace_reader.h"
#include "formats/wire/framing.h"
#include "formats/wire/schema.h"
#include "formats/wire/zstd.h"

namespace memreel {
namespace {

using protozero::pbf_builder;
using wire::PacketField;

template <class Field, class Fill>
std::string make_packet(PacketField kind, Fill fill) {
  std::string packet = wire::open_packet();
  {
    pbf_builder<PacketField> body(packet);
    pbf_builder<Field> message(body, kind);
    fill(message);
  }
  wire::seal_packet(packet);
  return packet;
}

std::string header_packet() {
  return make_packet<wire::HeaderField>(PacketField::header,
                                        [](auto& m) { m.add_uint32(wire::HeaderField::version, 1); });
}

struct HandMadeBlock {
  std::uint32_t count = 1;
  std::uint64_t first_event = 0;
  std::uint64_t first_allocation = 0;
  std::uint32_t allocation_count = 0;
  std::string columns;
  std::uint32_t columns_size_extra = 0;
};

std::string block_packet(const HandMadeBlock& block) {
  using Field = wire::BlockField;
  wire::Compressor compressor(1);
  return make_packet<Field>(PacketField::events, [&](auto& m) {
    const auto frame = compressor.compress(block.columns);
    m.add_uint32(Field::count, block.count);
    m.add_uint64(Field::first_event, block.first_event);
    m.add_uint64(Field::first_allocation, block.first_allocation);
    m.add_bytes(Field::columns_zstd, frame.data(), frame.size());
    m.add_uint32(Field::columns_size, static_cast<std::uint32_t>(block.columns.size()) + block.columns_size_extra);
    m.add_uint32(Field::allocation_count, block.allocation_count);
  });
}

template <class Fill>
std::string columns(Fill fill) {
  std::string bytes;
  pbf_builder<wire::ColumnField> message(bytes);
  fill(message);
  return bytes;
}

Result<Trace> load_text(const std::string& text) { return load(memory_file(std::as_bytes(std::span(text))), "made"); }

using Column = wire::ColumnField;
using wire::Table;

TEST(NewerFile, UnknownPacketsFieldsAndKindsAreSkippedAndCounted) {
  std::string file = header_packet();
  {
    std::string unknown = wire::open_packet();
    protozero::pbf_writer(unknown).add_string(77, "a packet of the future");
    wire::seal_packet(unknown);
    file += unknown;
  }
  const std::string kinds{"\x01\x28\x0A\xC8\x02", 5};  // ALLOC, 40, POOL_END, 200, FREE_REQUESTED
  file +=
      block_packet({.count = 5, .allocation_count = 1, .columns = columns([&](auto& m) {
                                                         m.add_bytes(Column::kind, kinds.data(), kinds.size());
                                                         m.add_bytes(Column::requested_back, "\x01");
                                                         m.add_bytes(Column::address, "\x05");
                                                         m.add_bytes(Column::size, "\x09");
                                                         m.add_bytes(static_cast<Column>(99), "a column of the future");
                                                       })});
  const auto trace = load_text(file);
  ASSERT_TRUE(trace);
  EXPECT_TRUE(trace->read.intact());
  EXPECT_EQ(trace->read.unknown_packets, 1U);
  EXPECT_EQ(trace->read.unknown_events, 2U);
  ASSERT_EQ(trace->events.count(), 3U);
  EXPECT_TRUE(std::ranges::equal(trace->events.kinds(),
                                 std::vector{EventKind::alloc, EventKind::pool_end, EventKind::free_requested}));
  EXPECT_EQ(trace->events[2].address.value, 5U);
  EXPECT_EQ(trace->events[2].size, 9_B);
}

TEST(HostileFile, BlocksThatContradictThemselvesAreDamage) {
  const auto alloc = [](auto& m) { m.add_bytes(Column::kind, "\x01"); };
  const HandMadeBlock sound{.count = 10, .allocation_count = 10, .columns = columns(alloc)};
  {
    const auto trace = load_text(header_packet() + block_packet(sound));
    ASSERT_EQ(trace->events.count(), 10U) << "the block that the cases below spoil";
  }
  std::vector<std::pair<const char*, HandMadeBlock>> cases;
  const auto spoil = [&](const char* what, auto change) {
    cases.emplace_back(what, sound);
    change(cases.back().second);
  };
  const auto with = [&](const char* what, auto fill) {
    spoil(what, [&](HandMadeBlock& b) {
      b.columns = columns([&](auto& m) {
        alloc(m);
        fill(m);
      });
    });
  };
  spoil("no events", [](auto& b) { b.count = 0; });
  spoil("too many events", [](auto& b) { b.count = 65537; });
  spoil("columns larger than they are", [](auto& b) { b.columns_size_extra = 1; });
  spoil("columns of 4 GiB", [](auto& b) { b.columns_size_extra = 0xFFFF'0000; });
  spoil("too many allocations", [](auto& b) { b.first_allocation = 0xFFFF'FFFF; });
  spoil("more allocations than said", [](auto& b) { b.allocation_count = 9; });
  spoil("allocations beyond the last number", [](auto& b) { b.first_allocation = ~std::uint64_t{0}; });
  spoil("an absurd first event", [](auto& b) { b.first_event = ~std::uint64_t{0}; });
  spoil("kinds for 3 events",
        [](auto& b) { b.columns = columns([](auto& m) { m.add_bytes(Column::kind, "\x01\x01\x01"); }); });
  spoil("a column cut off", [](auto& b) { b.columns.pop_back(); });
  with("9 sizes", [](auto& m) { m.add_bytes(Column::size, "123456789"); });
  with("a varint without end", [](auto& m) { m.add_bytes(Column::size, std::string(10, '\x80')); });
  with("a stack that does not exist", [](auto& m) { m.add_bytes(Column::stack, "\x01"); });
  with("an origin that does not exist", [](auto& m) { m.add_bytes(Column::origin, "\x01"); });
  with("a number where bytes belong", [](auto& m) { m.add_uint64(Column::stack, 0); });
  const auto two = [&](const char* what, char kind, Column column, std::string value) {
    spoil(what, [&](HandMadeBlock& b) {
      b = {.count = 2, .allocation_count = 1, .columns = columns([&](auto& m) {
                                                m.add_bytes(Column::kind, std::string{'\x01', kind});
                                                m.add_bytes(column, value);
                                              })};
    });
  };
  two("a free of what comes before the trace", '\x02', Column::requested_back, "\x02");
  two("a completion of what comes before the trace", '\x03', Column::completed_back, "\x03");
  two("a completion of no request", '\x03', Column::time_unit_ns, "");
  two("a mark that does not exist", '\x0D', Column::value, "\x01");
  two("settings that do not exist", '\x0E', Column::value, "\x01");
  two("a wait for a stream that does not exist", '\x0B', Column::value, "\x03");

  for (const auto& [what, block] : cases) {
    const auto trace = load_text(header_packet() + block_packet(block));
    ASSERT_TRUE(trace) << what;
    EXPECT_EQ(trace->events.count(), 0U) << what;
    EXPECT_EQ(trace->read.damaged_packets, 1U) << what;
    EXPECT_FALSE(trace->read.intact()) << what;
    // An intact block behind it is still read.
    const auto more = load_text(header_packet() + block_packet(block) + block_packet(sound));
    EXPECT_EQ(more->events.count(), 10U) << what;
  }
}

TEST(HostileFile, TablesThatContradictThemselvesAreDamage) {
  using Field = wire::TablesField;
  using Rows = wire::RowsField;
  const auto tables_packet = [](const std::string& rows, std::uint32_t size, wire::RowCounts before = {}) {
    wire::Compressor compressor(19);
    return make_packet<Field>(PacketField::tables, [&](auto& m) {
      const auto frame = compressor.compress(rows);
      m.add_bytes(Field::rows_zstd, frame.data(), frame.size());
      m.add_uint32(Field::rows_size, size);
      m.add_bytes(Field::rows_before, wire::encode(before));
    });
  };
  const auto rows = [](auto fill) {
    std::string bytes;
    pbf_builder<Rows> message(bytes);
    fill(message);
    return bytes;
  };
  const std::vector<std::pair<const char*, std::string>> cases{
      {"a stack before the first", rows([](auto& m) {
         m.add_bytes(Rows::stack_frame, std::string(1, '\0'));
         m.add_bytes(Rows::stack_caller_back, "\x05");
       })},
      {"a frame without its file", rows([](auto& m) { m.add_bytes(Rows::frame_function, std::string(1, '\0')); })},
      {"an origin in no heap", rows([](auto& m) {
         m.add_bytes(Rows::origin_heap, "\x01");
         for (const auto field : {Rows::origin_pool, Rows::origin_stream, Rows::origin_thread})
           m.add_bytes(field, std::string(1, '\0'));
       })},
      {"a string that ends too late", std::string("\x0A\x7Fxx")},
  };
  for (const auto& [what, content] : cases) {
    const auto trace = load_text(header_packet() + tables_packet(content, static_cast<std::uint32_t>(content.size())));
    ASSERT_TRUE(trace) << what;
    EXPECT_EQ(trace->tables, Tables{}) << what;
    EXPECT_EQ(trace->read.damaged_packets, 1U) << what;
  }
  // Eight megabytes in a few hundred bytes, repeated: more than such a file may request.
  const std::string text(8U << 20U, 'x');
  const std::string bomb = rows([&](auto& m) { m.add_bytes(Rows::strings, text); });
  std::string bombs = header_packet();
  wire::RowCounts before;
  for (; before[Table::strings] < 50; ++before[Table::strings])
    bombs += tables_packet(bomb, static_cast<std::uint32_t>(bomb.size()), before);
  const auto refused = load_text(bombs);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().what.find("64.00 MiB"), std::string::npos) << refused.error().message();

  wire::RowCounts billions;
  billions[Table::strings] = 4'000'000'000;
  EXPECT_EQ(load_text(header_packet() + tables_packet("", 0, billions))->read.damaged_packets, 1U);
  EXPECT_EQ(load_text(header_packet() + tables_packet("", 0xFFFF'FFFF))->read.damaged_packets, 1U);
}

TEST(HostileFile, NestedPacketsTakeTimeInProportionToTheFile) {
  // A header every 19 bytes, each claiming everything that follows.
  std::string file = header_packet();
  std::string head = wire::open_packet();
  head[1] = head[2] = head[3] = '\xFF';
  for (int i = 0; i < 60'000; ++i) {
    head[4] = '\x00';  // 2 MiB
    file += head;
  }
  file += std::string(3U << 20U, 'x');
  const auto trace = load_text(file);
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->read.damaged_bytes, file.size() - header_packet().size());
}

TEST(HostileFile, AFooterThatLies) {
  using Field = wire::FooterField;
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{19}, ~std::uint64_t{0}}) {
    std::string footer = make_packet<Field>(PacketField::footer, [&](auto& m) {
      const auto list = [&](Field field, std::initializer_list<std::uint64_t> values) {
        m.add_packed_uint64(field, values.begin(), values.end());
      };
      list(Field::packet_field, {3, 5});
      list(Field::packet_size, {header_packet().size(), size});
      list(Field::first_event, {0, 0});
      list(Field::first_time_ns, {0, 0});
      m.add_uint64(Field::event_count, std::uint64_t{1} << 40U);
      m.add_fixed32(Field::footer_size, 0);
    });
    const auto footer_size = static_cast<std::uint32_t>(footer.size());
    std::memcpy(footer.data() + footer.size() - sizeof footer_size, &footer_size, sizeof footer_size);
    wire::seal_packet(footer);
    const std::string file = header_packet() + footer;
    const auto bytes = std::as_bytes(std::span(file));
    const auto trace = load(memory_file(bytes), "made");
    ASSERT_TRUE(trace);
    EXPECT_EQ(trace->events.count(), 0U);
    EXPECT_EQ(trace->read.missing_events, std::uint64_t{1} << 40U);
    const auto index = TraceIndex::open(memory_file(bytes), "made");
    ASSERT_TRUE(index);
    ASSERT_TRUE(index->state_after(~std::uint64_t{0}));
  }
}

}  // namespace
}  // namespace memreel
