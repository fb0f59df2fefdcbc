// SPDX-License-Identifier: Apache-2.0
// Random programs that check the invariants of placing policies after every operation.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "analyzer/replay/engine/device.h"
#include "analyzer/replay/engine/policy_interface.h"
#include "analyzer/replay/heap/block_table.h"
#include "tests/bench/synthetic.h"
#include "tests/histories.h"

namespace memreel {

class Buddy;

namespace testing {

/// Whether free neighbors merge; in a buddy allocator only buddies do.
template <class P>
inline constexpr bool merges_neighbours = true;
template <>
inline constexpr bool merges_neighbours<Buddy> = false;

inline constexpr std::uint32_t slots = 300;

/// Drives a policy made as P(heap, settings, device) through a random program on three (pool, stream) pairs: two
/// streams, and a pool.
template <PlacingPolicy P, class Settings>
class RandomProgram {
 public:
  RandomProgram(const Settings& settings, std::optional<Bytes> capacity, std::uint64_t seed)
      : capacity_(capacity),
        device_(capacity ? DeviceModel{.kind = DeviceModel::Kind::capacity, .capacity = *capacity} : DeviceModel{}, {}),
        policy_(heap(), settings, device_),
        random_(seed) {}

  void run() {
    for (int i = 0; i < 6000 && !::testing::Test::HasFatalFailure(); ++i) {
      step();
      check();
    }
    EXPECT_EQ(failures_ > 0, capacity_.has_value()) << "the capacity is meant to be too small";
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      if (states_[slot] == State::live) policy_.free(slot, sizes_[slot]);
      if (states_[slot] == State::pending) policy_.free_completed(slot, sizes_[slot]);
    }
    EXPECT_EQ(policy_.use().allocated, 0_B);
    EXPECT_EQ(policy_.use().free + left_over(), policy_.use().reserved);
  }

 private:
  enum class State { empty, live, pending };

  static Prepared heap() {
    Prepared heap;
    heap.pool_streams = {{}, {.stream = StreamId{1}, .stream_handle = 7}, {.pool = PoolId{1}}};
    heap.slot_count = slots;
    return heap;
  }

  /// Reserved memory that can never be allocated, for policies that have such memory.
  Bytes left_over() const {
    if constexpr (requires { policy_.left_over(); })
      return policy_.left_over();
    else
      return {};
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
    if constexpr (SynchronizingPolicy<P>) synchronize();
  }

  void synchronize() {
    const auto pool_stream = [&] { return static_cast<std::uint32_t>(random_.below(3)); };
    if (random_.chance(200)) policy_.device_synchronized();
    if (random_.chance(100)) policy_.stream_synchronized(pool_stream());
    if (random_.chance(100)) policy_.stream_waits(pool_stream(), pool_stream());
  }

  void check() {
    const HeapUse& use = policy_.use();
    Bytes allocated;
    std::map<Address, Address> taken;
    for (std::uint32_t slot = 0; slot < slots; ++slot) {
      if (states_[slot] != State::live) continue;
      const Extent extent = policy_.extent_of(slot);
      ASSERT_GE(extent.size, sizes_[slot]);
      if (extent.size == 0_B) continue;  // some return nothing for an empty request
      allocated += extent.size;
      ASSERT_TRUE(taken.emplace(extent.address, extent.address + extent.size).second);
      if constexpr (merges_neighbours<P> && requires { policy_.blocks(), policy_.block_of(slot); })
        check_neighbours(policy_.block_of(slot));
    }
    check_pieces();
    Address end;
    for (const auto& [first, last] : taken) {
      ASSERT_GE(first, end) << "two live blocks overlap";
      end = last;
    }
    ASSERT_EQ(use.allocated, allocated);
    ASSERT_LE(use.allocated + use.free + left_over(), use.reserved);
    Bytes free, largest_free;
    policy_.for_each_free([&](const FreeBlock& block) {
      free += block.size;
      largest_free = std::max(largest_free, block.size);
    });
    ASSERT_EQ(use.free, free);
    ASSERT_EQ(policy_.largest_free(), largest_free);
    if (std::ranges::count(states_, State::pending) == 0) {
      ASSERT_EQ(use.allocated + use.free + left_over(), use.reserved);
    }
    ASSERT_LE(use.reserved, capacity_.value_or(use.reserved));
  }

  /// For a policy that exposes memory under other addresses than its own: none is handed out twice.
  void check_pieces() {
    if constexpr (requires { policy_.for_each_piece(0U, [](const Extent&) {}); }) {
      std::map<Address, Address> taken;
      for (std::uint32_t slot = 0; slot < slots; ++slot) {
        if (states_[slot] != State::live) continue;
        Bytes sum;
        policy_.for_each_piece(slot, [&](const Extent& piece) {
          sum += piece.size;
          taken.emplace(piece.address, piece.address + piece.size);
        });
        ASSERT_EQ(sum, policy_.extent_of(slot).size);
      }
      Address end;
      for (const auto& [first, last] : taken) {
        ASSERT_GE(first, end) << "memory is handed out twice";
        end = last;
      }
    }
  }

  /// The two blocks next to a live one would have merged if both were free and belonged together, or both unmapped.
  void check_neighbours(const Block& block) {
    ASSERT_EQ(block.state, BlockState::allocated);
    const BlockTable& blocks = policy_.blocks();
    for (const auto direction : {&Block::previous, &Block::next}) {
      const BlockId near = block.*direction;
      if (near == BlockId::none) continue;
      const BlockId far = blocks[near].*direction;
      if (far == BlockId::none) continue;
      const BlockState state = blocks[near].state;
      ASSERT_FALSE(state == blocks[far].state && blocks[near].arena == blocks[far].arena &&
                   (state == BlockState::free || state == BlockState::unmapped));
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

/// Without a limit and with one that is too small, several times each.
template <PlacingPolicy P, class Settings>
void check_all(const Settings& settings) {
  constexpr std::uint64_t seeds = test::sanitized ? 1 : 3;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    RandomProgram<P, Settings>(settings, std::nullopt, seed).run();
    RandomProgram<P, Settings>(settings, 300_MiB, seed).run();
  }
}

}  // namespace testing
}  // namespace memreel
