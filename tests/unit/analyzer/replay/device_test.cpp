// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/engine/device.h"

#include <gtest/gtest.h>

#include <array>

namespace memreel {
namespace {

TEST(SimulatedDevice, RepeatsRecordedAddresses) {
  const std::array recorded{RecordedSegment{Address{0x900'0000}, 2_MiB}, RecordedSegment{Address{0x100'0000}, 20_MiB}};
  SimulatedDevice device({}, recorded);
  EXPECT_EQ(device.reserve(2_MiB), Address{0x900'0000});
  EXPECT_EQ(device.reserve(20_MiB), Address{0x100'0000});
}

TEST(SimulatedDevice, GivesAscendingAddressesWhereAnyDo) {
  SimulatedDevice device({}, {}, nullptr, SimulatedDevice::Placing::ascending);
  const Address first = *device.reserve(32_MiB), second = *device.reserve(64_MiB);
  EXPECT_GE(second, first + 32_MiB);
  EXPECT_EQ(second.value % (64_MiB).count, 0U) << "halves of a power of two are told apart by their addresses";
  device.release(first, 32_MiB);
  EXPECT_GE(device.reserve(32_MiB), second + 64_MiB);
}

TEST(SimulatedDevice, KeepsSegmentsAndRangesOfAddressesApart) {
  SimulatedDevice device({}, {}, nullptr, SimulatedDevice::Placing::ascending);
  constexpr Bytes huge{std::uint64_t{1} << 44U};
  const auto range = device.reserve_addresses(2_MiB, 2_MiB);
  ASSERT_TRUE(range);
  Address before;
  for (int i = 0; i < 100; ++i) {  // 1.6 PiB in sequence
    const auto segment = device.reserve(huge);
    ASSERT_TRUE(segment);
    EXPECT_GE(*segment, before);
    before = *segment + huge;
    EXPECT_TRUE(*segment >= range->address + range->size || before <= range->address);
    device.release(*segment, huge);
  }
}

TEST(SimulatedDevice, RefusesBeyondItsCapacityAndGivesAgainAfterARelease) {
  SimulatedDevice device({.kind = DeviceModel::Kind::capacity, .capacity = 10_MiB}, {});
  const auto segment = device.reserve(8_MiB);
  ASSERT_TRUE(segment);
  EXPECT_FALSE(device.reserve(4_MiB));
  EXPECT_FALSE(device.extend(2_MiB + 1_B));
  device.release(*segment, 8_MiB);
  EXPECT_TRUE(device.reserve(10_MiB));
}

}  // namespace
}  // namespace memreel
