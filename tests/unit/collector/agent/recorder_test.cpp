// SPDX-License-Identifier: Apache-2.0
// Records on their way from many threads to one.
#include "collector/recorder/recorder.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <csignal>
#include <map>
#include <random>
#include <thread>

namespace memreel::agent {
namespace {

Record numbered(std::uint64_t thread, std::uint64_t number) {
  return {.address = thread, .size = number, .kind = RecordKind::alloc};
}

TEST(Recorder, ARecordComesOutAsItWentInWithItsThreadAndTime) {
  Recorder recorder({.depth = 0});
  const Record in{.address = 1,
                  .size = 2,
                  .stream = 3,
                  .object = 4,
                  .device = 5,
                  .context = 6,
                  .kind = RecordKind::mapped,
                  .space = Space::physical,
                  .status = 7};
  const std::uint64_t sequence = recorder.emit(in);
  std::vector<Record> out;
  recorder.drain(out);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].sequence, sequence);
  EXPECT_EQ(out[0].thread, static_cast<std::uint32_t>(::gettid()));
  EXPECT_NEAR(static_cast<double>(out[0].time) / 1e9, static_cast<double>(std::time(nullptr)), 60);
  EXPECT_EQ(out[0].address, in.address);
  EXPECT_EQ(out[0].size, in.size);
  EXPECT_EQ(out[0].stream, in.stream);
  EXPECT_EQ(out[0].object, in.object);
  EXPECT_EQ(out[0].device, in.device);
  EXPECT_EQ(out[0].context, in.context);
  EXPECT_EQ(out[0].kind, in.kind);
  EXPECT_EQ(out[0].space, in.space);
  EXPECT_EQ(out[0].status, in.status);
}

TEST(Recorder, FullRingsDropAndCount) {
  Recorder recorder({.ring_events = 64, .depth = 0});
  for (std::uint64_t i = 0; i < 100; ++i) {
    const bool first_of_thread = i < 63;  // the thread's own record takes a slot
    EXPECT_EQ(recorder.emit(numbered(0, i)) != 0, first_of_thread) << i;
  }
  std::vector<Record> out;
  recorder.drain(out);
  EXPECT_EQ(out.size(), 63U);
  EXPECT_EQ(recorder.lost(), 37U);
  EXPECT_NE(recorder.emit(numbered(0, 100)), 0U) << "a drained ring has room";
}

TEST(Recorder, AThreadThatComesToAFullRingIsNotTakenForTheOneBefore) {
  Recorder recorder({.ring_events = 64, .depth = 0});
  std::thread([&] {
    for (std::uint64_t i = 0; i < 63; ++i) recorder.emit(numbered(0, i));
  }).join();
  std::vector<Record> out;
  std::thread([&] {
    EXPECT_EQ(recorder.emit(numbered(1, 0)), 0U) << "the ring that was left behind is full";
    recorder.drain(out);
    EXPECT_NE(recorder.emit(numbered(1, 1)), 0U);
  }).join();
  EXPECT_EQ(recorder.lost(), 1U) << "one call had no room";
  recorder.drain(out);
  ASSERT_EQ(out.size(), 64U);
  EXPECT_NE(out.back().thread, out.front().thread);
}

// Records emitted while a recording ends are dropped, including one announcing a new thread for the ring.
TEST(Recorder, AThreadThatCameAsARecordingEndedIsKnownInTheNext) {
  const Options options{.ring_events = 1024, .depth = 0};
  Recorder recorder(options);
  std::vector<Record> out;
  std::thread([&] {
    for (std::uint64_t i = 0; i < 200; ++i) recorder.emit(numbered(0, i));
  }).join();
  recorder.drain(out);
  out.clear();
  std::thread([&] {
    for (std::uint64_t i = 0; i < 200; ++i) recorder.emit(numbered(1, i));
    recorder.close();
    recorder.rest();
    ASSERT_TRUE(recorder.reopen(options));
    recorder.emit(numbered(1, 200));
    recorder.drain(out);
    ASSERT_EQ(out.size(), 1U);
    EXPECT_EQ(out[0].thread, static_cast<std::uint32_t>(::gettid()));
  }).join();
}

