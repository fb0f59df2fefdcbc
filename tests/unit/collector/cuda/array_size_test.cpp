// SPDX-License-Identifier: Apache-2.0
#include "collector/cuda/decoder.h"

#include <gtest/gtest.h>

namespace memreel::cuda {
namespace {

TEST(ArraySize, FormatsHaveTheirBits) {
  const auto of = [](int format, unsigned channels) {
    const ArrayDescriptor descriptor{.width = 16, .height = 4, .format = format, .channels = channels};
    return static_cast<double>(array_size(descriptor)) / 64;
  };
  EXPECT_EQ(of(0x01, 1), 1);    // unsigned 8-bit
  EXPECT_EQ(of(0x10, 4), 8);    // half
  EXPECT_EQ(of(0x20, 2), 8);    // float
  EXPECT_EQ(of(0xB0, 3), 1.5);  // NV12
  EXPECT_EQ(of(0x91, 4), 0.5);  // BC1
  EXPECT_EQ(of(0x9D, 4), 1);    // BC7
  EXPECT_EQ(of(0xC2, 4), 4);    // four normalized 8-bit
  EXPECT_EQ(of(0xC5, 4), 8);    // four normalized 16-bit
  EXPECT_EQ(of(0x50, 4), 4);    // 10, 10, 10, 2
}

TEST(ArraySize, ADimensionOfZeroIsNone) {
  EXPECT_EQ(array_size(ArrayDescriptor{.width = 10, .height = 0, .format = 1, .channels = 1}), 10U);
  EXPECT_EQ(array_size(Array3dDescriptor{.width = 10, .height = 5, .depth = 0, .format = 1, .channels = 1, .flags = 0}),
            50U);
}

TEST(ArraySize, LayersDoNotShrinkWithTheLevel) {
  const Array3dDescriptor layered{.width = 4, .height = 4, .depth = 6, .format = 1, .channels = 1, .flags = 1};
  EXPECT_EQ(array_size(layered, 3), 6U * (16 + 4 + 1));
  EXPECT_EQ(array_size(layered, 100), array_size(layered, 64)) << "a nonsensical number of levels ends";
}

}  // namespace
}  // namespace memreel::cuda
