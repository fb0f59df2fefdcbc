// SPDX-License-Identifier: Apache-2.0
// An annotated program and the records that it produces.
#include "collector/annotate/annotations.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "collector/include/memreel/memreel.h"
#include "collector/recorder/recorder.h"

namespace memreel::annotate {
namespace {

using agent::Record;
using agent::RecordKind;
using agent::Space;

template <class Function>
Function* annotated(const char* name) {
  void* const handle = dlopen(ANNOTATED_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(handle, nullptr) << dlerror();  // NOLINT(concurrency-mt-unsafe)
  return std::bit_cast<Function*>(dlsym(handle, name));
}

class Annotations : public ::testing::Test {
 public:
  Annotations() : recorder_(agent::Options{}) { agent::set_recorder(&recorder_); }
  ~Annotations() override { agent::set_recorder(nullptr); }

 protected:
  std::vector<Record> drained() {
    std::vector<Record> all, batch;
    recorder_.drain(batch);
    for (const Record& record : batch)
      if (record.kind != RecordKind::thread_began) all.push_back(record);
    return all;
  }
  std::string name(std::uint64_t number) {
    const auto bytes = recorder_.names()[static_cast<std::uint32_t>(number)];
    std::string text;
    for (const std::byte byte : bytes) text.push_back(static_cast<char>(byte));
    return text;
  }

  agent::Recorder recorder_;
};

TEST_F(Annotations, OfALibraryInC) {
  EXPECT_EQ(annotated<int()>("annotated_connected")(), 1);
  const memreel_pool parent = annotated<memreel_pool(const char*, memreel_pool, int)>("annotated_pool")("outer", 0, 1);
  const memreel_pool pool =
      annotated<memreel_pool(const char*, memreel_pool, int)>("annotated_pool")("inner", parent, 1);
  annotated<void(memreel_pool)>("annotated_life")(pool);

  const auto records = drained();
  const std::vector<RecordKind> expected{
      RecordKind::own_pool_made, RecordKind::own_pool_made, RecordKind::segment_added,  RecordKind::alloc,
      RecordKind::alloc,         RecordKind::free,          RecordKind::free_requested, RecordKind::free_completed,
      RecordKind::alloc,         RecordKind::free,          RecordKind::alloc_failed,   RecordKind::segment_removed,
      RecordKind::own_pool_gone};
  ASSERT_EQ(records.size(), expected.size());
  for (std::size_t i = 0; i < records.size(); ++i) EXPECT_EQ(records[i].kind, expected[i]) << i;
  EXPECT_EQ(name(records[0].address), "outer");
  EXPECT_EQ(name(records[1].address), "inner");
  EXPECT_EQ(records[0].stream, 0U);
  EXPECT_EQ(records[1].stream, parent);
  EXPECT_EQ(records[1].device, 1);
  EXPECT_EQ(records[2].size, 4096U);
  EXPECT_EQ(records[3].address, records[2].address);
  EXPECT_EQ(records[3].size, 100U);
  EXPECT_NE(records[3].stack, stacks::StackKey::none);
  EXPECT_EQ(records[4].stream, 7U);
  EXPECT_EQ(records[8].stack, records[9].stack) << "a batch is one call";
  EXPECT_EQ(records[10].size, 1U << 30U);
  for (std::size_t i = 1; i < records.size(); ++i) {
    EXPECT_EQ(records[i].object, pool);
    EXPECT_EQ(records[i].space, Space::own);
  }
}

TEST_F(Annotations, AreMarks) {
  recorder_.wait_for_attention();  // a snapshot would wait until a trace has everything, and there is none
  annotated<void()>("annotated_marks")();
  const auto records = drained();
  ASSERT_EQ(records.size(), 4U);
  const std::vector<std::string> names{"epoch", "checkpoint", "step", "epoch"};
  const std::vector<std::uint16_t> phases{MEMREEL_BEGIN, MEMREEL_INSTANT, MEMREEL_INSTANT, MEMREEL_END};
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].kind, RecordKind::mark);
    EXPECT_EQ(name(records[i].object), names[i]);
    EXPECT_EQ(records[i].status, phases[i]);
  }
  EXPECT_EQ(records[0].object, records[3].object);
}

TEST_F(Annotations, OfObjectsEndWithThem) {
  {
    const annotated_pool pool("scratch", MEMREEL_POOL_RING);
    const scoped_tag tag("work");
    pool.alloc(&pool, 64);
    pool.oom(1);
  }
  std::vector<RecordKind> kinds;
  for (const Record& record : drained()) kinds.push_back(record.kind);
  EXPECT_EQ(kinds, (std::vector<RecordKind>{RecordKind::own_pool_made, RecordKind::mark, RecordKind::alloc,
                                            RecordKind::alloc_failed, RecordKind::mark, RecordKind::own_pool_gone}));
}

TEST_F(Annotations, IgnoreNonsense) {
  memreel_alloc(0, &recorder_, 100, nullptr);
  const memreel_event unknown{99, 0, 1, 0, 0, 0};
  memreel_batch(&unknown, 1);
  memreel_batch(nullptr, 5);
  memreel_mark(nullptr);
  EXPECT_LE(drained().size(), 1U);
}