std::atomic<Recorder*> interrupted = nullptr;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<std::uint64_t> handled = 0;        // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// A signal handler that enters a hook may have interrupted another hook. Nothing is recorded twice or lost.
TEST(Recorder, HandlersOfSignalsLeaveNothingHalfDone) {
  Recorder recorder({.ring_events = 1U << 18U, .depth = 16});
  interrupted = &recorder;
  handled = 0;
  struct sigaction before {};
  struct sigaction action {};
  action.sa_handler = [](int) {
    interrupted.load()->capture_stack();
    interrupted.load()->emit(numbered(1, handled++));
  };
  ::sigaction(SIGUSR2, &action, &before);
  std::atomic<bool> began = false;
  std::atomic<bool> done = false;
  std::uint64_t count = 0;
  std::thread program([&] {
    for (began = true; !done; ++count) {
      recorder.capture_stack();
      recorder.emit(numbered(0, count));
    }
  });
  // Not in the thread's start: there AddressSanitizer asks for the stack's bounds, under a lock of the C library that
  // the handler's first stack needs too.
  while (!began) std::this_thread::yield();
  for (int i = 0; i < 2000; ++i) {
    ::pthread_kill(program.native_handle(), SIGUSR2);
    std::this_thread::yield();
  }
  done = true;
  program.join();
  ::sigaction(SIGUSR2, &before, nullptr);
  std::vector<Record> out;
  recorder.drain(out);
  EXPECT_EQ(out.size() + recorder.lost(), count + handled);
  std::uint64_t last = 0;
  for (const Record& record : out) {
    if (record.address != 0) continue;
    if (record.size != 0) {
      ASSERT_EQ(record.size, last + 1) << "the interrupted one is as it was";
    }
    last = record.size;
  }
}

TEST(Recorder, FullRingsWaitWhenAskedTo) {
  Recorder recorder({.ring_events = 64, .when_full = WhenFull::block, .depth = 0});
  std::thread program([&] {
    for (std::uint64_t i = 0; i < 10'000; ++i) recorder.emit(numbered(0, i));
  });
  std::vector<Record> out;
  while (out.size() < 10'000) {
    recorder.wait(std::chrono::milliseconds(1));
    recorder.drain(out);
  }
  program.join();
  for (std::uint64_t i = 0; i < 10'000; ++i) EXPECT_EQ(out[i].size, i);
  EXPECT_EQ(recorder.lost(), 0U);
}

TEST(Recorder, NobodyWaitsForAClosedRecorder) {
  Recorder recorder({.ring_events = 64, .when_full = WhenFull::block, .depth = 0});
  std::atomic<std::uint64_t> emitted = 0;
  std::thread program([&] {
    for (; emitted < 1000; ++emitted) recorder.emit(numbered(0, emitted));
  });
  auto is_waiting = [&emitted, before = std::uint64_t{0}]() mutable {
    return std::exchange(before, emitted.load()) == emitted && before > 0;
  };
  while (!is_waiting()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LT(emitted, 65U) << "nothing is drained";
  recorder.close();
  program.join();
  EXPECT_EQ(emitted, 1000U);
  EXPECT_EQ(recorder.lost(), 1U) << "the one that waited";
}

// Threads pass numbers on as CUDA passes on addresses: the thread that has a number emits it, then hands it to the
// next. In drain order no number may come before its predecessor.
TEST(Recorder, TheOrderAcrossThreadsIsTheOrderOfCauses) {
  constexpr std::uint64_t rounds = 5000;
  constexpr unsigned threads = 4;
  Recorder recorder({.ring_events = 256, .when_full = WhenFull::block, .depth = 0});
  std::atomic<std::uint64_t> baton = 0;
  std::atomic<unsigned> running = threads;
  std::vector<std::thread> program;
  for (unsigned t = 0; t < threads; ++t)
    program.emplace_back([&, t] {
      std::minstd_rand random(t);
      for (;;) {
        std::uint64_t number = baton.load();
        if (number >= rounds) break;
        if (random() % threads != t) std::this_thread::yield();
        // Only the thread with the baton has this number.
        if (number % threads != t) {
          std::this_thread::yield();
          continue;
        }
        recorder.emit(numbered(t, number));
        baton.store(number + 1);
      }
      --running;
    });
  std::vector<Record> out;
  while (running > 0) {
    recorder.wait(std::chrono::milliseconds(1));
    recorder.drain(out);
  }
  for (std::thread& thread : program) thread.join();
  recorder.drain(out);
  ASSERT_EQ(out.size(), rounds);
  for (std::uint64_t i = 0; i < rounds; ++i) ASSERT_EQ(out[i].size, i);
}

TEST(Recorder, NothingIsLostOrDoubledAndSequencesAscend) {
  constexpr std::uint64_t per_thread = 30'000;
  constexpr unsigned threads = 6;
  Recorder recorder({.ring_events = 1024, .when_full = WhenFull::block, .depth = 0});
  std::atomic<unsigned> running = threads;
  std::vector<std::thread> program;
  for (unsigned t = 0; t < threads; ++t)
    program.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < per_thread; ++i) recorder.emit(numbered(t, i));
      --running;
    });
  std::vector<Record> out;
  std::map<std::uint64_t, std::uint64_t> next;
  std::map<std::uint64_t, std::uint32_t> thread_of;
  std::uint64_t last = 0, count = 0;
  for (bool more = true; more;) {
    more = running > 0;
    recorder.wait(std::chrono::milliseconds(1));
    out.clear();
    recorder.drain(out);
    for (const Record& record : out) {
      ASSERT_GT(record.sequence, last);
      last = record.sequence;
      ASSERT_EQ(record.size, next[record.address]++);
      const auto [thread, first] = thread_of.try_emplace(record.address, record.thread);
      ASSERT_EQ(thread->second, record.thread);
      ++count;
    }
  }
  for (std::thread& thread : program) thread.join();
  EXPECT_EQ(count, threads * per_thread);
}

