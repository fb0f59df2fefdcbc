// SPDX-License-Identifier: Apache-2.0
// Finding a driver and opening a GPU, and the messages when that fails.
#include "analyzer/replay/device/gpu.h"

#include <gtest/gtest.h>

#include "tests/unit/device/fake_gpu.h"

namespace memreel {
namespace {

using gpu::Driver;
using testing::fake_leaks;
using testing::open_fake_gpu;

TEST(Driver, SaysWhenThereIsNone) {
  const auto driver = Driver::load("/nowhere/libcuda.so.1");
  ASSERT_FALSE(driver);
  EXPECT_NE(driver.error().message().find("no GPU driver here"), std::string::npos);
}

TEST(Driver, IsTheOneThatTheEnvironmentNames) {
  setenv("MEMREEL_LIBCUDA", FAKE_LIBCUDA, 1);  // NOLINT(concurrency-mt-unsafe)
  const auto driver = Driver::load();
  unsetenv("MEMREEL_LIBCUDA");  // NOLINT(concurrency-mt-unsafe)
  ASSERT_TRUE(driver);
  EXPECT_EQ(driver->library(), FAKE_LIBCUDA);
}

TEST(Driver, NamesTheFunctionThatItLacks) {
  const auto driver = Driver::load(INCOMPLETE_LIBCUDA);
  ASSERT_FALSE(driver);
  EXPECT_NE(driver.error().message().find("cuDriverGetVersion"), std::string::npos);
}

TEST(Gpu, KnowsItsNameAndVersion) {
  const auto gpu = open_fake_gpu();
  ASSERT_TRUE(gpu);
  EXPECT_EQ((*gpu)->name(), "Fake GPU");
  EXPECT_EQ((*gpu)->cuda_version(), "12.4");
}

TEST(Gpu, SaysWhenThereIsNone) {
  const auto gpu = open_fake_gpu({{"FAKE_CUDA_GPUS", "0"}});
  ASSERT_FALSE(gpu);
  EXPECT_NE(gpu.error().message().find("sees no GPU"), std::string::npos);
}

TEST(Gpu, SaysWhenThereAreFewer) {
  const auto gpu = open_fake_gpu({{"FAKE_CUDA_GPUS", "2"}}, 2);
  ASSERT_FALSE(gpu);
  EXPECT_NE(gpu.error().message().find("no GPU 2"), std::string::npos);
}

TEST(Gpu, SaysWhenItCanNotBeUsed) {
  for (const char* function : {"cuInit", "cuDevicePrimaryCtxRetain"}) {
    const auto gpu = open_fake_gpu({{"FAKE_CUDA_BROKEN", function}});
    ASSERT_FALSE(gpu) << function;
    EXPECT_NE(gpu.error().message().find("CUDA_ERROR_LAUNCH_FAILED (719)"), std::string::npos);
  }
}

TEST(Gpu, TellsWantOfMemoryFromFailure) {
  const auto gpu = open_fake_gpu({{"FAKE_CUDA_MEMORY", "4194304"}});
  ASSERT_TRUE(gpu);
  EXPECT_FALSE((*gpu)->malloc(6_MiB));
  EXPECT_FALSE((*gpu)->error());
  (*gpu)->free(12345, 1_B);
  ASSERT_TRUE((*gpu)->error());
  EXPECT_NE((*gpu)->error()->message().find("cuMemFree failed"), std::string::npos);
  EXPECT_FALSE((*gpu)->malloc(1_B)) << "after a failure nothing more is asked";
}

TEST(Gpu, MetersEveryCall) {
  const auto gpu = open_fake_gpu();
  ASSERT_TRUE(gpu);
  const auto pointer = (*gpu)->malloc(3_MiB);
  ASSERT_TRUE(pointer);
  (*gpu)->free(*pointer, 3_MiB);
  (*gpu)->synchronize();
  const auto tally = [&](DriverCall call) { return (*gpu)->tallies()[static_cast<std::size_t>(call)]; };
  EXPECT_EQ(tally(DriverCall::malloc).calls, 1U);
  EXPECT_EQ(tally(DriverCall::malloc).bytes, 3_MiB);
  EXPECT_EQ(tally(DriverCall::free).calls, 1U);
  EXPECT_EQ(tally(DriverCall::sync).calls, 1U);
  EXPECT_EQ(tally(DriverCall::map).calls, 0U);
}

TEST(Gpu, GivesBackWhatAHalfMadeMappingTook) {
  {
    const auto gpu = open_fake_gpu({{"FAKE_CUDA_BROKEN", "cuMemSetAccess"}});
    ASSERT_TRUE(gpu);
    const auto address = (*gpu)->reserve_addresses(4_MiB);
    ASSERT_TRUE(address);
    EXPECT_FALSE((*gpu)->map_new(*address, 2_MiB));
    EXPECT_EQ((*gpu)->driver()->free_addresses(*address, (4_MiB).count), gpu::success);
  }
  EXPECT_EQ(fake_leaks(), 0);
}

}  // namespace
}  // namespace memreel
