// SPDX-License-Identifier: Apache-2.0
#include "formats/model/printable.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "formats/model/quantity.h"

namespace memreel {
namespace {

TEST(Printable, PlainTextStays) {
  for (const char* const text : {"", "train.py:41", "C:\\kernels\\f.cu", "größer als 層", "\xf0\x9f\x94\xa5 fire"}) {
    EXPECT_TRUE(is_printable(text)) << text;
    EXPECT_EQ(printable(text), text);
  }
}

TEST(ShellWord, IsQuotedWhereAShellWouldTakeItApart) {
  for (const char* const text : {"run.reel", "/data/a_b-c/rank=3,x.reel", "größer.reel"})
    EXPECT_EQ(shell_word(text), text);
  EXPECT_EQ(shell_word("/data/my run/a.reel"), "'/data/my run/a.reel'");
  EXPECT_EQ(shell_word("$(rm -r .).reel"), "'$(rm -r .).reel'");
  EXPECT_EQ(shell_word("it's.reel"), R"('it'\''s.reel')");
  EXPECT_EQ(shell_word("-x.reel"), "./-x.reel");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(Printable, WhatATerminalObeysIsSpelledOut) {
  EXPECT_EQ(printable("\x1b]0;owned\x07"), "\\x1b]0;owned\\x07");
  EXPECT_EQ(printable("a\nb\r\tc\x7f"), "a\\nb\\r\\tc\\x7f");
  EXPECT_EQ(printable(std::string_view("\0x", 2)), "\\x00x");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m")
      << "an escape of one character";
}

TEST(Printable, WhatTurnsOrHidesTextIsSpelledOut) {
  EXPECT_EQ(printable("\xe2\x80\xaegnp.exe"), "\\u202egnp.exe");
  EXPECT_EQ(printable("\xe2\x81\xa6x\xe2\x81\xa9"), "\\u2066x\\u2069");
  EXPECT_EQ(printable("a\xe2\x80\xa8"
                      "b"),
            "a\\u2028b");
  EXPECT_EQ(printable("\xef\xbb\xbfx"), "\\ufeffx");
}

TEST(Printable, WhatIsNoUtf8IsSpelledOutByteByByte) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf") << "longer than need be";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a pair";
  EXPECT_EQ(printable("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80") << "beyond Unicode";
  EXPECT_EQ(printable("ab\xe2\x82"), "ab\\xe2\\x82") << "cut off";
  EXPECT_FALSE(is_printable("ab\xe2\x82"));
}

TEST(Printable, WhatItMakesIsPrintable) {
  std::string all;
  for (int first = 0; first < 256; ++first)
    for (int second = 0; second < 256; ++second) all += {static_cast<char>(first), static_cast<char>(second)};
  EXPECT_TRUE(is_printable(printable(all)));
}

TEST(Notation, ChangesHaveASign) {
  EXPECT_EQ(text_of_growth(std::int64_t{1536}), "+1.50 KiB");
  EXPECT_EQ(text_of_growth(std::int64_t{-1536}), "-1.50 KiB");
  EXPECT_EQ(text_of_growth(std::int64_t{0}), "+0 B");
  EXPECT_EQ(text_of_growth(std::numeric_limits<std::int64_t>::min()), "-8.00 EiB");
  EXPECT_EQ(text_of_growth(-1.6), "-2 B");
  EXPECT_EQ(text_of_growth(2048.4), "+2.00 KiB");
  EXPECT_EQ(text_of_growth(3_KiB, 1_KiB), "-2.00 KiB");
  EXPECT_EQ(text_of_growth(1_KiB, 3_KiB), "+2.00 KiB");
}

TEST(Notation, WhatIsLeftHasASignOnlyBelowZero) {
  EXPECT_EQ(text_of_signed(1536), "1.50 KiB");
  EXPECT_EQ(text_of_signed(-1536), "-1.50 KiB");
  EXPECT_EQ(text_of_signed(0), "0 B");
}

TEST(Notation, HexadecimalDigits) {
  static_assert(hex_digit(0x1F) == 'f' && hex_digit(0x1F, 'A') == 'F' && hex_digit(9) == '9' && hex_digit(10) == 'a');
  EXPECT_EQ(hex_of(std::string_view("\x7f"
                                    "E\0\xff",
                                    4)),
            "7f4500ff");
  EXPECT_EQ(hex_of(std::uint64_t{0x7f2}), "00000000000007f2");
  EXPECT_EQ(hexadecimal(0x7f2), "0x7f2");
  EXPECT_EQ(hexadecimal(0), "0x0");
}

}  // namespace
}  // namespace memreel
