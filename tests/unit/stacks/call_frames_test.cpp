// SPDX-License-Identifier: Apache-2.0
// Unwinding tables: the C library's, and hand-made ones.
#include "collector/stacks/call_frames.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "collector/stacks/unwind.h"
#include "tests/unit/stacks/c_library.h"

namespace memreel::stacks {
namespace {

/// The first address of every function in a module's tables.
std::vector<std::uintptr_t> functions_of(const MappedBytes& header) {
  std::vector<std::uintptr_t> functions;
  std::uint32_t count = 0;
  std::memcpy(&count, header.bytes.data() + 8, sizeof count);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::int32_t begin = 0;
    std::memcpy(&begin, header.bytes.data() + 12 + std::size_t{8} * i, sizeof begin);
    functions.push_back(header.address + static_cast<std::uintptr_t>(std::intptr_t{begin}));
  }
  return functions;
}

TEST(CallFrames, EveryFunctionOfTheCLibraryHasRules) {
  const CodeMap map;
  const auto libc = map.find(testing::code_of_c_library());
  ASSERT_TRUE(libc);
  const std::vector<std::uintptr_t> functions = functions_of(libc->tables.header);
  ASSERT_GT(functions.size(), 2000U);
  std::map<UnwindRule::Kind, std::size_t> kinds;
  std::size_t at_entry = 0;
  for (const std::uintptr_t function : functions) {
    const auto row = row_at(libc->tables, function);
    ASSERT_TRUE(row) << std::hex << function;
    const UnwindRule rule = UnwindRule::of(*row, function);
    ++kinds[rule.kind()];
    if (rule.kind() == UnwindRule::Kind::stack_pointer && rule.offset() == 8) ++at_entry;
  }
  // At a function's first instruction only the return address is on the stack; the other entries are parts of functions
  // that compilers placed elsewhere.
  EXPECT_GT(at_entry, functions.size() * 8 / 10);
  EXPECT_LT(kinds[UnwindRule::Kind::full], functions.size() / 50);
  EXPECT_EQ(kinds[UnwindRule::Kind::signal], 1U);
  EXPECT_EQ(kinds[UnwindRule::Kind::unknown], 0U);
}

#if defined(__x86_64__)
TEST(CallFrames, CodeOutsideOfAllFunctions) {
  const CodeMap map;
  const auto libc = map.find(testing::code_of_c_library());
  ASSERT_TRUE(libc);
  const std::vector<std::uintptr_t> functions = functions_of(libc->tables.header);
  EXPECT_FALSE(row_at(libc->tables, functions.front() - 1));
  EXPECT_FALSE(row_at(libc->tables, libc->module.end + 100));
  EXPECT_FALSE(row_at({}, functions.front()));
  int on_stack = 0;
  EXPECT_FALSE(map.find(reinterpret_cast<std::uintptr_t>(&on_stack)));
}

/// A header for one description, which covers [base, base + 100) and runs `program`.
class HandMade {
 public:
  static constexpr std::uintptr_t base = 0x4000'0000;

  explicit HandMade(std::string program) {
    using namespace std::string_literals;
    // Common entry: version 1, "zR", code alignment 1, data alignment -8, return address register 16, 4-byte unsigned
    // absolute pointers; CFA = rsp + 8, return address at CFA - 8.
    std::string common = "\0\0\0\0\1zR\0\1\x78\x10\1\x03\x0C\7\x08\x90\1\0\0"s;
    std::string description = number(4 + static_cast<std::uint32_t>(common.size()) + 4) + number(base) + number(100) +
                              "\0"s + std::move(program);
    bytes_ = number(static_cast<std::uint32_t>(common.size())) + common +
             number(static_cast<std::uint32_t>(description.size())) + description;
    const auto description_at = static_cast<std::uint32_t>(4 + common.size());
    // Encodings: frame pointer relative to here, 4 bytes; a 4-byte count; a table relative to the header.
    header_ = "\1\x1B\3\x3B"s + number(0) + number(1) + number(base - header_at) +
              number(static_cast<std::uint32_t>(frames_at - header_at) + description_at);
  }

  std::optional<FrameRow> row(std::uintptr_t offset) const {
    return row_at({.header = {header_at, std::as_bytes(std::span(header_))},
                   .frames = {frames_at, std::as_bytes(std::span(bytes_))}},
                  base + offset);
  }
  UnwindRule rule(std::uintptr_t offset) const { return UnwindRule::of(*row(offset), base + offset); }

