// SPDX-License-Identifier: Apache-2.0
#include "formats/model/quantity.h"

#include <gtest/gtest.h>

namespace memreel {
namespace {

TEST(Quantity, BytesReadAsPeopleSayThem) {
  EXPECT_EQ(text_of(0_B), "0 B");
  EXPECT_EQ(text_of(1023_B), "1023 B");
  EXPECT_EQ(text_of(1536_B), "1.50 KiB");
  EXPECT_EQ(text_of(6463422464_B), "6.02 GiB");
  EXPECT_EQ(text_of(Bytes{(1ULL << 30U) - 1}), "1.00 GiB");  // not "1024.00 MiB"
  EXPECT_EQ(text_of(Bytes{~0ULL}), "16.00 EiB");
}

TEST(Quantity, OneOfAKindIsSingular) {
  EXPECT_EQ(counted(0, "step"), "0 steps");
  EXPECT_EQ(counted(1, "step"), "1 step");
  EXPECT_EQ(counted(1200, "free block"), "1,200 free blocks");
}

TEST(Quantity, CountsAreGrouped) {
  EXPECT_EQ(text_of(std::uint64_t{7}), "7");
  EXPECT_EQ(text_of(std::uint64_t{999}), "999");
  EXPECT_EQ(text_of(std::uint64_t{1000}), "1,000");
  EXPECT_EQ(text_of(std::uint64_t{2101598}), "2,101,598");
}

TEST(Quantity, SizesAreReadInEveryUsualForm) {
  EXPECT_EQ(*parse_bytes("4096"), 4096_B);
  EXPECT_EQ(*parse_bytes("10GiB"), 10_GiB);
  EXPECT_EQ(*parse_bytes("10 GiB"), 10_GiB);
  EXPECT_EQ(*parse_bytes("1.5gib"), 1536_MiB);
  EXPECT_EQ(*parse_bytes("500MB"), 500000000_B);
  EXPECT_EQ(*parse_bytes("20M"), 20_MiB);
  EXPECT_EQ(*parse_bytes("18446744073709551615"), Bytes{~0ULL});
}

TEST(Quantity, WhatIsNotASizeIsRefusedWithARemedy) {
  for (const char* const text : {"", "GiB", "10XB", "-5", "1e400", "nan", "99999999999TiB", "10 GiB!", "5 ", " 5", "+5",
                                 "-0", "0x10", "inf", "18446744073709551616"}) {
    const Result<Bytes> size = parse_bytes(text);
    ASSERT_FALSE(size) << text;
    EXPECT_NE(size.error().message().find("10GiB"), std::string::npos);
  }
}

TEST(Quantity, ADeviceOfAFewBytesLacksAUnit) {
  EXPECT_EQ(*parse_device_size("80GiB"), 80_GiB);
  EXPECT_EQ(*parse_device_size("1MiB"), 1_MiB);
  const Result<Bytes> size = parse_device_size("80");
  ASSERT_FALSE(size);
  EXPECT_EQ(size.error().message(), "80 bytes? (write 80GiB)");
  EXPECT_EQ(parse_device_size("much").error().message(), parse_bytes("much").error().message());
}

TEST(Quantity, TextOfASizeReadsBackAsAboutTheSameSize) {
  for (std::uint64_t n = 1; n < (1ULL << 60U); n = n * 3 + 1) {
    const Result<Bytes> size = parse_bytes(text_of(Bytes{n}).substr(0, text_of(Bytes{n}).find("Pi")));
    if (n >= (1ULL << 50U)) break;  // nobody types PiB
    ASSERT_TRUE(size) << n;
    EXPECT_NEAR(static_cast<double>(size->count), static_cast<double>(n), static_cast<double>(n) * 0.006);
  }
}

}  // namespace
}  // namespace memreel
