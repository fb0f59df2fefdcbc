// SPDX-License-Identifier: Apache-2.0
// Copies of code objects, and what is read from them.
#include "collector/python/code_table.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "collector/python/python_layout.h"

namespace memreel::python {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

CodeView code(std::string_view file, std::string_view name, std::int32_t line = 1, std::string_view lines = "lines") {
  return {{bytes_of(file), 1}, {bytes_of(name), 1}, bytes_of(lines), line};
}

TEST(CodeTable, GivesEqualCodeOneNumber) {
  CodeTable table;
  const std::uint32_t first = table.number_of(code("a.py", "f"));
  EXPECT_NE(first, 0U);
  EXPECT_EQ(table.number_of(code(std::string("a.py"), std::string("f"))), first);
  for (const CodeView& other :
       {code("b.py", "f"), code("a.py", "g"), code("a.py", "f", 2), code("a.py", "f", 1, "Lines"), code("a.p", "yf")})
    EXPECT_NE(table.number_of(other), first);
}

TEST(CodeTable, KeepsWhatItWasGiven) {
  CodeTable table;
  std::string file = "train.py";
  const std::uint32_t number = table.number_of(code(file, "step", 7, "table"));
  file.assign("overwritten");
  EXPECT_EQ(to_utf8(table[number].file), "train.py");
  EXPECT_EQ(to_utf8(table[number].name), "step");
  EXPECT_EQ(table[number].first_line, 7);
  EXPECT_TRUE(table.equal(number, code("train.py", "step", 7, "table")));
  EXPECT_FALSE(table.equal(number, code("train.py", "step", 8, "table")));
}

TEST(CodeTable, CountsWhatItHasNoRoomFor) {
  CodeTable rows(2, 1 << 20U);
  EXPECT_EQ(rows.number_of(code("a", "a")), 1U);
  EXPECT_EQ(rows.number_of(code("b", "b")), 2U);
  EXPECT_EQ(rows.number_of(code("c", "c")), 0U);
  EXPECT_EQ(rows.number_of(code("a", "a")), 1U) << "what it has, it finds";
  EXPECT_EQ(rows.refused(), 1U);

  CodeTable texts(100, 100);
  EXPECT_EQ(texts.number_of(code(std::string(200, 'x'), "f")), 0U);
  EXPECT_EQ(texts.number_of(code("short", "f")), 1U) << "what was refused takes no room";
  EXPECT_EQ(texts.refused(), 1U);

  CodeTable nothing(0, 0);
  EXPECT_EQ(nothing.number_of(code("a", "a")), 0U);
}

TEST(CodeTable, IsFilledByManyThreadsAtOnce) {
  constexpr std::uint32_t codes = 2000;
  CodeTable table(4 * codes);
  std::array<std::vector<std::uint32_t>, 4> numbers;
  std::vector<std::thread> threads;
  threads.reserve(numbers.size());
  for (auto& mine : numbers)
    threads.emplace_back([&mine, &table] {
      for (std::uint32_t i = 0; i < codes; ++i) mine.push_back(table.number_of(code("file.py", std::to_string(i))));
    });
  for (auto& thread : threads) thread.join();
  for (const auto& other : numbers) EXPECT_EQ(other, numbers[0]);
  for (std::uint32_t i = 0; i < codes; ++i) EXPECT_EQ(to_utf8(table[numbers[0][i]].name), std::to_string(i));
}

// Large strings don't fit any more while small ones do: no two may get the same bytes.
TEST(CodeTable, IsFilledToTheBrimByManyThreads) {
  for (int round = 0; round < 300; ++round) {
    InternedBytes table(4000, 20'000);
    std::array<std::vector<std::pair<std::uint32_t, std::string>>, 3> given;
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < given.size(); ++t)
      threads.emplace_back([&mine = given[t], &table, t] {
        for (std::size_t i = 0; i < 300; ++i) {
          std::string text =
              std::to_string(i) + std::string((i * (t + 1)) % 3 == 0 ? 700 : i % 40, 'a' + static_cast<char>(t));
          const std::uint32_t number = table.number_of({bytes_of(text)});
          if (number != 0) mine.emplace_back(number, std::move(text));
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const auto& mine : given)
      for (const auto& [number, text] : mine) ASSERT_TRUE(table.equal(number, {bytes_of(text)})) << text;
    EXPECT_GT(table.refused(), 0U);
  }
}

TEST(InternedBytes, HaveNothingForOtherNumbers) {
  InternedBytes table(10, 1000), nothing(0, 0);
  const std::uint32_t number = table.number_of({bytes_of("")});
  EXPECT_NE(table[number].data(), nullptr) << "an empty string is a string";
  for (const std::uint32_t other : {0U, number + 1, 10U, 11U, 0xFFFF'FFFFU}) {
    EXPECT_EQ(table[other].data(), nullptr) << other;
    EXPECT_EQ(nothing[other].data(), nullptr) << other;
  }
}

TEST(KnownCodes, RemembersAndReplaces) {
  KnownCodes known(64);
  const std::array<int, 100> objects{};
  EXPECT_EQ(known.find(objects.data()).number, 0U);
  known.set(objects.data(), {3, 4});
  EXPECT_EQ(known.find(objects.data()).number, 3U);
  known.set(objects.data(), {5, 6});
  EXPECT_EQ(known.find(objects.data()).number, 5U);
  EXPECT_EQ(known.find(objects.data()).version, 6U);
  for (std::uint32_t i = 0; i < objects.size(); ++i) known.set(&objects[i], {i + 1, 0});
  for (std::uint32_t i = 0; i < objects.size(); ++i) {
    const std::uint32_t number = known.find(&objects[i]).number;
    EXPECT_TRUE(number == 0 || number == i + 1) << "forgetting is allowed, confusing is not";
  }
}

TEST(Text, BecomesUtf8) {
  const auto utf8 = [](auto points) { return to_utf8({std::as_bytes(std::span(points)), sizeof(points[0])}); };
  EXPECT_EQ(utf8(std::array<std::uint8_t, 2>{'a', 0xE4}), "a\u00E4");
  EXPECT_EQ(utf8(std::array<std::uint16_t, 2>{0x8BA1, 'b'}), "\u8BA1b");
  EXPECT_EQ(utf8(std::array<std::uint32_t, 1>{0x1F40D}), "\U0001F40D");
  EXPECT_EQ(utf8(std::array<std::uint16_t, 1>{0xDC80}), "\uFFFD") << "a byte of a file name that is not UTF-8";
  EXPECT_EQ(utf8(std::array<std::uint32_t, 1>{0x7FFFFFFF}), "\uFFFD");
}

// walk_test.py checks the tables of real code against Python's own answers; here are the corner cases.
TEST(Lines, OfDamagedTablesAreUnknown) {
  for (const auto format : {LineFormat::line_ranges, LineFormat::locations}) {
    EXPECT_EQ(line_of(format, {}, 5, 0), 0U);
    EXPECT_EQ(line_of(format, bytes_of("\xf0"), 5, 1000), 0U);
    EXPECT_EQ(line_of(format, bytes_of("\xf0\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f"), 5, 1000), 0U);
  }
  EXPECT_EQ(line_of(LineFormat::lnotab, {}, 5, 0), 5U);
  EXPECT_EQ(line_of(LineFormat::lnotab, bytes_of("\x02"), 5, 1000), 5U);
}

TEST(Lines, OfFramesThatHaveNotStarted) {
  for (const auto format : {LineFormat::lnotab, LineFormat::line_ranges, LineFormat::locations}) {
    EXPECT_EQ(line_of(format, {}, 5, not_started), 5U);
    EXPECT_EQ(line_of(format, {}, -5, not_started), 0U);
  }
}

}  // namespace
}  // namespace memreel::python
