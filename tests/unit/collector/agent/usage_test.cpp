// SPDX-License-Identifier: Apache-2.0
// What a running program can query about its heaps.
#include "collector/recorder/usage.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "collector/recorder/recorder.h"

namespace memreel::agent {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Heap driver{.level = Level::driver, .device = 0};
const Heap pool{.level = Level::framework, .device = 1};

HeapUsage held(const Heap& heap, Bytes live, Bytes peak) {
  return {.device = heap.device, .level = heap.level, .live = live, .peak = peak};
}

/// Queries while this thread also acts as the writer thread.
MemoryUsage ask_all(Usage& usage, Usage::Peaks peaks = Usage::Peaks::keep) {
  return usage.ask(5, peaks, 1s, [&] { usage.settle(5); });
}

std::vector<HeapUsage> ask(Usage& usage, Usage::Peaks peaks = Usage::Peaks::keep) {
  return ask_all(usage, peaks).heaps;
}

TEST(Usage, IsWhatIsLiveAndWasAtMost) {
  Usage usage;
  usage.follow({.heap = HeapId{2}, .live = 10_B}, pool, {});
  usage.follow({.heap = HeapId{1}, .live = 100_B}, driver, {});
  usage.follow({.heap = HeapId{2}, .live = 4_B}, pool, {});
  EXPECT_THAT(ask(usage), ElementsAre(held(pool, 4_B, 10_B), held(driver, 100_B, 100_B))) << "in order of first use";
}

TEST(Usage, PeaksBeginAnewWhenAskedTo) {
  Usage usage;
  usage.follow({.heap = HeapId{1}, .live = 100_B}, driver, {});
  usage.follow({.heap = HeapId{1}, .live = 30_B}, driver, {});
  EXPECT_THAT(ask(usage, Usage::Peaks::reset), ElementsAre(held(driver, 30_B, 100_B)));
  EXPECT_THAT(ask(usage), ElementsAre(held(driver, 30_B, 30_B)));
  usage.follow({.heap = HeapId{1}, .live = 0_B}, driver, {});
  EXPECT_THAT(ask(usage), ElementsAre(held(driver, 0_B, 30_B)));
}

TEST(Usage, AFrameworkThatTellsOfNoSegmentsHasWhatItsParentGaveOut) {
  const Heap below{.level = Level::framework, .device = 0, .parent = HeapId{1}};
  Usage usage;
  usage.follow({.heap = HeapId{1}, .live = 100_B}, driver, "cuda.driver");
  usage.follow({.heap = HeapId{3}, .live = 10_B}, below, "torch.cuda");
  usage.follow({.heap = HeapId{4}, .live = 10_B, .reserved = 40_B}, below, "arena");
  const std::vector<HeapUsage> heaps = ask(usage);
  ASSERT_EQ(heaps.size(), 3U);
  EXPECT_EQ(heaps[0].reserved, 0_B);
  EXPECT_EQ(heaps[1].reserved, 100_B);
  EXPECT_EQ(heaps[2].reserved, 40_B);
  EXPECT_EQ(heaps[1].name, "torch.cuda");
}

TEST(Usage, OfADeviceHasEachByteOnce) {
  const Heap gpu{.level = Level::driver, .device = 1};
  const Heap inner{.level = Level::framework, .device = 1, .parent = HeapId{2}};
  Usage usage;
  const auto live = [&] { return ask_all(usage).requested.at(0); };
  usage.follow({.heap = HeapId{1}, .live = 100_B}, gpu, "cuda.driver");
  usage.follow({.heap = HeapId{2}, .reserved = 60_B}, pool, "outer");
  EXPECT_EQ(live(), (RequestedUsage{.device = 1, .live = 40_B, .peak = 40_B})) << "not before the pool has it";
  usage.follow({.heap = HeapId{2}, .live = 50_B, .reserved = 60_B}, pool, "outer");
  usage.follow({.heap = HeapId{3}, .live = 5_B, .reserved = 50_B}, inner, "inner");
  EXPECT_EQ(live().live, 45_B);
  usage.follow({.heap = HeapId{4}, .live = 7_B}, pool, "without segments");
  EXPECT_EQ(live().live, 45_B) << "the driver gave it";
  ask_all(usage, Usage::Peaks::reset);
  EXPECT_EQ(live(), (RequestedUsage{.device = 1, .live = 45_B, .peak = 45_B}));
  usage.follow({.heap = HeapId{5}, .live = 9_B}, pool, "torch.cuda");
  EXPECT_EQ(live().live, 21_B) << "PyTorch may have all of the rest";
}

TEST(Usage, HasTheLatestSampleOfEachDevice) {
  Usage usage;
  usage.sample({.device = 1, .used = 5_B, .free = 95_B});
  usage.sample({.device = 0, .used = 1_B, .free = 9_B});
  usage.sample({.device = 1, .used = 6_B, .free = 94_B});
  EXPECT_THAT(ask_all(usage).devices, ElementsAre(DeviceUsage{.device = 1, .used = 6_B, .free = 94_B},
                                                  DeviceUsage{.device = 0, .used = 1_B, .free = 9_B}));
  usage.forget();
  EXPECT_THAT(ask_all(usage).devices, IsEmpty()) << "of a recording before";
}

TEST(Usage, IsNotToldBeforeAllIsCounted) {
  Usage usage;
  usage.follow({.heap = HeapId{1}, .live = 100_B}, driver, {});
  EXPECT_THAT(usage.ask(5, Usage::Peaks::keep, 5ms, [&] { usage.settle(4); }).heaps, IsEmpty());
  EXPECT_THAT(ask(usage), ElementsAre(held(driver, 100_B, 100_B))) << "who gave up is in nobody's way";
}

TEST(Usage, CountsWhatTheAskingThreadHasDone) {
  Recorder recorder{{.depth = 0}};
  std::atomic<bool> ends = false;
  std::thread writer([&] {
    Bytes live;
    while (!ends) {
      recorder.wait(1ms);
      std::vector<Record> batch;
      recorder.drain(batch);
      for (const Record& record : batch)
        if (record.kind == RecordKind::alloc)
          recorder.usage().follow({.heap = HeapId{1}, .live = live += Bytes{record.size}}, driver, {});
      recorder.settle();
    }
  });
  for (std::uint64_t i = 1; i <= 200; ++i) {
    recorder.emit({.size = 1, .kind = RecordKind::alloc});
    EXPECT_THAT(recorder.ask_usage(Usage::Peaks::keep).heaps, ElementsAre(held(driver, {i}, {i})));
  }
  ends = true;
  writer.join();
}

}  // namespace
}  // namespace memreel::agent
