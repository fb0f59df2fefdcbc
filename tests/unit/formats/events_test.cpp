// SPDX-License-Identifier: Apache-2.0
#include "formats/model/events.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "formats/model/chunked_column.h"
#include "formats/model/packed_column.h"

namespace memreel {
namespace {

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

std::vector<std::uint64_t> rows_of(const PackedColumn& column) {
  std::vector<std::uint64_t> rows;
  for (std::size_t i = 0; i < column.size(); ++i) rows.push_back(column[i]);
  return rows;
}

PackedColumn column_of(const std::vector<std::uint64_t>& rows) {
  PackedColumn column;
  for (const std::uint64_t row : rows) column.push_back(row);
  return column;
}

/// Numbers of every width, from a base that a chunk does not share with the next.
std::vector<std::uint64_t> numbers(std::size_t count, std::uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> rows(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t chunk = i / PackedColumn::chunk_rows;
    const std::uint64_t base = chunk % 2 == 0 ? std::uint64_t{1} << 40U : 0;
    rows[i] = base + (random() >> (8 * (7 - (chunk + seed) % 8) + 1));
  }
  return rows;
}

constexpr std::size_t chunk = PackedColumn::chunk_rows;

TEST(PackedColumn, HoldsWhatWasAdded) {
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{65}, chunk - 1, chunk, chunk + 1, 9 * chunk + 5})
    for (std::uint32_t seed = 0; seed < 3; ++seed) {
      const std::vector<std::uint64_t> rows = numbers(count, seed);
      PackedColumn one_by_one = column_of(rows), at_once;
      for (std::size_t begin = 0; begin < count; begin += 1000)
        at_once.append(std::min<std::size_t>(1000, count - begin), [&](std::size_t i) { return rows[begin + i]; });
      ASSERT_EQ(rows_of(one_by_one), rows);
      ASSERT_EQ(one_by_one, at_once);
      one_by_one.pack();
      ASSERT_EQ(rows_of(one_by_one), rows);
      one_by_one.push_back(most);  // goes on after it was packed
      ASSERT_EQ(one_by_one[count], most);
      ASSERT_EQ(one_by_one.size(), count + 1);
    }
}

TEST(PackedColumn, TakesAsManyBytesAsTheRangeNeeds) {
  PackedColumn column;
  for (std::size_t i = 0; i < 4 * chunk; ++i) column.push_back(0x7F00'0000'0000 + i % 256);
  column.pack();
  EXPECT_LT(column.memory().count, 4 * chunk + 400);
  PackedColumn equal;
  for (std::size_t i = 0; i < 4 * chunk; ++i) equal.push_back(most);
  equal.pack();
  EXPECT_LT(equal.memory().count, 400U);
  EXPECT_EQ(equal[chunk], most);
}

TEST(PackedColumn, RowsChange) {
  std::mt19937_64 random(7);
  std::vector<std::uint64_t> rows = numbers(3 * chunk + 100, 1);
  PackedColumn column = column_of(rows);
  for (int i = 0; i < 3000; ++i) {
    const std::size_t at = random() % rows.size();
    rows[at] = random() >> (random() % 64);
    column.set(at, rows[at]);
    if (i % 100 == 0) {
      column.push_back(rows.emplace_back(random()));
    }
  }
  column.set(5, rows[5] = most);
  column.set(6, rows[6] = 0);
  EXPECT_EQ(rows_of(column), rows);
}

TEST(PackedColumn, CopiesDoNotSeeWhatHappensToEachOther) {
  std::vector<std::uint64_t> rows = numbers(2 * chunk + 100, 2);
  rows[2 * chunk] = most;  // numbers of 8 bytes in the chunk that grows
  rows[2 * chunk + 2] = 0;
  PackedColumn column = column_of(rows);
  const PackedColumn copy = column;
  PackedColumn other = column;
  column.push_back(1);
  column.set(3, 4);
  column.set(2 * chunk + 1, 4);
  other.push_back(2);
  other.set(4, most);
  EXPECT_EQ(rows_of(copy), rows);
  EXPECT_EQ(column[3], 4U);
  EXPECT_EQ(column[2 * chunk + 1], 4U);
  EXPECT_EQ(column[rows.size()], 1U);
  EXPECT_EQ(other[rows.size()], 2U);
  EXPECT_EQ(other[3], rows[3]);
  EXPECT_EQ(column[4], rows[4]);
  other.pack();
  EXPECT_EQ(other[2 * chunk], most);
  EXPECT_EQ(other[2 * chunk + 2], 0U);
}