TEST_F(Annotations, ToldWhatTheProgramHolds) {
  const HeapId first{1}, second{2};
  recorder_.usage().follow({.heap = first, .live = 20_B}, {.level = Level::driver, .device = 3}, {});
  recorder_.usage().follow({.heap = first, .live = 5_B}, {.level = Level::driver, .device = 3}, {});
  recorder_.usage().follow({.heap = second, .live = 1_B}, {.level = Level::framework, .device = -1}, {});
  std::jthread writer([&](const std::stop_token& ends) {
    while (!ends.stop_requested()) {
      recorder_.wait(std::chrono::milliseconds(1));
      std::vector<Record> batch;
      recorder_.drain(batch);
      recorder_.settle();
    }
  });
  EXPECT_EQ(memreel_usage_now(nullptr, 0, 0), 2U);
  std::array<memreel_usage, 3> heaps{};
  ASSERT_EQ(memreel_usage_now(heaps.data(), 1, 1), 2U) << "however little room there is";
  EXPECT_EQ(heaps[0].device, 3);
  EXPECT_EQ(heaps[0].level, 0U);
  EXPECT_EQ(heaps[0].live_bytes, 5U);
  EXPECT_EQ(heaps[0].peak_bytes, 20U);
  EXPECT_EQ(heaps[1].peak_bytes, 0U) << "nothing is written where there is no room";
  ASSERT_EQ(memreel_usage_now(heaps.data(), heaps.size(), 0), 2U);
  EXPECT_EQ(heaps[0].peak_bytes, 5U);
  EXPECT_EQ(heaps[1].device, -1);
  EXPECT_EQ(heaps[1].level, 1U);
}

TEST_F(Annotations, LeaveErrnoAlone) {
  errno = EAGAIN;
  memreel_mark("m");
  EXPECT_EQ(errno, EAGAIN);
}

TEST(AnnotationsWithoutRecording, DoNothing) {
  agent::set_recorder(nullptr);
  const memreel_pool pool = memreel_pool_create("unseen", MEMREEL_POOL_OTHER, MEMREEL_DEVICE, 0);
  EXPECT_EQ(pool, 0U) << "a recording that begins later doesn't know it";
  memreel_alloc(pool, &pool, 1, nullptr);
  memreel_free(pool, &pool);
  memreel_step();
  memreel_snapshot();
  memreel_usage usage{};
  EXPECT_EQ(memreel_usage_now(&usage, 1, 1), 0U);
}

TEST(AnnotationsOfAProcessThatIsJoined, AreAskedFor) {
  int calls = 0;
  const auto count = [](void* user) { ++*static_cast<int*>(user); };
  memreel_on_attach(count, &calls);
  ask_for_state(std::chrono::steady_clock::now());
  EXPECT_EQ(calls, 1);
  memreel_on_attach(nullptr, &calls);
  ask_for_state(std::chrono::steady_clock::now());
  EXPECT_EQ(calls, 1);
}

/// An object that checks that it is called as what it is.
template <int Kind>
struct Registered {
  static void call(void* user) {
    static_cast<Registered*>(user)->sound &= static_cast<Registered*>(user)->kind == Kind;
  }
  int kind = Kind;
  bool sound = true;
};

TEST(AnnotationsOfAProcessThatIsJoined, AreAskedForByTheirOwnObjects) {
  for (int round = 0; round < 1000; ++round) {
    Registered<1> one;
    Registered<2> other;
    std::atomic<int> ready = 0;
    const auto enter = [&ready](auto& object) {
      ++ready;
      while (ready < 2) std::this_thread::yield();
      memreel_on_attach(object.call, &object);
    };
    {
      const std::jthread first([&] { enter(one); }), second([&] { enter(other); });
    }
    ask_for_state(std::chrono::steady_clock::now());
    memreel_on_attach(nullptr, &one);
    memreel_on_attach(nullptr, &other);
    ASSERT_TRUE(one.sound && other.sound) << "in round " << round;
  }
}

TEST(AnnotationsOfAProcessThatIsJoined, AreNotInUseOnceRemoved) {
  struct Object {
    std::atomic<bool> begun = false, ended = false;
  } object;
  memreel_on_attach(
      [](void* user) {
        auto& self = *static_cast<Object*>(user);
        self.begun = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        self.ended = true;
      },
      &object);
  const std::jthread asking([] { ask_for_state(std::chrono::steady_clock::now()); });
  while (!object.begun) std::this_thread::yield();
  memreel_on_attach(nullptr, &object);
  EXPECT_TRUE(object.ended);
}

TEST(AnnotationsOfAProcessThatIsJoined, MayRemoveThemselves) {
  int calls = 0;
  memreel_on_attach(
      [](void* user) {
        ++*static_cast<int*>(user);
        memreel_on_attach(nullptr, user);
      },
      &calls);
  const auto began = std::chrono::steady_clock::now();
  ask_for_state(began);
  ask_for_state(std::chrono::steady_clock::now());
  EXPECT_EQ(calls, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(2))
      << "a callback that removes itself does not wait for its own end";
}

TEST(AnnotationsThatWaitForARecorder, LeaveRoomOnceRemoved) {
  const auto ignore = [](void*) {};
  std::array<int, 3 * MEMREEL_ATTACH_SLOTS> objects{};
  for (int& object : objects) {
    memreel_await_attach(ignore, &object);
    memreel_await_attach(nullptr, &object);
  }
  int last = 0;
  memreel_await_attach(ignore, &last);
  int waiting = 0;
  for (const memreel_attach_slot& slot : memreel_attach_slots) waiting += slot.callback != nullptr ? 1 : 0;
  EXPECT_EQ(waiting, 1);
  memreel_await_attach(nullptr, &last);
}

}  // namespace
}  // namespace memreel::annotate
