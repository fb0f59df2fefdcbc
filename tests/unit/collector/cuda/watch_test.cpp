// SPDX-License-Identifier: Apache-2.0
// Which contexts are known, and as what.
#include "collector/cuda/watch.h"

#include <gtest/gtest.h>

#include <memory>

namespace memreel::cuda {
namespace {

agent::Recorder* no_recorder() { return nullptr; }

class WatchTest : public ::testing::Test {
 protected:
  /// A successful call.
  void call(Call call, const auto& parameters) {
    const CallSite site{.call = call, .parameters = &parameters};
    watch_->exit(site, success, watch_->enter(site));
  }
  void retain(Object context, Device device) {
    call(Call::cuDevicePrimaryCtxRetain, params::PrimaryCtxRetain{&context, device});
  }
  void make_green(Object green, Object context, Device device) {
    call(Call::cuGreenCtxCreate, params::GreenCtxCreate{&green, nullptr, device, 1});
    call(Call::cuCtxFromGreenCtx, params::CtxFromGreenCtx{&context, green});
  }
  static Object object(std::uintptr_t number) { return reinterpret_cast<Object>(number); }  // NOLINT: a handle

  std::unique_ptr<Watch> watch_ = std::make_unique<Watch>(no_recorder);
};

TEST_F(WatchTest, AGreenContextIsItsDevicesPrimaryOne) {
  retain(object(0x10), 0);
  retain(object(0x11), 1);
  make_green(object(0x20), object(0x21), 1);
  EXPECT_EQ(watch_->find_context(object(0x21)), watch_->find_context(object(0x11)));
  EXPECT_EQ(watch_->find_context(object(0x21))->device, 1);
  EXPECT_NE(watch_->find_context(object(0x21)), watch_->find_context(object(0x10)));
}

TEST_F(WatchTest, AGreenContextThatIsGoneTakesNothingAlong) {
  retain(object(0x10), 0);
  make_green(object(0x20), object(0x21), 0);
  watch_->context_gone(object(0x21));
  EXPECT_TRUE(watch_->find_context(object(0x10)));
  watch_->context_gone(object(0x10));
  EXPECT_FALSE(watch_->find_context(object(0x10)));
}

TEST_F(WatchTest, AGreenContextOfAnUnseenPrimaryOneHasItsDevice) {
  make_green(object(0x20), object(0x21), 3);
  ASSERT_TRUE(watch_->find_context(object(0x21)));
  EXPECT_EQ(watch_->find_context(object(0x21))->device, 3);
  EXPECT_EQ(watch_->find_context(object(0x21))->number, 0);
}

TEST_F(WatchTest, GreenContextsAtAnEarlierOnesAddress) {
  make_green(object(0x20), object(0x21), 3);
  make_green(object(0x20), object(0x21), 1);
  EXPECT_EQ(watch_->find_context(object(0x21))->device, 1);
}

TEST_F(WatchTest, AContextThatNobodySawIsNone) {
  EXPECT_FALSE(watch_->find_context(object(0x99)));
  EXPECT_FALSE(watch_->find_context(nullptr));
}

}  // namespace
}  // namespace memreel::cuda
