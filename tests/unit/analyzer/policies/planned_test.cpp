// SPDX-License-Identifier: Apache-2.0
// plan.size and plan.best as policies: they serve every request at its planned address, within the planned memory.
#include "analyzer/replay/plan/planned.h"
#include "analyzer/replay/registry.h"

#include <gtest/gtest.h>

#include <array>
#include <map>

#include "analyzer/replay/replay.h"
#include "tests/bench/synthetic.h"
#include "tests/unit/analyzer/history.h"
#include "tests/unit/analyzer/policies/driven.h"

namespace memreel {
namespace {

using testing::History;
using testing::limited_to;

/// Requests, frees with and without waiting for the device, failures and empty_cache, in random order.
Prepared random_heap(std::uint64_t seed) {
  enum class State { empty, live, pending };
  constexpr std::uint32_t slots = 120;
  synthetic::Random random(seed);
  std::array<State, slots> states{};
  std::array<Bytes, slots> sizes{};
  Prepared heap;
  heap.pool_streams.emplace_back();
  heap.slot_count = slots;
  const auto push = [&](Op op, std::uint32_t slot, Bytes size) {
    heap.op.push_back(op);
    heap.slot.push_back(slot);
    heap.pool_stream.push_back(0);
    heap.size.push_back(size);
    heap.event.push_back(static_cast<std::uint32_t>(heap.event.size()));
  };
  for (int i = 0; i < 3000; ++i) {
    const auto slot = static_cast<std::uint32_t>(random.below(slots));
    if (random.chance(100)) push(Op::empty_cache, 0, {});
    if (random.chance(40)) push(Op::alloc_failed, 0, Bytes{random.log_uniform(1, 1U << 30U)});
    if (states[slot] == State::empty) {
      sizes[slot] = {random.chance(50) ? 0 : random.log_uniform(1, 8U << 20U)};
      push(Op::alloc, slot, sizes[slot]);
      states[slot] = State::live;
    } else if (states[slot] == State::live) {
      const bool waits = random.chance(3);
      push(waits ? Op::free_requested : Op::free, slot, sizes[slot]);
      states[slot] = waits ? State::pending : State::empty;
    } else {
      push(Op::free_completed, slot, sizes[slot]);
      states[slot] = State::empty;
    }
  }
  return heap;
}

/// Drives the policy through the heap it was made for, and checks it after every operation.
class DrivenByPlan {
 public:
  DrivenByPlan(const Prepared& heap, const Planned::Settings& settings)
      : heap_(heap), policy_(heap, settings, device_) {}

  void run() {
    for (std::size_t row = 0; row < heap_.count() && !::testing::Test::HasFatalFailure(); ++row) {
      step(row);
      check();
    }
    EXPECT_EQ(policy_.use().reserved, round_up(policy_.plan()->peak, 2_MiB));
  }

 private:
  void step(std::size_t row) {
    const std::uint32_t slot = heap_.slot[row];
    const Bytes size = heap_.size[row];
    switch (heap_.op[row]) {
      case Op::alloc:
        ASSERT_TRUE(policy_.allocate(slot, size, 0));
        ASSERT_EQ(policy_.extent_of(slot).address - Address{}, policy_.plan()->offsets[request_++]);
        ASSERT_GE(policy_.extent_of(slot).size, size);
        taken_.emplace(slot, true);
        break;
      case Op::free:
        policy_.free(slot, size);
        taken_.erase(slot);
        break;
      case Op::free_requested:
        policy_.free_requested(slot, size);
        taken_[slot] = false;
        break;
      case Op::free_completed:
        policy_.free_completed(slot, size);
        taken_.erase(slot);
        break;
      case Op::alloc_failed:
        if (policy_.allocate(heap_.slot_count, size, 0)) policy_.free(heap_.slot_count, size);
        break;
      default:
        policy_.empty_cache();
    }
  }

  void check() {
    const HeapUse& use = policy_.use();
    std::map<Address, Address> extents;
    Bytes allocated, pending, free, largest;
    for (const auto& [slot, live] : taken_) {
      const Extent extent = policy_.extent_of(slot);
      (live ? allocated : pending) += extent.size;
      ASSERT_TRUE(extents.emplace(extent.address, extent.address + extent.size).second);
    }
    Address end;
    for (const auto& [first, last] : extents) {
      ASSERT_GE(first, end) << "two blocks overlap";
      end = last;
    }
    policy_.for_each_free([&](const FreeBlock& block) {
      free += block.size;
      largest = std::max(largest, block.size);
    });
    ASSERT_EQ(use.allocated, allocated);
    ASSERT_EQ(use.free, free);
    ASSERT_EQ(policy_.largest_free(), largest);
    ASSERT_EQ(allocated + pending + free, use.reserved);
  }