 private:
  static constexpr std::uintptr_t header_at = 0x3000'0000, frames_at = 0x3100'0000;
  static std::string number(std::uintptr_t value) {
    std::string bytes(4, '\0');
    std::memcpy(bytes.data(), &value, 4);
    return bytes;
  }
  std::string header_, bytes_;
};

TEST(CallFrames, RowsChangeWhereTheProgramSays) {
  using namespace std::string_literals;
  // After 1 byte: CFA = rsp + 16, rbp at CFA - 16; after 3 more: CFA = rbp + 16; after 60: remember, CFA = rsp + 8, rbp
  // restored; after 1: as before.
  const HandMade tables("\x41\x0E\x10\x86\x02\x43\x0D\x06\x02\x3C\x0A\x0C\x07\x08\xC6\x41\x0B"s);
  EXPECT_EQ(tables.rule(0).offset(), 8U);
  EXPECT_EQ(tables.rule(0).frame_pointer_below(), 0U);
  EXPECT_EQ(tables.rule(1).kind(), UnwindRule::Kind::stack_pointer);
  EXPECT_EQ(tables.rule(1).offset(), 16U);
  EXPECT_EQ(tables.rule(1).frame_pointer_below(), 16U);
  EXPECT_EQ(tables.rule(4).kind(), UnwindRule::Kind::frame_pointer);
  EXPECT_EQ(tables.rule(63), tables.rule(4));
  EXPECT_EQ(tables.rule(64), tables.rule(0));
  EXPECT_EQ(tables.rule(65), tables.rule(4));
  EXPECT_FALSE(tables.row(100));
}

TEST(CallFrames, RulesOfEveryKind) {
  using namespace std::string_literals;
  using Kind = UnwindRule::Kind;
  EXPECT_EQ(HandMade("\x07\x10"s).rule(0).kind(), Kind::outermost);
  // CFA = *(rbp - 16), rbp at rbp.
  const UnwindRule realigned = HandMade("\x0F\3\x76\x70\6\x10\6\2\x76\0"s).rule(0);
  EXPECT_EQ(realigned.kind(), Kind::realigned);
  EXPECT_EQ(realigned.offset(), 16U);
  // A linkage table: rsp + 8 + ((address & 15) >= 11) * 8.
  const HandMade linkage("\x0F\x0B\x77\x08\x80\0\x3F\x1A\x3B\x2A\x33\x24\x22"s);
  EXPECT_EQ(linkage.rule(10).offset(), 8U);
  EXPECT_EQ(linkage.rule(11).offset(), 16U);
  // Another register; a caller's stack pointer other than the CFA; too large a frame.
  EXPECT_EQ(HandMade("\x0D\x0A"s).rule(0).kind(), Kind::full);
  EXPECT_EQ(HandMade("\x87\x02"s).rule(0).kind(), Kind::full);
  EXPECT_EQ(HandMade("\x0E\x80\x80\x40"s).rule(0).kind(), Kind::full);
  EXPECT_EQ(HandMade("\x0E\xF8\xFF\x0F"s).rule(0).offset(), 0x3'FFF8U);
  // Unknown input.
  EXPECT_FALSE(HandMade("\x3E"s).row(0));
  EXPECT_FALSE(HandMade("\x0B"s).row(0));
}

TEST(CallFrames, Expressions) {
  using namespace std::string_literals;
  std::array<std::uintptr_t, 4> stack{11, 22, 33, 44};
  const auto at = reinterpret_cast<std::uintptr_t>(stack.data());
  Registers registers;
  registers.set(rsp, at);
  const auto value = [&](const std::string& expression) {
    StackMemory memory({.low = at, .high = at + sizeof stack}, at);
    return evaluate(std::as_bytes(std::span(expression)), registers, memory);
  };
  EXPECT_EQ(value("\x77\x08\x06"s), 22U);           // the word at rsp + 8
  EXPECT_EQ(value("\x77\x18\x06\x23\x02"s), 46U);   // the word at rsp + 24, plus 2
  EXPECT_EQ(value("\x3A\x35\x1C"s), 5U);            // 10 - 5
  EXPECT_EQ(value("\x09\xFE\x31\x26\x1F"s), 1U);    // -(-2 >> 1)
  EXPECT_EQ(value("\x32\x33\x14\x1E\x22"s), 8U);    // 2 + 3 * 2
  EXPECT_EQ(value("\x77\x20\x06"s), std::nullopt);  // beyond the stack
  EXPECT_EQ(value("\x77\x01\x06"s), std::nullopt);  // between words
  EXPECT_EQ(value("\x76\x00"s), std::nullopt);      // rbp is unknown
  EXPECT_EQ(value("\x22"s), std::nullopt);          // nothing to add
  EXPECT_EQ(value("\x2F\xFD\xFF"s), std::nullopt);  // a loop
  EXPECT_EQ(value(std::string(17, '\x30')), std::nullopt);
  EXPECT_EQ(value(""s), std::nullopt);
}
#endif

}  // namespace
}  // namespace memreel::stacks
