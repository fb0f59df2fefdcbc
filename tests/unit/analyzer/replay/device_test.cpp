#include "analyzer/replay/device.h"

#include <gtest/gtest.h>

#include <array>

namespace memreel {
namespace {

TEST(SimulatedDevice, RepeatsRecordedAddressesInTheirOrderBySize) {
  const std::array recorded{RecordedSegment{Address{0x900'0000}, 2_MiB}, RecordedSegment{Address{0x100'0000}, 20_MiB},
                            RecordedSegment{Address{0x800'0000}, 2_MiB}};
  SimulatedDevice device({}, recorded);
  EXPECT_EQ(device.reserve(2_MiB), Address{0x900'0000});
  EXPECT_EQ(device.reserve(2_MiB), Address{0x800'0000});
  EXPECT_EQ(device.reserve(20_MiB), Address{0x100'0000});
}

TEST(SimulatedDevice, GivesAddressesAboveAllRecordedOnesWhenThereAreNone) {
  const std::array recorded{RecordedSegment{Address{0x900'0000}, 2_MiB}};
  SimulatedDevice device({}, recorded);
  const auto first = device.reserve(4_MiB);
  const auto second = device.reserve(4_MiB);
  ASSERT_TRUE(first && second);
  EXPECT_GE(*first, Address{0x900'0000} + 2_MiB);
  EXPECT_GE(*second, *first + 4_MiB);
}

TEST(SimulatedDevice, NeverPutsASegmentOverAnother) {
  const std::array recorded{RecordedSegment{Address{0x1000'0000}, 20_MiB},
                            RecordedSegment{Address{0x1020'0000}, 2_MiB}};
  SimulatedDevice device({}, recorded);
  ASSERT_EQ(device.reserve(20_MiB), Address{0x1000'0000});
  const auto other = device.reserve(2_MiB);
  ASSERT_TRUE(other);
  EXPECT_GE(*other, Address{0x1000'0000} + 20_MiB);
  device.release(Address{0x1000'0000}, 20_MiB);
  EXPECT_EQ(device.reserve(2_MiB), Address{0x1020'0000});
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
