// SPDX-License-Identifier: Apache-2.0
// The allocator's own trace, reported by a stand-in for PyTorch.
#include "collector/torch/allocator_trace.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <vector>

#include "collector/recorder/recorder.h"

namespace memreel::torch {
namespace {

using agent::Record;
using agent::RecordKind;
using agent::Space;

class AllocatorTrace : public ::testing::Test {
 public:
  AllocatorTrace() {
    agent::set_recorder(&recorder_);
    EXPECT_NE(library_, nullptr) << dlerror();  // NOLINT(concurrency-mt-unsafe)
  }
  ~AllocatorTrace() override { agent::set_recorder(nullptr); }

 protected:
  using Malloc = void*(void*, std::size_t, std::size_t, std::size_t, std::size_t, std::uint64_t);
  using Free = void(void*, int);
  using Report = void(void*, std::int64_t, std::size_t, int, int);

  template <class Function>
  Function* function(const char* name) {
    return std::bit_cast<Function*>(dlsym(library_, name));
  }
  void use_native_allocator() {
    function<void()>("fake_use_native_allocator")();
    look_for_allocator();
  }
  std::vector<Record> drained() {
    std::vector<Record> all, batch;
    recorder_.drain(batch);
    for (const Record& record : batch)
      if (record.kind != RecordKind::thread_began) all.push_back(record);
    return all;
  }
  /// Lets the first report pass, after which the trace is followed.
  void begin() {
    use_native_allocator();
    function<Malloc>("fake_malloc")(memory_.data(), 500, 512, 0, 0, 0);
    drained();
  }

  agent::Recorder recorder_{agent::Options{}};
  void* library_ = dlopen(FAKE_C10_CUDA, RTLD_NOW | RTLD_LOCAL);
  std::array<char, 4> memory_{};
};

TEST_F(AllocatorTrace, BeginsAtTheFirstReportAtTheLatest) {
  use_native_allocator();
  function<Malloc>("fake_malloc")(memory_.data(), 500, 512, 0, 0x77, 0);
  const auto records = drained();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].kind, RecordKind::segment_added) << "the first block is at the beginning of the first segment";
  EXPECT_EQ(records[1].kind, RecordKind::alloc);
  EXPECT_EQ(records[1].space, Space::torch_traced);
  EXPECT_EQ(records[1].size, 512U) << "what was asked for is not known: the block";
}

TEST_F(AllocatorTrace, KnowsRequestsStreamsAndPools) {
  begin();
  function<Malloc>("fake_malloc")(&memory_[1], 700, 1024, 0, 0x77, 9);
  const auto records = drained();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].kind, RecordKind::alloc);
  EXPECT_EQ(records[0].size, 700U);
  EXPECT_EQ(records[0].stream, 0x77U);
  EXPECT_NE(records[0].stack, stacks::StackKey::none);
  const auto key = recorder_.pool_keys()[static_cast<std::uint32_t>(records[0].object)];
  ASSERT_EQ(key.size(), 16U);
  EXPECT_EQ(std::to_integer<int>(key[8]), 9);
}

TEST_F(AllocatorTrace, TellsRequestedFromCompletedFrees) {
  begin();
  auto* const malloc = function<Malloc>("fake_malloc");
  malloc(&memory_[1], 700, 1024, 0, 0, 0);
  malloc(&memory_[2], 300, 512, 0, 0, 0);
  drained();
  function<Free>("fake_free")(&memory_[1], 0);
  function<Free>("fake_free")(&memory_[2], 1);
  function<void(void*)>("fake_complete")(&memory_[2]);
  const auto records = drained();
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].kind, RecordKind::free);
  EXPECT_EQ(records[0].size, 700U);
  EXPECT_EQ(records[1].kind, RecordKind::free_requested);
  EXPECT_EQ(records[1].address, std::bit_cast<std::uint64_t>(&memory_[2]));
  EXPECT_EQ(records[2].kind, RecordKind::free_completed);
}

TEST_F(AllocatorTrace, HasTheTimesThatPyTorchTook) {
  if (agent::Clock::best_source() != agent::Clock::Source::counter) GTEST_SKIP() << "the system's clock is asked here";
  begin();
  const auto time_when_told = [&](std::int64_t ticks) {
    function<void(std::int64_t)>("fake_time")(ticks);
    function<Malloc>("fake_malloc")(&memory_[1], 700, 1024, 0, 0, 0);
    const std::int64_t time = drained().at(0).time;
    function<Free>("fake_free")(&memory_[1], 0);
    drained();
    return time;
  };
  const agent::Clock clock;
  const auto now = static_cast<std::int64_t>(clock.ticks());
  const std::int64_t asked = time_when_told(0);
  EXPECT_LT(std::abs(time_when_told(now + 1'000'000'000'000) - asked), 1'000'000'000) << "no counter has said that yet";
  const std::int64_t taken = time_when_told(now - 20'000'000);
  EXPECT_LT(taken, asked - 1'000'000) << "20 million ticks are some milliseconds";
  EXPECT_GT(taken, asked - 1'000'000'000);
  function<void(std::int64_t)>("fake_time")(0);
}

TEST_F(AllocatorTrace, CountsEntriesButNotThatASnapshotWasTaken) {
  begin();
  const std::uint64_t before = trace_entries();
  function<void()>("fake_snapshot")();
  EXPECT_EQ(trace_entries(), before) << "else no snapshot is ever exact";
  function<Malloc>("fake_malloc")(&memory_[1], 700, 1024, 0, 0, 0);
  EXPECT_EQ(trace_entries(), before + 1);
}

TEST_F(AllocatorTrace, ANewRecordingHasItsOwnTotals) {
  begin();
  forget_recording();
  function<Report>("fake_report")(&memory_[1], 2048, 512 + 2048 + 99, 1, 0);  // 99 bytes came meanwhile
  EXPECT_EQ(drained().size(), 1U) << "nothing is missing from it";
}

TEST_F(AllocatorTrace, AReportWithoutTraceIsStillAnAllocation) {
  begin();
  function<Report>("fake_report")(&memory_[1], 2048, 512 + 2048, 1, 0);
  const auto records = drained();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].kind, RecordKind::alloc);
  EXPECT_EQ(records[0].size, 2048U);
}

TEST_F(AllocatorTrace, CountsReportsThatAreMissing) {
  begin();
  function<Report>("fake_report")(&memory_[1], 2048, 512 + 2048 + 99, 1, 0);
  const auto records = drained();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].kind, RecordKind::hook_lost);
}

TEST_F(AllocatorTrace, AnotherAllocatorIsLeftAlone) {
  look_for_allocator();  // none is in use
  function<Report>("fake_report")(&memory_[1], 2048, 2048, 1, 0);
  const auto records = drained();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].space, Space::torch) << "reports alone";
  EXPECT_FALSE(takes_failures());
}

}  // namespace
}  // namespace memreel::torch