TEST(Recorder, ThreadsOneAfterAnotherShareARingAndKeepTheirNames) {
  Recorder recorder({.ring_events = 64, .depth = 0});
  std::vector<Record> out;
  std::vector<std::uint32_t> tids;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    std::thread([&] {
      tids.push_back(static_cast<std::uint32_t>(::gettid()));
      recorder.emit(numbered(i, i));
    }).join();
    if (i % 20 == 0) recorder.drain(out);
  }
  recorder.drain(out);
  ASSERT_EQ(out.size(), 2000U);
  EXPECT_EQ(recorder.lost(), 0U) << "a ring that is passed on keeps what is in it";
  EXPECT_EQ(recorder.ring_count(), 1U);
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i].thread, tids[i]);
}

// NOLINTNEXTLINE(misc-no-recursion)
[[gnu::noinline]] stacks::StackKey at_depth(Recorder& recorder, int depth) {
  if (depth == 0) return recorder.capture_stack();
  const stacks::StackKey key = at_depth(recorder, depth - 1);
  asm volatile("");  // NOLINT(hicpp-no-assembler): no tail call
  return key;
}

TEST(Recorder, EqualStacksHaveEqualKeysAndDeeperOnesMoreFrames) {
  Recorder recorder({});
  std::vector<stacks::StackKey> keys(static_cast<std::size_t>(::getpid() > 0 ? 2 : 3));  // keeps it from being unrolled
  for (stacks::StackKey& key : keys) key = at_depth(recorder, 3);
  const stacks::StackKey other = at_depth(recorder, 5);
  EXPECT_NE(keys[0], stacks::StackKey::none);
  EXPECT_EQ(keys[0], keys[1]);
  EXPECT_NE(keys[0], other);
}

TEST(Recorder, WithoutDepthThereAreNoStacks) {
  Recorder recorder({.depth = 0});
  EXPECT_EQ(recorder.capture_stack(), stacks::StackKey::none);
}

}  // namespace
}  // namespace memreel::agent
