// SPDX-License-Identifier: Apache-2.0
#include "collector/stacks/module_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

namespace memreel::stacks {
namespace {

TEST(SeenModules, AModuleIsNewOnce) {
  SeenModules modules;
  EXPECT_TRUE(modules.is_new(0x7f00'0000'0000, 1));
  EXPECT_FALSE(modules.is_new(0x7f00'0000'0000, 1));
  EXPECT_TRUE(modules.is_new(0x7f00'0000'1000, 1));
  EXPECT_FALSE(modules.is_new(0x7f00'0000'0000, 1));
}

TEST(SeenModules, AnotherModuleAtTheSamePlaceIsNew) {
  SeenModules modules;
  modules.is_new(0x7f00'0000'0000, 1);
  EXPECT_TRUE(modules.is_new(0x7f00'0000'0000, 2));
  EXPECT_FALSE(modules.is_new(0x7f00'0000'0000, 2));
  EXPECT_TRUE(modules.is_new(0x7f00'0000'0000, 1));
}

TEST(SeenModules, WhatWasForgottenIsNew) {
  SeenModules modules;
  modules.is_new(0x7f00'0000'0000, 1);
  modules.forget();
  EXPECT_TRUE(modules.is_new(0x7f00'0000'0000, 1));
}

TEST(SeenModules, ModulesOfAProgramDoNotTakeEachOthersPlaces) {
  // As the loader places them: each below the previous one. A large program has two hundred.
  std::mt19937_64 random(1);
  for (int program = 0; program < 200; ++program) {
    const auto modules = std::make_unique<SeenModules>();
    std::vector<std::uintptr_t> begins;
    std::uintptr_t begin = 0x7fff'0000'0000 - (random() & 0xff'ffff'f000);
    for (int i = 0; i < 200; ++i) begins.push_back(begin -= std::uintptr_t{0x1000} << random() % 16);
    for (const std::uintptr_t at : begins) modules->is_new(at, at);
    for (const std::uintptr_t at : begins) EXPECT_FALSE(modules->is_new(at, at)) << "program " << program;
  }
}

TEST(SeenModules, MoreThanHaveRoomAreStillTaken) {
  SeenModules modules;
  for (std::uint64_t i = 1; i <= 100'000; ++i) EXPECT_TRUE(modules.is_new(i << 12U, i));
  EXPECT_TRUE(modules.is_new(1 << 12U, 1));
  EXPECT_FALSE(modules.is_new(1 << 12U, 1));
}

}  // namespace
}  // namespace memreel::stacks
