// What holds of every policy that places blocks, after every operation of random programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "analyzer/policies/cuda_malloc.h"
#include "analyzer/policies/fit_best.h"
#include "analyzer/policies/fit_first.h"
#include "analyzer/policies/fit_next.h"
#include "analyzer/policies/torch_native.h"
#include "tests/bench/synthetic.h"

namespace memreel {
namespace {

constexpr std::uint32_t slots = 300;

template <class P, class Settings>
class RandomProgram {
 public:
  RandomProgram(const Settings& settings, std::optional<Bytes> capacity, std::uint64_t seed)
      : capacity_(capacity),
        device_(capacity ? DeviceModel{.kind = DeviceModel::Kind::capacity, .capacity = *capacity} : DeviceModel{}, {}),
        policy_(heap(), settings, device_),
        random_(seed) {}

  void run() {
    for (int i = 0; i < 6000 && !testing::Test::HasFatalFailure(); ++i) {
      step();
      check();
    }
    EXPECT_EQ(failures_ > 0, capacity_.has_value()) << "the capacity is meant to be too small";
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      if (states_[slot] == State::live) policy_.free(slot, sizes_[slot]);
      if (states_[slot] == State::pending) policy_.free_completed(slot, sizes_[slot]);
    }
    EXPECT_EQ(policy_.use().allocated, 0_B);
    EXPECT_EQ(policy_.use().free, policy_.use().reserved);
  }

 private:
  enum class State { empty, live, pending };

  static Prepared heap() {
    Prepared heap;
    heap.lanes = {{}, {.stream = StreamId{1}, .stream_handle = 7}, {.pool = PoolId{1}}};
    heap.slot_count = slots;
    return heap;
  }

  void step() {
    const auto slot = static_cast<std::uint32_t>(random_.below(slots));
    const Bytes size{random_.chance(50) ? 0 : random_.log_uniform(1, 48U << 20U)};
    switch (states_[slot]) {
      case State::empty:
        if (policy_.allocate(slot, size, static_cast<std::uint32_t>(random_.below(3)))) {
          states_[slot] = State::live;
          sizes_[slot] = size;
        } else {
          ++failures_;
        }
        break;
      case State::live:
        if (random_.chance(4)) {
          policy_.free_requested(slot, sizes_[slot]);
          states_[slot] = State::pending;
        } else {
          policy_.free(slot, sizes_[slot]);
          states_[slot] = State::empty;
        }
        break;
      case State::pending:
        policy_.free_completed(slot, sizes_[slot]);
        states_[slot] = State::empty;
        break;
    }
    if (random_.chance(500)) policy_.empty_cache();
  }

  void check() {
    const HeapUse& use = policy_.use();
    Bytes allocated;
    std::map<Address, Address> taken;
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      if (states_[slot] != State::live) continue;
      const Block& block = policy_.block_of(slot);
      ASSERT_EQ(block.state, BlockState::allocated);
      ASSERT_GE(block.size, sizes_[slot]);
      allocated += block.size;
      ASSERT_TRUE(taken.emplace(block.address, block.address + block.size).second);
      check_neighbours(block);
    }
    Address end;
    for (const auto& [first, last] : taken) {
      ASSERT_GE(first, end) << "two live blocks overlap";
      end = last;
    }
    ASSERT_EQ(use.allocated, allocated);
    ASSERT_LE(use.allocated + use.free, use.reserved);
    ASSERT_LE(policy_.largest_free(), use.free);
    if (std::ranges::count(states_, State::pending) == 0) {
      ASSERT_EQ(use.allocated + use.free, use.reserved);
    }
    ASSERT_LE(use.reserved, capacity_.value_or(use.reserved));
  }

  /// The two free blocks nearest to a live one would have merged if they touched.
  void check_neighbours(const Block& block) {
    const BlockTable& blocks = policy_.blocks();
    for (const auto direction : {&Block::previous, &Block::next}) {
      const BlockId near = block.*direction;
      if (near == BlockId::none) continue;
      const BlockId far = blocks[near].*direction;
      if (far == BlockId::none) continue;
      ASSERT_FALSE(blocks[near].state == BlockState::free && blocks[far].state == BlockState::free);
    }
  }

  std::optional<Bytes> capacity_;
  SimulatedDevice device_;
  P policy_;
  synthetic::Random random_;
  std::array<State, slots> states_{};
  std::array<Bytes, slots> sizes_{};
  std::uint64_t failures_ = 0;
};

template <class P, class Settings>
void check_all(const Settings& settings) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(seed);
    RandomProgram<P, Settings>(settings, std::nullopt, seed).run();
    RandomProgram<P, Settings>(settings, 300_MiB, seed).run();
  }
}

TEST(Invariants, TorchNative) { check_all<TorchNative<>>(TorchSettings{}); }
TEST(Invariants, TorchNativeWithEverythingSet) {
  TorchSettings settings{.max_split_size = 24_MiB, .garbage_collection_threshold = 0.7};
  settings.divisions.fill(4);
  check_all<TorchNative<>>(settings);
}
TEST(Invariants, FitBest) { check_all<FitBest>(GrowingRangeSettings{}); }
TEST(Invariants, FitFirst) { check_all<FitFirst>(GrowingRangeSettings{}); }
TEST(Invariants, FitNext) { check_all<FitNext>(GrowingRangeSettings{.align = 4_KiB, .page = 64_KiB}); }
TEST(Invariants, CudaMalloc) { check_all<CudaMalloc>(CudaMalloc::Settings{}); }

}  // namespace
}  // namespace memreel