  const Prepared& heap_;
  SimulatedDevice device_{DeviceModel{}, {}};
  Planned policy_;
  std::map<std::uint32_t, bool> taken_;  // by slot: live, otherwise pending
  std::size_t request_ = 0;
};

TEST(Planned, ServesEveryRequestWhereThePlanSays) {
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
    const Prepared heap = random_heap(seed);
    DrivenByPlan(heap, {}).run();
    DrivenByPlan(heap, {.options = {.align = 4_KiB, .effort = 1000}, .make = plan::plan_best}).run();
  }
}

TEST(Planned, ALifetimeLastsUntilTheDeviceIsDone) {
  History history;
  const auto first = history.alloc(4_MiB);
  history.free_requested(first);
  history.alloc(4_MiB);
  history.free_completed(first);
  history.alloc(4_MiB);
  const auto buffers = buffers_of(history.prepared());
  ASSERT_EQ(buffers.size(), 3U);
  EXPECT_EQ(buffers[0].upper, 3U);
  const auto results = replay(std::array{history.prepared()}, std::array{PolicySpec{.name = "plan.best"}});
  ASSERT_TRUE(results);
  EXPECT_EQ(results->at(0).peak_reserved, 8_MiB);
}

TEST(Planned, FailsFromTheFirstRequestOnWhenTheDeviceHasLessThanThePlan) {
  History history;
  const auto first = history.alloc(1_MiB);
  history.alloc(5_MiB);
  history.free(first);
  const std::array heaps{history.prepared()};
  const std::array specs{PolicySpec{.name = "plan.size"}};
  const auto enough = replay(heaps, specs, {.device = limited_to(6_MiB)});
  ASSERT_TRUE(enough);
  EXPECT_EQ(enough->at(0).failed_allocations, 0U);
  EXPECT_EQ(enough->at(0).peak_reserved, 6_MiB);
  const auto too_little = replay(heaps, specs, {.device = limited_to(6_MiB - 1_B)});
  ASSERT_TRUE(too_little);
  EXPECT_EQ(too_little->at(0).failed_allocations, 2U);
  EXPECT_EQ(too_little->at(0).first_failure->event, 0U);
  EXPECT_EQ(too_little->at(0).peak_reserved, 0_B);
}

TEST(Planned, NeedsNoMoreThanItsPeak) {
  const std::array heaps{random_heap(9)};
  for (const char* name : {"plan.size", "plan.best"}) {
    const auto results = replay(heaps, std::array{PolicySpec{.name = name}}, {.find_min_capacity = true});
    ASSERT_TRUE(results);
    EXPECT_EQ(results->at(0).min_capacity, results->at(0).peak_reserved);
    EXPECT_GE(results->at(0).peak_reserved, results->at(0).peak_live);
  }
}

TEST(Planned, ARequestThatFailedIsNoPartOfThePlanAndHasAnotherTry) {
  History history;
  history.alloc(2_MiB);
  history.failed(64_MiB);
  const std::array heaps{history.prepared()};
  const std::array specs{PolicySpec{.name = "plan.best"}};
  const auto served = replay(heaps, specs, {.device = limited_to(66_MiB)});
  ASSERT_TRUE(served);
  EXPECT_EQ(served->at(0).failed_allocations, 0U);
  EXPECT_EQ(served->at(0).peak_reserved, 2_MiB);
  const auto failed = replay(heaps, specs, {.device = limited_to(64_MiB)});
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->at(0).failed_allocations, 1U);
}

TEST(Planned, SizesThatNoDeviceHasFail) {
  History history;
  for (int i = 0; i < 3; ++i) history.alloc(Bytes{std::uint64_t{1} << 63U});
  for (const char* name : {"plan.size", "plan.best"}) {
    const auto results = replay(std::array{history.prepared()}, std::array{PolicySpec{.name = name}});
    ASSERT_TRUE(results);
    EXPECT_EQ(results->at(0).failed_allocations, 3U);
  }
}

TEST(Planned, ParametersAreCheckedStrictly) {
  for (const auto& [key, value] : std::map<std::string, std::string>{
           {"align", "100"}, {"page", "3"}, {"order", "x"}, {"effort", "1"}, {"capacity", "1MiB"}})
    EXPECT_FALSE(bind_policy({.name = "plan.size", .parameters = {{key, value}}})) << key;
  for (const auto& [key, value] : std::map<std::string, std::string>{{"effort", "much"}, {"capacity", "all"}})
    EXPECT_FALSE(bind_policy({.name = "plan.best", .parameters = {{key, value}}})) << key;
  EXPECT_TRUE(bind_policy({.name = "plan.best", .parameters = {{"align", "1"}, {"page", "1"}, {"effort", "100"}}}));
  EXPECT_TRUE(bind_policy({.name = "plan.best", .parameters = {{"capacity", "1GiB"}}}));
}

}  // namespace
}  // namespace memreel
