// SPDX-License-Identifier: Apache-2.0
#include "collector/torch/reporters.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <bit>

namespace memreel::torch {
namespace {

// Reading such a return value as a std::shared_ptr, which has two words, crashes the program.
TEST(Autograd, NodesThatCountTheirOwnersAreLeftAlone) {
  void* const library = dlopen(FAKE_TORCH_CPU, RTLD_NOW | RTLD_GLOBAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto backward = std::bit_cast<void (*)(int)>(dlsym(library, "fake_backward"));
  const auto owners = std::bit_cast<std::uint64_t (*)()>(dlsym(library, "fake_owners"));
  look_for_autograd();
  EXPECT_EQ(autograd_position().sequence, 41U);
  EXPECT_FALSE(autograd_position().backward);
  backward(7);
  EXPECT_TRUE(autograd_position().backward);
  EXPECT_EQ(autograd_position().sequence, 0U);
  EXPECT_EQ(owners(), 1U);
  backward(-1);
  EXPECT_FALSE(autograd_position().backward);
}

}  // namespace
}  // namespace memreel::torch
