// SPDX-License-Identifier: Apache-2.0
// When memory that is created and mapped separately is freed, compared with a model that counts references and
// mappings.
#include "collector/cuda/physical_memory.h"

#include <gmock/gmock.h>

#include <random>

namespace memreel::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PhysicalMemory, ReleasedWhileMappedItLivesUntilItIsUnmapped) {
  PhysicalMemory memory;
  const auto piece = memory.created(1, 100);
  memory.mapped(0x1000, 100, 1);
  EXPECT_EQ(memory.released(1), std::nullopt);
  EXPECT_THAT(memory.unmapped(0x1000, 100), ElementsAre(piece));
}

TEST(PhysicalMemory, UnmappedItLivesUntilItIsReleased) {
  PhysicalMemory memory;
  const auto piece = memory.created(1, 100);
  memory.mapped(0x1000, 100, 1);
  EXPECT_THAT(memory.unmapped(0x1000, 100), IsEmpty());
  EXPECT_EQ(memory.released(1), piece);
}

TEST(PhysicalMemory, NeverMappedItIsGoneWhenReleased) {
  PhysicalMemory memory;
  const auto piece = memory.created(1, 100);
  EXPECT_EQ(memory.released(1), piece);
}

TEST(PhysicalMemory, EveryReferenceAndEveryMappingCounts) {
  PhysicalMemory memory;
  const auto piece = memory.created(1, 100);
  memory.retained(1);
  memory.mapped(0x1000, 100, 1);
  memory.mapped(0x2000, 100, 1);
  EXPECT_EQ(memory.released(1), std::nullopt);
  EXPECT_EQ(memory.released(1), std::nullopt);
  EXPECT_THAT(memory.unmapped(0x2000, 100), IsEmpty());
  EXPECT_THAT(memory.unmapped(0x1000, 100), ElementsAre(piece));
}

TEST(PhysicalMemory, AHandleThatIsGivenAgainNamesTheNewMemory) {
  PhysicalMemory memory;
  const auto first = memory.created(1, 100);
  memory.mapped(0x1000, 100, 1);
  memory.released(1);
  const auto second = memory.created(1, 200);
  EXPECT_EQ(memory[second].namesakes, 1U);
  memory.mapped(0x2000, 200, 1);
  EXPECT_THAT(memory.unmapped(0x1000, 100), ElementsAre(first));
  EXPECT_EQ(memory.released(1), std::nullopt);
  EXPECT_THAT(memory.unmapped(0x2000, 200), ElementsAre(second));
}

TEST(PhysicalMemory, ARangeIsUnmappedWithAllMappingsInIt) {
  PhysicalMemory memory;
  const auto first = memory.created(1, 100);
  const auto second = memory.created(2, 100);
  memory.mapped(0, 100, 1);
  memory.mapped(100, 100, 2);
  memory.released(1);
  memory.released(2);
  EXPECT_THAT(memory.unmapped(0, 200), ElementsAre(first, second));
}

TEST(PhysicalMemory, UnknownHandlesAndAddressesNameNothing) {
  PhysicalMemory memory;
  EXPECT_EQ(memory.released(9), std::nullopt);
  EXPECT_EQ(memory.mapped(0x1000, 100, 9), std::nullopt);
  EXPECT_THAT(memory.unmapped(0x1000, 100), IsEmpty());
  EXPECT_THAT(memory.unmapped(0x5000, 100), IsEmpty());
}

TEST(PhysicalMemory, RandomProgramsAgreeWithCounting) {
  std::minstd_rand random(5);  // NOLINT(cert-msc51-cpp): the same in every run
  PhysicalMemory memory;
  struct Model {
    int references = 0, mappings = 0;
    PhysicalMemory::Number number = 0;
  };
  std::map<std::uint64_t, Model> pieces;             // by handle; each is issued once
  std::map<std::uint64_t, std::uint64_t> handle_at;  // by address
  const auto any = [&](auto& map) { return std::next(map.begin(), static_cast<long>(random() % map.size())); };
  std::size_t gone = 0;
  for (std::uint64_t i = 1; i < 20'000; ++i) {
    const auto what = random() % 5;
    if (what == 0 || pieces.empty()) {
      pieces[i] = {.references = 1, .number = memory.created(i, 1)};
      continue;
    }
    auto piece = any(pieces);
    bool reported = false;
    if (what == 1 && piece->second.references > 0) {
      memory.retained(piece->first);
      ++piece->second.references;
    } else if (what == 2 && piece->second.references > 0) {
      reported = memory.released(piece->first) == piece->second.number;
      --piece->second.references;
    } else if (what == 3 && piece->second.references > 0) {
      memory.mapped(16 * i, 16, piece->first);
      handle_at[16 * i] = piece->first;
      ++piece->second.mappings;
    } else if (what == 4 && !handle_at.empty()) {
      const auto mapping = any(handle_at);
      piece = pieces.find(mapping->second);
      const auto ended = memory.unmapped(mapping->first, 16);
      reported = ended.size() == 1 && ended.front() == piece->second.number;
      --piece->second.mappings;
      handle_at.erase(mapping);
    }
    const bool dead = piece->second.references == 0 && piece->second.mappings == 0;
    ASSERT_EQ(reported, dead) << "step " << i;
    if (!dead) continue;
    memory.forget(piece->second.number);
    pieces.erase(piece);
    ++gone;
  }
  EXPECT_GT(gone, 100U);
}

}  // namespace
}  // namespace memreel::cuda