TEST(PackedColumn, BoundsHoldForAllRows) {
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    const std::vector<std::uint64_t> rows = numbers(2 * chunk + 100, seed);
    PackedColumn column = column_of(rows);
    for (int packed = 0; packed < 2; ++packed, column.pack()) {
      EXPECT_LE(column.bounds().least, std::ranges::min(rows));
      EXPECT_GE(column.bounds().most, std::ranges::max(rows));
    }
  }
}

/// Events of all kinds, as a reader returns them: frees of allocations have their address and size.
EventColumns made_up(std::size_t count) {
  std::mt19937_64 random(11);
  EventColumns events;
  std::vector<Event> made;
  for (std::size_t i = 0; i < count; ++i) {
    Event event{.kind = static_cast<EventKind>(1 + random() % (event_kind_count - 1)),
                .origin = OriginId{static_cast<std::uint32_t>(random() % 3)},
                .stack = StackId{static_cast<std::uint32_t>(random() % 70'000)},
                .time = Nanoseconds{static_cast<std::int64_t>(i * 100) - 5000}};
    if (has_address(event.kind)) event.address = {random() % (std::uint64_t{1} << 47U)};
    if (has_size(event.kind)) event.size = {random() % (std::uint64_t{1} << 36U)};
    if (has_value(event.kind)) event.value = random();
    if (event.kind == EventKind::alloc) {
      event.allocation = AllocationId{static_cast<std::uint32_t>(made.size())};
      made.push_back(event);
    } else if (is_free(event.kind) && random() % 8 != 0 && !made.empty()) {
      const Event& of = made[random() % made.size()];
      event.allocation = of.allocation;
      event.address = of.address;
      event.size = of.size;
    }
    events.push_back(event);
  }
  return events;
}

TEST(Events, AreWhatWasAdded) {
  const EventColumns made = made_up(3 * chunk);
  Events at_once, one_by_one;
  at_once.append(made);
  for (std::size_t i = 0; i < made.count(); ++i) one_by_one.push_back(made[i]);
  EXPECT_EQ(at_once, one_by_one);
  one_by_one.pack();
  EXPECT_EQ(at_once, one_by_one);
  std::size_t allocations = 0;
  for (std::size_t i = 0; i < made.count(); ++i) {
    ASSERT_EQ(at_once[i], made[i]) << i;
    if (made.kind[i] == EventKind::alloc) {
      ASSERT_EQ(at_once.begin_of(AllocationId(allocations++)), i);
    }
  }
  EXPECT_EQ(at_once.allocation_count(), allocations);
  EXPECT_EQ(at_once.find(EventKind::mark, 100),
            static_cast<std::size_t>(std::find(made.kind.begin() + 100, made.kind.end(), EventKind::mark) -
                                     made.kind.begin()));
}

TEST(ChunkedColumn, CopiesDoNotSeeWhatHappensToEachOther) {
  std::vector<std::uint32_t> rows;
  ChunkedColumn<std::uint32_t> column;
  for (std::uint32_t i = 0; i < 2 * chunk + 100; ++i) column.push_back(rows.emplace_back(7 * i));
  const auto rows_of = [](const ChunkedColumn<std::uint32_t>& of) {
    std::vector<std::uint32_t> all;
    for (std::size_t at = 0; at < of.size();) {
      const auto run = of.run(at, of.size());
      all.insert(all.end(), run.begin(), run.end());
      at += run.size();
    }
    return all;
  };
  const ChunkedColumn<std::uint32_t> copy = column;
  ChunkedColumn<std::uint32_t> other = column;
  EXPECT_EQ(copy, column);
  column.push_back(1);
  column.set(3, 4);
  column.set(2 * chunk + 1, 5);
  other.shrink();
  other.append(chunk, [](std::size_t i) { return static_cast<std::uint32_t>(i); });
  other.set(4, 9);
  EXPECT_EQ(rows_of(copy), rows);
  EXPECT_EQ(column[3], 4U);
  EXPECT_EQ(column[2 * chunk + 1], 5U);
  EXPECT_EQ(column[4], rows[4]);
  EXPECT_EQ(column[rows.size()], 1U);
  EXPECT_EQ(column.size(), rows.size() + 1);
  EXPECT_EQ(other[3], rows[3]);
  EXPECT_EQ(other[rows.size() + chunk - 1], chunk - 1);
  EXPECT_FALSE(copy == column);
}

TEST(ChunkedColumn, GoesOnAfterItWasShrunkAndCopiesShareWhatIsFull) {
  ChunkedColumn<std::uint8_t> column;
  for (const std::size_t count : {std::size_t{1}, std::size_t{64}, std::size_t{65}, chunk, chunk + 1, 3 * chunk}) {
    while (column.size() < count) column.push_back(static_cast<std::uint8_t>(column.size()));
    column.shrink();
    EXPECT_LT(column.memory().count, count + 100);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(column[i], static_cast<std::uint8_t>(i)) << count;
  }
  const ChunkedColumn<std::uint8_t> copy = column;
  EXPECT_EQ(copy.run(0, 1).data(), column.run(0, 1).data());
}

TEST(Events, ACopyStaysAsItIs) {
  const EventColumns made = made_up(2 * chunk);
  Events events;
  std::vector<Events> copies;
  EventColumns block;
  for (std::size_t i = 0; i < made.count(); ++i) {
    block.push_back(made[i]);
    if (block.count() < 5'000) continue;
    events.append(block);
    block.clear();
    copies.push_back(events);
    if (copies.size() % 2 == 0) copies.back().pack();
  }
  for (std::size_t i = 0; i < events.count(); i += 999) {
    Event changed = events[i];
    changed.time += Nanoseconds{1};
    changed.stack = StackId{5};
    events.set(i, changed);
  }
  for (std::size_t c = 0; c < copies.size(); ++c) {
    ASSERT_EQ(copies[c].count(), 5'000 * (c + 1));
    for (std::size_t i = 0; i < copies[c].count(); i += 111) ASSERT_EQ(copies[c][i], made[i]) << i;
  }
}

TEST(Events, BlocksAreAllOfThem) {
  const EventColumns made = made_up(10'000);
  Events events;
  events.append(made);
  std::size_t next = 0;
  events.for_each_block([&](const EventColumns& block, std::uint32_t first) {
    ASSERT_EQ(first, next);
    for (std::size_t i = 0; i < block.count(); ++i) ASSERT_EQ(block[i], made[next++]);
  });
  EXPECT_EQ(next, made.count());
}

TEST(Events, FreesFollowTheirAllocation) {
  Events events;
  events.push_back({.kind = EventKind::alloc, .allocation = AllocationId{0}, .address = {512}, .size = 100_B});
  events.push_back({.kind = EventKind::mark, .value = 3});
  events.push_back({.kind = EventKind::free_requested, .allocation = AllocationId{0}});
  events.push_back({.kind = EventKind::free_completed, .allocation = AllocationId{7}, .address = {4096}, .size = 1_B});
  EXPECT_EQ(events.address(2).value, 512U);
  EXPECT_EQ(events.size(2), 100_B);
  EXPECT_EQ(events.allocation(3), AllocationId::none);  // there is no such allocation
  EXPECT_EQ(events.address(3).value, 4096U);
  events.set_address(AllocationId{0}, {1024});
  EXPECT_EQ(events.address(0).value, 1024U);
  EXPECT_EQ(events.address(2).value, 1024U);
  Event replaced = events[2];
  replaced.time = Nanoseconds{9};
  events.set(2, replaced);
  EXPECT_EQ(events[2], replaced);
  Event made = events[0];
  made.origin = OriginId{3};
  events.set(0, made);
  EXPECT_EQ(events[0], made);
  EXPECT_EQ(events.origin_of(AllocationId{0}), OriginId{3});
  events.renumber_stacks([](StackId) { return StackId{70'000}; });
  EXPECT_EQ(events.stack(3), StackId{70'000});
}

/// With many stacks and addresses.
Events events_of_allocations(std::uint32_t count, std::span<const EventKind> ends) {
  std::mt19937_64 random(5);
  Events events;
  for (std::uint32_t id = 0; id < count; ++id) {
    const Event alloc{.kind = EventKind::alloc,
                      .origin = OriginId{1 + id % 5},
                      .stack = StackId{static_cast<std::uint32_t>(random() % 60'000)},
                      .allocation = AllocationId{id},
                      .time = Nanoseconds{static_cast<std::int64_t>(1'700'000'000'000'000'000U + id * 20'000ULL)},
                      .address = {0x7F00'0000'0000 + random() % (std::uint64_t{80} << 30U)},
                      .size = {random() % (std::uint64_t{4} << 30U)}};
    events.push_back(alloc);
    for (const EventKind kind : ends) {
      Event free = alloc;
      free.kind = kind;
      events.push_back(free);
    }
  }
  events.pack();
  return events;
}

TEST(Events, TakeAtMostTwentyBytesEach) {
  // As PyTorch's history has them, and as a recorder of the driver.
  const std::array<EventKind, 2> torch{EventKind::free_requested, EventKind::free_completed};
  const std::array<EventKind, 1> driver{EventKind::free_requested};
  for (const std::span<const EventKind> ends :
       {std::span<const EventKind>(torch), std::span<const EventKind>(driver)}) {
    const Events events = events_of_allocations(300'000, ends);
    EXPECT_LE(events.memory().count, 20 * events.count()) << ends.size();
  }
}

}  // namespace
}  // namespace memreel
