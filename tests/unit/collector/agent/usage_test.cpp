// What a program is told about its heaps while it runs.
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

/// Asks while this thread is the writing thread as well.
std::vector<HeapUsage> ask(Usage& usage, Usage::Peaks peaks = Usage::Peaks::keep) {
  return usage.ask(5, peaks, 1s, [&] { usage.settle(5); });
}

TEST(Usage, IsWhatIsLiveAndWasAtMost) {
  Usage usage;
  usage.follow(HeapId{2}, pool, 10_B);
  usage.follow(HeapId{1}, driver, 100_B);
  usage.follow(HeapId{2}, pool, 4_B);
  EXPECT_THAT(ask(usage), ElementsAre(held(pool, 4_B, 10_B), held(driver, 100_B, 100_B))) << "in order of first use";
}

TEST(Usage, PeaksBeginAnewWhenAskedTo) {
  Usage usage;
  usage.follow(HeapId{1}, driver, 100_B);
  usage.follow(HeapId{1}, driver, 30_B);
  EXPECT_THAT(ask(usage, Usage::Peaks::reset), ElementsAre(held(driver, 30_B, 100_B)));
  EXPECT_THAT(ask(usage), ElementsAre(held(driver, 30_B, 30_B)));
  usage.follow(HeapId{1}, driver, 0_B);
  EXPECT_THAT(ask(usage), ElementsAre(held(driver, 0_B, 30_B)));
}

TEST(Usage, IsNotToldBeforeAllIsCounted) {
  Usage usage;
  usage.follow(HeapId{1}, driver, 100_B);
  EXPECT_THAT(usage.ask(5, Usage::Peaks::keep, 5ms, [&] { usage.settle(4); }), IsEmpty());
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
        if (record.kind == RecordKind::alloc) recorder.usage().follow(HeapId{1}, driver, live += Bytes{record.size});
      recorder.settle();
    }
  });
  for (std::uint64_t i = 1; i <= 200; ++i) {
    recorder.emit({.size = 1, .kind = RecordKind::alloc});
    EXPECT_THAT(recorder.ask_usage(Usage::Peaks::keep), ElementsAre(held(driver, {i}, {i})));
  }
  ends = true;
  writer.join();
}

}  // namespace
}  // namespace memreel::agent
