// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/tlsf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tests/bench/synthetic.h"
#include "tests/unit/analyzer/policies/driven.h"

namespace memreel {
namespace {

using DrivenTlsf = testing::Driven<Tlsf, TlsfSettings>;

TEST(Tlsf, RoundsUpToTheNextOfThirtyTwoClassesADoubling) {
  DrivenTlsf tlsf;
  tlsf.alloc(0, 0_B);
  tlsf.alloc(1, 512_B * 31 + 1_B);  // below 32 units each size is a class
  tlsf.alloc(2, 1_MiB);
  tlsf.alloc(3, 1_MiB + 1_B);
  EXPECT_EQ(tlsf.size(0), 512_B);
  EXPECT_EQ(tlsf.size(1), 16_KiB);
  EXPECT_EQ(tlsf.size(2), 1_MiB);
  EXPECT_EQ(tlsf.size(3), 1_MiB + 32_KiB);
}

TEST(Tlsf, TakesTheBlockFreedLastInTheFirstClassThatHasAny) {
  DrivenTlsf tlsf;
  for (std::uint32_t slot = 0; slot < 8; ++slot) tlsf.alloc(slot, slot % 2 == 0 ? 2_MiB : 1_MiB);
  tlsf.free(4);
  tlsf.free(0);
  tlsf.free(2);
  tlsf.alloc(8, 2_MiB);
  EXPECT_EQ(tlsf.at(8), 3_MiB);
  tlsf.alloc(9, 1_MiB);  // from a block of 2 MiB
  EXPECT_EQ(tlsf.at(9), 0_B);
  tlsf.alloc(10, 1_MiB);  // the rest of it
  EXPECT_EQ(tlsf.at(10), 1_MiB);
}

TEST(Tlsf, DoesNotFindABlockThatFitsButIsOfTheClassBelow) {
  DrivenTlsf tlsf({{.align = 512_B, .page = 64_KiB}, 4});
  tlsf.alloc(0, 1_MiB + 128_KiB);  // takes 1.25 MiB
  EXPECT_EQ(tlsf.size(0), 1_MiB + 256_KiB);
  tlsf.alloc(1, 64_KiB);
  tlsf.alloc(2, 1_MiB);
  tlsf.alloc(3, 64_KiB);
  tlsf.free(2);
  tlsf.free(1);  // a gap of 1 MiB + 64 KiB
  tlsf.alloc(4, 1_MiB + 64_KiB);
  EXPECT_EQ(tlsf.at(4), tlsf.at(3) + 64_KiB);
  tlsf.alloc(5, 1_MiB);
  EXPECT_EQ(tlsf.at(5), 1_MiB + 256_KiB);
}

TEST(Tlsf, GrowsByPagesCountingTheFreeTail) {
  DrivenTlsf tlsf;
  tlsf.alloc(0, 1_MiB);
  tlsf.alloc(1, 2_MiB);
  EXPECT_EQ(tlsf.at(1), 1_MiB);
  EXPECT_EQ(tlsf.reserved(), 4_MiB);
}

/// The same decisions by looking at every block: the class is the size without all but its leading bits.
class SlowTlsf {
 public:
  explicit SlowTlsf(std::uint64_t classes) : classes_(classes) {}

  std::uint64_t allocate(Bytes requested) {
    const std::uint64_t size = ceiling(std::max<std::uint64_t>((requested.count + 511) / 512, 1));
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].taken || floor(blocks_[i].size) < size) continue;
      if (!best || floor(blocks_[i].size) < floor(blocks_[*best].size) ||
          (floor(blocks_[i].size) == floor(blocks_[*best].size) && blocks_[i].time > blocks_[*best].time))
        best = i;
    }
    if (!best) best = grow(size);
    const auto at = blocks_.begin() + static_cast<std::ptrdiff_t>(*best);
    const std::uint64_t rest = at->size - size;
    *at = {.at = at->at, .size = size, .taken = true};
    const std::uint64_t address = at->at;
    if (rest > 0) blocks_.insert(at + 1, {.at = address + size, .size = rest, .time = ++time_});
    return address * 512;
  }

  void free(std::uint64_t address) {
    auto at = std::ranges::find(blocks_, address / 512, &Block::at);
    at->taken = false;
    at->time = ++time_;
    if (at != blocks_.begin() && !(at - 1)->taken) {
      (at - 1)->size += at->size;
      (at - 1)->time = time_;
      at = blocks_.erase(at) - 1;
    }
    if (at + 1 != blocks_.end() && !(at + 1)->taken) {
      at->size += (at + 1)->size;
      blocks_.erase(at + 1);
    }
  }

  Bytes largest() const {
    std::uint64_t largest = 0;
    for (const Block& block : blocks_)
      if (!block.taken) largest = std::max(largest, block.size);
    return Bytes{largest * 512};
  }

 private:
  struct Block {
    std::uint64_t at = 0, size = 0, time = 0;  // in units of 512 bytes
    bool taken = false;
  };

  std::uint64_t step(std::uint64_t size) const { return std::max<std::uint64_t>(std::bit_floor(size) / classes_, 1); }
  std::uint64_t floor(std::uint64_t size) const { return size / step(size) * step(size); }
  std::uint64_t ceiling(std::uint64_t size) const { return (size + step(size) - 1) / step(size) * step(size); }

  std::size_t grow(std::uint64_t size) {
    constexpr std::uint64_t page = 4096;
    const bool extend = !blocks_.empty() && !blocks_.back().taken;
    const std::uint64_t missing = extend ? size - blocks_.back().size : size;
    const std::uint64_t more = (missing + page - 1) / page * page;
    if (!extend) blocks_.push_back({.at = blocks_.empty() ? 0 : blocks_.back().at + blocks_.back().size});
    blocks_.back().size += more;
    return blocks_.size() - 1;
  }

  std::uint64_t classes_, time_ = 0;
  std::vector<Block> blocks_;  // by address
};

TEST(Tlsf, PlacesEveryBlockWhereLookingAtAllOfThemWould) {
  for (const unsigned classes : {2U, 8U, 32U, 64U}) {
    SCOPED_TRACE(classes);
    DrivenTlsf tlsf({{}, classes});
    SlowTlsf slow(classes);
    synthetic::Random random(classes);
    std::vector<bool> live(64);
    for (int i = 0; i < 20'000; ++i) {
      const auto slot = static_cast<std::uint32_t>(random.below(64));
      if (live[slot]) {
        slow.free(tlsf.at(slot).count);
        tlsf.free(slot);
      } else {
        // Every fourth has the same size, so that classes have many members.
        const Bytes size{random.chance(4) ? 64 << 10U : random.log_uniform(1, 16U << 20U)};
        ASSERT_TRUE(tlsf.alloc(slot, size));
        ASSERT_EQ(tlsf.at(slot).count, slow.allocate(size)) << "step " << i;
      }
      ASSERT_EQ(tlsf->largest_free(), slow.largest()) << "step " << i;
      live[slot] = !live[slot];
    }
  }
}

}  // namespace
}  // namespace memreel
