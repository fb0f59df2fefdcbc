// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/own_policy.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "analyzer/replay/prepare.h"
#include "analyzer/replay/replay.h"
#include "tests/bench/synthetic.h"
#include "tests/unit/analyzer/policies/random_program.h"

namespace memreel {
namespace {

/// A library built along with the tests.
std::string library(const std::string& name) { return std::string(MEMREEL_TEST_POLICIES) + "/" + name + ".so"; }

/// Two requests of 1 MiB, the first freed before the third.
Prepared small_heap() {
  Prepared heap;
  heap.pool_streams.emplace_back();
  heap.slot_count = 3;
  const auto push = [&](Op op, std::uint32_t slot) {
    heap.op.push_back(op);
    heap.slot.push_back(slot);
    heap.pool_stream.push_back(0);
    heap.size.push_back(op == Op::empty_cache ? 0_B : 1_MiB + 1_B);
    heap.event.push_back(static_cast<std::uint32_t>(heap.event.size()));
  };
  push(Op::alloc, 0);
  push(Op::alloc, 1);
  push(Op::free, 0);
  push(Op::alloc, 2);
  push(Op::free, 1);
  push(Op::empty_cache, 0);
  return heap;
}

Result<std::vector<ReplayResult>> replayed(const PolicySpec& spec, const ReplayOptions& options = {}) {
  const std::vector<Prepared> heaps{small_heap()};
  return replay(heaps, std::vector{spec}, options);
}

std::string refusal(const PolicySpec& spec) {
  const auto result = replayed(spec);
  return result ? "accepted" : result.error().message();
}

TEST(OwnPolicy, TheSampleKeepsPowersOfTwo) {
  const auto results = replayed({.name = library("powers"), .parameters = {}});
  ASSERT_TRUE(results) << results.error().message();
  const ReplayResult& result = results->at(0);
  EXPECT_EQ(result.peak_reserved, 4_MiB);
  EXPECT_EQ(result.peak_allocated, 4_MiB);
  EXPECT_EQ(result.end_reserved, 2_MiB);
  EXPECT_EQ(result.driver_calls.malloc, 2U);
  EXPECT_EQ(result.driver_calls.free, 1U);
  EXPECT_EQ(result.policy.name, library("powers"));
}

TEST(OwnPolicy, TakesParametersAndSaysWhyItRefusesOne) {
  const auto results = replayed({.name = library("powers"), .parameters = {{"min", "8388608"}}});
  ASSERT_TRUE(results) << results.error().message();
  EXPECT_EQ(results->at(0).peak_reserved, 16_MiB);
  EXPECT_EQ(refusal({.name = library("powers"), .parameters = {{"max", "3"}}}),
            library("powers") + "{max=3}: there is no parameter 'max', only min");
  EXPECT_NE(refusal({.name = library("liar"), .parameters = {}}).find("create() failed and did not say why"),
            std::string::npos);
}

TEST(OwnPolicy, IsFailedByADeviceThatIsTooSmallAndTheLeastCapacityIsFound) {
  const auto results = replayed({.name = library("powers"), .parameters = {}},
                                {.device = DeviceModel{DeviceModel::Kind::capacity, 2_MiB}, .find_min_capacity = true});
  ASSERT_TRUE(results) << results.error().message();
  EXPECT_EQ(results->at(0).failed_allocations, 1U);
  EXPECT_EQ(results->at(0).min_capacity, 4_MiB);
}

TEST(OwnPolicy, EveryWrongAnswerIsNamed) {
  const auto told = [](const std::string& lie) {
    return refusal({.name = library("liar"), .parameters = {{"lie", lie}}});
  };
  EXPECT_EQ(told("none"), "accepted");
  for (const auto& [lie, what] : std::vector<std::pair<std::string, std::string>>{
           {"overlap", "where 1048577 bytes at 0x"},
           {"small", "which is too small (at request 1)"},
           {"empty", "which is too small"},
           {"outside", "which it has not reserved"},
           {"beyond", "beyond the end of 67108864 bytes at 0x"},
           {"overflow", "beyond the end of"},
           {"zero", "it reserved 0 bytes"},
           {"unknown", "where no reserved memory begins"},
           {"release in use", "in which 1 allocation lives (at request 2)"},
           {"too free", "of what it reserved only"},
           {"largest", "the largest piece"},
           {"crash", "it crashed: SIGABRT (at request 1)"},
           {"exit", "it ended the process, with exit code 0 (at request 1)"}})
    EXPECT_NE(told(lie).find(what), std::string::npos) << told(lie);
}

TEST(OwnPolicy, WhatItPrintsIsNotInTheDocument) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(refusal({.name = library("liar"), .parameters = {{"lie", "print"}}}), "accepted");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

TEST(OwnPolicy, OneThatNeverAnswersIsEnded) {
  const auto answer = in_own_process(
      [](OwnProgress& progress) -> std::string {
        progress.requests = 5;
        while (true) progress.requests.load();
      },
      std::chrono::milliseconds(50));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().what, "it did not answer for 0 s (at request 5)");
}

TEST(OwnPolicy, OneThatIsSlowIsNot) {
  const auto answer = in_own_process(
      [](OwnProgress& progress) -> std::string {
        for (int i = 0; i < 20; ++i, ++progress.calls) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return "done";
      },
      std::chrono::milliseconds(300));
  ASSERT_TRUE(answer) << answer.error().what;
  EXPECT_EQ(*answer, "done");
}

TEST(OwnPolicy, WhatIsNoPolicyIsRefused) {
  EXPECT_EQ(refusal({.name = "./nowhere.so", .parameters = {}}), "./nowhere.so: no such file");
  EXPECT_NE(refusal({.name = library("no_symbol"), .parameters = {}}).find("does not export memreel_policy_get"),
            std::string::npos);
  EXPECT_NE(refusal({.name = library("old_version"), .parameters = {}}).find("built for version 7"), std::string::npos);
  EXPECT_NE(refusal({.name = library("short_struct"), .parameters = {}}).find("has 8 bytes"), std::string::npos);
  EXPECT_NE(refusal({.name = library("lacking"), .parameters = {}}).find("lacks required functions: statistics"),
            std::string::npos);
  EXPECT_NE(refusal({.name = MEMREEL_TEST_POLICIES, .parameters = {}}).find("can't be loaded"), std::string::npos);
}

TEST(OwnPolicy, InstancesRunAtTheSameTime) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "a child that is forked while another thread allocates may hang under GCC 12's AddressSanitizer";
#endif
  const Prepared heap = prepare(synthetic_trace({.events = 30'000, .live = 500, .streams = 2})).at(0);
  const std::vector<Prepared> heaps(4, heap);
  const std::vector<PolicySpec> specs(2, {.name = library("powers"), .parameters = {}});
  const auto results = replay(heaps, specs, {.threads = 4});
  ASSERT_TRUE(results) << results.error().message();
  for (const ReplayResult& result : *results) EXPECT_EQ(result.peak_reserved, results->at(0).peak_reserved);
}

/// The sample is also linked into this program, to be driven directly.
class Powers : public OwnPolicy {
 public:
  struct Settings {};
  Powers(const Prepared& heap, Settings, SimulatedDevice& device)
      : OwnPolicy(heap, *memreel_policy_get(), {}, device) {}
};

TEST(OwnPolicy, Invariants) { testing::check_all<Powers>(Powers::Settings{}); }

}  // namespace
}  // namespace memreel
