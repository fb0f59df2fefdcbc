// SPDX-License-Identifier: Apache-2.0
// Segment addresses compared with a real driver's, and the invariants that hold whatever is requested.
#include "analyzer/replay/engine/device.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "tests/unit/analyzer/recorded_on_gpu.h"

namespace memreel {
namespace {

constexpr Address high{std::uint64_t{1} << 45U};

/// Every address of a recording, whose first few requests reveal where the context has space. `first` is the offset of
/// the very first one from a multiple of 32 MiB: recorded addresses are relative to it.
void compare(const std::string& name, Bytes first) {
  const auto address_of = [&](std::int64_t relative) {
    return Address{(high + first).value + static_cast<std::uint64_t>(relative)};
  };
  std::vector<RecordedSegment> seen;
  recorded_on_gpu::for_each_line(name, [&](recorded_on_gpu::Line& line) {
    if (line.command != "m" || seen.size() == 3) return;
    line.word();
    seen.push_back({.size = Bytes{line.word()}});
    seen.back().address = address_of(line.answered());
  });

  DriverAddresses addresses(seen);
  std::map<std::uint64_t, Address> taken;
  std::size_t compared = 0;
  recorded_on_gpu::for_each_line(name, [&](recorded_on_gpu::Line& line) {
    const std::uint64_t slot = line.word();
    if (line.command == "f") return addresses.give_back(taken.at(slot));
    const auto address = addresses.take(Bytes{line.word()});
    ASSERT_TRUE(address);
    ASSERT_EQ(*address, address_of(line.answered()));
    taken[slot] = *address;
    ++compared;
  });
  EXPECT_GT(compared, 250U);
}

TEST(DriverAddresses, AreTheDriversForRequestsOfAllSizes) { compare("driver_regions_mixed.txt", 8_MiB); }
TEST(DriverAddresses, AreTheDriversForLargeRequests) { compare("driver_regions_large.txt", 0_B); }
TEST(DriverAddresses, AreTheDriversForManyThatShareRegions) { compare("driver_regions_small.txt", 8_MiB); }

TEST(DriverAddresses, RepeatWhatWasRecordedAsLongAsRequestsAreTheSame) {
  const std::vector<RecordedSegment> recorded{{.address = high + 64_MiB, .size = 20_MiB},
                                              {.address = high + 512_MiB, .size = 20_MiB},
                                              {.address = high + 96_MiB, .size = 2_MiB},
                                              {.address = high + 24_MiB, .size = 2_MiB}};
  DriverAddresses addresses(recorded);
  for (const auto& [address, size] : recorded) EXPECT_EQ(addresses.take(size), address);
}

TEST(DriverAddresses, FollowTheRulesFromTheFirstOtherRequestOn) {
  const std::vector<RecordedSegment> recorded{{.address = high + 64_MiB, .size = 20_MiB},
                                              {.address = high + 512_MiB, .size = 20_MiB},
                                              {.address = high + 544_MiB, .size = 20_MiB}};
  DriverAddresses addresses(recorded);
  EXPECT_EQ(addresses.take(20_MiB), high + 64_MiB);
  EXPECT_EQ(addresses.take(24_MiB), high + 32_MiB);
  EXPECT_EQ(addresses.take(20_MiB), high) << "it is not recorded for this moment any more";
  EXPECT_EQ(addresses.take(2_MiB), high + 20_MiB) << "the newest region has room";
  EXPECT_EQ(addresses.take(10_MiB), high + 22_MiB);
  EXPECT_EQ(addresses.take(10_MiB), high + 84_MiB) << "the second newest has not: the oldest";
}

TEST(DriverAddresses, UseTheContextsSpaceLastAndNotBeforeItIsSeen) {
  const std::vector<RecordedSegment> recorded{{.address = high + 8_MiB, .size = 20_MiB},
                                              {.address = high - 32_MiB, .size = 20_MiB},
                                              {.address = high + 40_MiB, .size = 16_MiB}};
  DriverAddresses addresses(recorded);
  EXPECT_EQ(addresses.take(20_MiB), high + 8_MiB);
  addresses.give_back(high + 8_MiB);
  EXPECT_EQ(addresses.take(16_MiB), high + 8_MiB) << "it stays when nothing is in it";
  EXPECT_EQ(addresses.take(16_MiB), high + 40_MiB);
  EXPECT_EQ(addresses.take(16_MiB), high - 32_MiB);
  EXPECT_EQ(addresses.take(4_MiB), high - 16_MiB) << "the newest first";
}

TEST(DriverAddresses, NeedSpaceBelowForARegionAmongOthers) {
  DriverAddresses addresses({});
  const Address a = *addresses.take(64_MiB), b = *addresses.take(64_MiB), c = *addresses.take(64_MiB);
  ASSERT_EQ(a - b, 64_MiB);
  addresses.give_back(b);
  EXPECT_EQ(addresses.take(64_MiB), c - 64_MiB);
  EXPECT_EQ(addresses.take(32_MiB), a - 32_MiB);
  EXPECT_EQ(addresses.take(32_MiB), c - 96_MiB);
}

/// Random allocations and frees, some of them as recorded: nothing overlaps, and all memory is reused.
TEST(DriverAddresses, NeverOverlap) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::uint64_t n) { return random() % n; };
    // Any addresses at all, including those that no driver returns.
    std::vector<RecordedSegment> recorded;
    const bool by_page = seed % 2 == 0;
    for (unsigned i = 0; i < 200; ++i)
      recorded.push_back(
          {.address = {high.value + (by_page ? below(300) * (2_MiB).count : below((600_MiB).count))},
           .size = by_page ? 2_MiB * (1 + below(30)) : Bytes{below(3) == 0 ? 0 : below((60_MiB).count)}});
    DriverAddresses addresses(recorded);
    std::map<Address, Bytes> taken;
    Address lowest = high, highest = high + 1_GiB;
    std::size_t asked = 0;
    for (unsigned i = 0; i < 4'000; ++i) {
      if (taken.size() > 40 || (!taken.empty() && below(5) < 2)) {
        auto gone = taken.begin();
        std::advance(gone, below(taken.size()));
        addresses.give_back(gone->first);
        taken.erase(gone);
        continue;
      }
      const bool as_recorded = asked < 50 + 5 * seed && asked < recorded.size();
      const Bytes size = as_recorded ? recorded[asked].size : Bytes{1 + below((200_MiB).count)};
      ++asked;
      const auto address = addresses.take(size);
      ASSERT_TRUE(address);
      const auto after = taken.lower_bound(*address);
      ASSERT_TRUE(after == taken.end() || *address + size <= after->first);
      ASSERT_TRUE(after == taken.begin() || std::prev(after)->first + std::prev(after)->second <= *address);
      taken[*address] = size;
      lowest = std::min(lowest, *address);
      highest = std::max(highest, *address + size);
    }
    EXPECT_LT(highest - lowest, 20_GiB);
  }
}

}  // namespace
}  // namespace memreel
