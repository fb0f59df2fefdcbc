// SPDX-License-Identifier: Apache-2.0
// A fake type in place of PyCode_Type, and code objects that are freed.
#include "collector/python/code_table.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>

namespace memreel::python {
namespace {

using Free = void (*)(void*);

/// The beginning of a PyTypeObject.
struct Type {
  std::size_t references = 1;
  const void* type = nullptr;
  std::size_t size = 0;
  const char* name = "code";
  std::size_t basic_size = 0, item_size = 0;
  Free free = nullptr;
};

int freed = 0, passed_on = 0;
void free_code(void* code) { ++*static_cast<int*>(code), ++freed; }
Free below = nullptr;
void pass_on(void* code) { ++passed_on, below(code); }

/// The process's only interpreter.
Type code_type{.free = free_code};

class CodeDeaths : public ::testing::Test {
 protected:
  void TearDown() override { unwatch_code(); }

  int code_ = 0;
  void die() { code_type.free(&code_); }
};

TEST_F(CodeDeaths, AreNotKnownUntilCodeIsWatched) { EXPECT_EQ(code_epoch(), 0U); }

TEST_F(CodeDeaths, EndAnEpoch) {
  watch_code(&code_type);
  const std::uint32_t epoch = code_epoch();
  EXPECT_NE(epoch, 0U);
  EXPECT_EQ(code_epoch(), epoch);
  const int before = freed;
  die();
  EXPECT_NE(code_epoch(), epoch);
  EXPECT_EQ(code_, 1) << "Python's own function has to free it";
  EXPECT_EQ(freed, before + 1);
}

TEST_F(CodeDeaths, AreUnknownAfterwardsAndTheTypeIsAsItWas) {
  std::set<std::uint32_t> epochs;
  for (int i = 0; i < 5; ++i) {
    watch_code(&code_type);
    watch_code(&code_type);
    EXPECT_NE(code_type.free, free_code);
    EXPECT_TRUE(epochs.insert(code_epoch()).second) << "who may have died meanwhile was not counted";
    unwatch_code();
    EXPECT_EQ(code_type.free, free_code);
    EXPECT_EQ(code_epoch(), 0U);
    die();
  }
  EXPECT_EQ(code_, 5);
}

TEST_F(CodeDeaths, AreUnknownWhileAnothersFunctionStandsAbove) {
  watch_code(&code_type);
  const std::uint32_t epoch = code_epoch();
  below = code_type.free;
  code_type.free = pass_on;
  EXPECT_EQ(code_epoch(), 0U);
  watch_code(&code_type);
  EXPECT_EQ(code_type.free, pass_on) << "ours below and above it would call each other for ever";
  die();
  EXPECT_EQ(code_, 1);
  unwatch_code();
  EXPECT_EQ(code_type.free, pass_on);
  code_type.free = below;  // as another hook does when it uninstalls itself
  EXPECT_NE(code_epoch(), epoch) << "one died";
  unwatch_code();
  EXPECT_EQ(code_type.free, free_code);
}

TEST_F(CodeDeaths, AreUnknownWhereAnotherTookOursAway) {
  below = code_type.free;
  code_type.free = pass_on;  // installed first, unaware that ours came afterwards
  watch_code(&code_type);
  const std::uint32_t epoch = code_epoch();
  code_type.free = free_code;
  EXPECT_EQ(code_epoch(), 0U);
  die();
  watch_code(&code_type);
  EXPECT_NE(code_epoch(), epoch);
  die();
  EXPECT_EQ(code_, 2);
}

TEST_F(CodeDeaths, AreThoseOfCode) {
  Type other{.name = "function", .free = free_code};
  watch_code(&other);
  EXPECT_EQ(code_epoch(), 0U);
  EXPECT_EQ(other.free, free_code);
}

}  // namespace
}  // namespace memreel::python
