// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/request_hash.h"

#include <gtest/gtest.h>

#include <random>

namespace memreel {
namespace {

/// Requests of one heap, written by hand.
class Program {
 public:
  std::uint32_t alloc(std::uint64_t bytes, std::uint32_t pool_stream = 0) {
    const std::uint32_t slot = heap_.slot_count++;
    push(Op::alloc, slot, bytes, pool_stream);
    return slot;
  }
  void free(std::uint32_t slot) { push(Op::free, slot, heap_.size[slot_row(slot)].count, 0); }
  RequestHash hash(std::uint32_t older = 0) const {
    return hash_requests(std::span(&heap_, 1), [older](std::uint32_t event) { return event < older; });
  }
  void on_device(std::int32_t device) { heap_.device = device; }

 private:
  void push(Op op, std::uint32_t slot, std::uint64_t bytes, std::uint32_t pool_stream) {
    heap_.op.push_back(op);
    heap_.slot.push_back(slot);
    heap_.pool_stream.push_back(pool_stream);
    heap_.size.push_back({bytes});
    heap_.event.push_back(static_cast<std::uint32_t>(heap_.event.size()));
  }
  std::size_t slot_row(std::uint32_t slot) const {
    for (std::size_t row = 0;; ++row)
      if (heap_.op[row] == Op::alloc && heap_.slot[row] == slot) return row;
  }
  Prepared heap_;
};

TEST(RequestHash, DoesNotDependOnTheOrderOfFreesBetweenTwoRequests) {
  const auto program = [](bool swapped) {
    Program p;
    const std::uint32_t a = p.alloc(100), b = p.alloc(200);
    p.free(swapped ? b : a);
    p.free(swapped ? a : b);
    p.alloc(300);
    return p.hash();
  };
  EXPECT_EQ(program(false), program(true));
}

TEST(RequestHash, HasOneThatDoesNotDependOnTheTimeOfFrees) {
  enum class Freed : std::uint8_t { at_once, later, never };
  const auto program = [](Freed freed) {
    Program p;
    const std::uint32_t a = p.alloc(100);
    if (freed == Freed::at_once) p.free(a);
    p.alloc(200);
    if (freed == Freed::later) p.free(a);
    p.alloc(300);
    return p.hash();
  };
  EXPECT_NE(program(Freed::at_once).whole, program(Freed::later).whole);
  EXPECT_EQ(program(Freed::at_once).untimed, program(Freed::later).untimed);
  EXPECT_NE(program(Freed::at_once).untimed, program(Freed::never).untimed);
}

TEST(RequestHash, DoesNotDependOnTheNumberOfTheDevice) {
  const auto program = [](std::int32_t device) {
    Program p;
    p.on_device(device);
    p.alloc(100);
    return p.hash();
  };
  EXPECT_EQ(program(0), program(7));
  EXPECT_NE(program(0).whole, program(-1).whole);
}

TEST(RequestHash, TakesWhatIsOlderThanTheRecordingAsASet) {
  const auto program = [](bool swapped, std::uint64_t more) {
    Program p;
    const std::uint32_t a = p.alloc(swapped ? 200 : 100), b = p.alloc(swapped ? 100 : 200);
    p.alloc(more);
    p.free(swapped ? b : a);
    p.alloc(300, 1);
    return p.hash(3);
  };
  EXPECT_EQ(program(false, 5), program(true, 5));
  EXPECT_NE(program(false, 5).whole, program(false, 6).whole);
}

TEST(RequestHash, DependsOnWhatIsFreedBeforeARequest) {
  const auto program = [](bool before) {
    Program p;
    const std::uint32_t a = p.alloc(100);
    if (before) p.free(a);
    p.alloc(300);
    if (!before) p.free(a);
    return p.hash().whole;
  };
  EXPECT_NE(program(false), program(true));
}

TEST(RequestHash, TellsApartWhichOfTwoEqualBlocksIsFreed) {
  const auto program = [](bool second) {
    Program p;
    const std::uint32_t a = p.alloc(100), b = p.alloc(100);
    p.free(second ? b : a);
    p.alloc(100);
    return p.hash().whole;
  };
  EXPECT_NE(program(false), program(true));
}

TEST(RequestHash, DependsOnSizesTheirOrderAndStreams) {
  const auto program = [](std::uint64_t first, std::uint64_t second, std::uint32_t pool_stream) {
    Program p;
    p.alloc(first);
    p.alloc(second, pool_stream);
    return p.hash().whole;
  };
  EXPECT_EQ(program(1, 2, 0), program(1, 2, 0));
  EXPECT_NE(program(1, 2, 0), program(2, 1, 0));
  EXPECT_NE(program(1, 2, 0), program(1, 3, 0));
  EXPECT_NE(program(1, 2, 0), program(1, 2, 1));
}

/// That many steps of the same thousand requests; one step may be another program's.
RequestHash steps(std::uint32_t count, std::uint32_t odd, std::uint32_t seed = 1) {
  Program p;
  for (std::uint32_t step = 0; step < count; ++step) {
    std::mt19937 random(step == odd ? 99 : seed);
    std::vector<std::uint32_t> held;
    for (int i = 0; i < 1000; ++i) held.push_back(p.alloc(512 * (1 + random() % 1000)));
    for (const std::uint32_t slot : held) p.free(slot);
  }
  return p.hash();
}

TEST(Similarity, OfRanksThatDifferInOneStepOfTenIsNineTenths) {
  const RequestHash usual = steps(10, 10), odd = steps(10, 5), other = steps(10, 10, 2);
  EXPECT_NE(usual.whole, odd.whole);
  EXPECT_DOUBLE_EQ(similarity(usual.sketch, usual.sketch), 1);
  EXPECT_NEAR(similarity(usual.sketch, odd.sketch), 9.0 / 11, 0.05);
  EXPECT_LT(similarity(usual.sketch, other.sketch), 0.1);
}

TEST(Similarity, IsFairForSketchesThatAreFull) {
  // 200,000 requests without repetition have more chunks than a sketch can hold.
  const auto program = [](std::uint32_t seed) {
    Program p;
    std::mt19937 same(1), own(seed);
    for (int i = 0; i < 200'000; ++i) p.alloc(1 + (i < 100'000 ? same() : own()));
    return p.hash();
  };
  const RequestHash a = program(2), b = program(3);
  EXPECT_EQ(a.sketch.size(), RequestHash::most_chunks);
  EXPECT_NEAR(similarity(a.sketch, b.sketch), 1.0 / 3, 0.12);
}

}  // namespace
}  // namespace memreel
