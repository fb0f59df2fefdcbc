// SPDX-License-Identifier: Apache-2.0
// What counts as running out of memory, and what as a retry.
#include "collector/trace/flight_dumps.h"

#include <gtest/gtest.h>

namespace memreel::agent {
namespace {

using std::chrono::milliseconds, std::chrono::minutes, std::chrono::seconds;

class DumpTriggersTest : public ::testing::Test {
 protected:
  DumpTriggersTest() {
    tables_.strings.emplace_back("heap");
    tables_.heaps.push_back({.name = StringId{1}, .level = Level::driver, .device = 0});
    tables_.heaps.push_back({.name = StringId{1}, .level = Level::framework, .device = 0, .parent = HeapId{1}});
    tables_.threads.push_back({.tid = 1});
    tables_.threads.push_back({.tid = 2});
    for (const std::uint32_t heap : {1U, 2U})
      for (const std::uint32_t thread : {1U, 2U})
        tables_.origins.push_back({.heap = HeapId{heap}, .thread = ThreadId{thread}});
  }

  static constexpr OriginId driver{1}, driver_of_other_thread{2}, framework{3};

  void see(EventKind kind, OriginId origin, Bytes size, Nanoseconds time, std::uint64_t value = 0) {
    triggers_.see({.kind = kind, .origin = origin, .time = time, .size = size, .value = value}, tables_);
  }

  Tables tables_;
  DumpTriggers triggers_{{.used_percent = 90, .growth = DumpOptions::Growth{.bytes = 2_GiB, .time = minutes(1)}}};
};

TEST_F(DumpTriggersTest, AFrameworksFailureIsOneAtOnceWhateverItsDriverRefusedBefore) {
  see(EventKind::alloc_failed, driver, 2_GiB, seconds(1));
  see(EventKind::alloc_failed, driver, 2_GiB, seconds(1));
  see(EventKind::alloc_failed, framework, 2_GiB, seconds(1));
  const auto cause = triggers_.due(seconds(1));
  ASSERT_TRUE(cause);
  EXPECT_EQ(cause->reason, DumpReason::out_of_memory);
  EXPECT_EQ(cause->text, "out of memory on GPU 0: 2.00 GiB refused");
  EXPECT_EQ(triggers_.failures(), 1);
  EXPECT_FALSE(triggers_.due(seconds(100)));
}

TEST_F(DumpTriggersTest, ADriversRefusalIsOneWhenNothingMakesItGood) {
  see(EventKind::alloc_failed, driver, 2_GiB, seconds(1));
  EXPECT_FALSE(triggers_.due(seconds(1)));
  see(EventKind::alloc, driver, 512_MiB, seconds(1));
  see(EventKind::alloc, driver_of_other_thread, 2_GiB, seconds(1));
  EXPECT_TRUE(triggers_.due(seconds(1) + DumpTriggers::patience));
}

TEST_F(DumpTriggersTest, ARetryThatIsServedMakesItGood) {
  see(EventKind::alloc_failed, driver, 2_GiB, seconds(1));
  see(EventKind::alloc, driver, 2_GiB, seconds(1));
  EXPECT_FALSE(triggers_.due(seconds(10)));
  see(EventKind::alloc_failed, driver, 2_GiB, seconds(11));  // with a smaller size, as XLA does
  see(EventKind::alloc_failed, driver, 1800_MiB, seconds(11));
  see(EventKind::alloc, driver, 1600_MiB, seconds(11));
  EXPECT_FALSE(triggers_.due(seconds(20)));
  EXPECT_EQ(triggers_.failures(), 0);
}

TEST_F(DumpTriggersTest, FailuresAreCounted) {
  for (int i = 0; i < 5; ++i) see(EventKind::alloc_failed, framework, 1_GiB, seconds(i));
  EXPECT_TRUE(triggers_.due(seconds(5)));
  EXPECT_FALSE(triggers_.due(seconds(5)));
  EXPECT_EQ(triggers_.failures(), 5);
}

TEST_F(DumpTriggersTest, MuchUsedMemoryIsToldOnceUntilItWasLess) {
  const auto sample = [&](Bytes used, Nanoseconds time) {
    see(EventKind::memory_info, driver, used, time, (100_MiB - used).count);
  };
  sample(80_MiB, seconds(1));
  EXPECT_FALSE(triggers_.due(seconds(1)));
  sample(90_MiB, seconds(2));
  const auto cause = triggers_.due(seconds(2));
  ASSERT_TRUE(cause);
  EXPECT_EQ(cause->reason, DumpReason::used);
  sample(89_MiB, seconds(3));
  sample(91_MiB, seconds(4));
  EXPECT_FALSE(triggers_.due(seconds(4)));
  sample(50_MiB, seconds(5));
  sample(91_MiB, seconds(6));
  EXPECT_TRUE(triggers_.due(seconds(6)));
}

TEST_F(DumpTriggersTest, GrowthIsFromTheLowestOfThatTime) {
  const auto sample = [&](Bytes used, Nanoseconds time) {
    see(EventKind::memory_info, driver, used, time, (100_GiB - used).count);
  };
  sample(10_GiB, seconds(0));
  sample(11_GiB, seconds(50));
  sample(12_GiB - 1_MiB, seconds(59));
  EXPECT_FALSE(triggers_.due(seconds(59)));
  sample(12_GiB + 1_MiB, seconds(70));  // the first sample is too old by then
  EXPECT_FALSE(triggers_.due(seconds(70)));
  sample(13_GiB + 1_MiB, seconds(80));
  const auto cause = triggers_.due(seconds(80));
  ASSERT_TRUE(cause);
  EXPECT_EQ(cause->reason, DumpReason::growth);
  sample(14_GiB, seconds(81));
  EXPECT_FALSE(triggers_.due(seconds(81))) << "told already";
}

}  // namespace
}  // namespace memreel::agent
