// SPDX-License-Identifier: Apache-2.0
// The rules of TensorFlow's allocator, one by one.
#include "analyzer/replay/policies/bfc.h"
#include "analyzer/replay/registry.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "analyzer/replay/engine/parameters.h"
#include "tests/bench/synthetic.h"

namespace memreel {
namespace {

using Growth = BfcSettings::Growth;

/// Returns regions adjacent or with a gap between them; refuses those above a size.
class TestDevice final : public Device {
 public:
  std::optional<Address> reserve(Bytes size) override {
    asked.push_back(size);
    if (size > largest) return std::nullopt;
    const Address address = next_;
    next_ = next_ + size + gap;
    return address;
  }
  void release(Address, Bytes size) override { released.push_back(size); }
  std::optional<Bytes> capacity() const override { return limit; }

  std::optional<Bytes> limit;
  Bytes largest = BfcSettings::unlimited;
  Bytes gap = 1_GiB;
  std::vector<Bytes> asked, released;

 private:
  Address next_{};
};

class Driven {
 public:
  explicit Driven(const BfcSettings& settings = {}, TestDevice* device = nullptr)
      : policy_(heap(), settings, device ? *device : own_device_) {}
  bool alloc(std::uint32_t slot, Bytes size) { return policy_.allocate(slot, size, 0); }
  void free(std::uint32_t slot) { policy_.free(slot, {}); }
  Bytes at(std::uint32_t slot) const { return policy_.extent_of(slot).address - Address{}; }
  Bytes size(std::uint32_t slot) const { return policy_.extent_of(slot).size; }
  Bfc* operator->() { return &policy_; }

 private:
  static Prepared heap() {
    Prepared heap;
    heap.slot_count = 64;
    return heap;
  }
  TestDevice own_device_;
  Bfc policy_;
};

std::vector<Bytes> sizes(std::initializer_list<std::uint64_t> mebibytes) {
  std::vector<Bytes> result;
  for (const std::uint64_t n : mebibytes) result.push_back(1_MiB * n);
  return result;
}

TEST(Bfc, RoundsTo256Bytes) {
  Driven bfc;
  for (const auto& [slot, size] : {std::pair{0U, 1_B}, {1U, 256_B}, {2U, 257_B}, {3U, 0_B}}) bfc.alloc(slot, size);
  EXPECT_EQ(bfc.size(0), 256_B);
  EXPECT_EQ(bfc.at(1), 256_B);
  EXPECT_EQ(bfc.size(2), 512_B);
  EXPECT_EQ(bfc.size(3), 256_B);
}

TEST(Bfc, TakesTheSmallestChunkAndOfEqualOnesTheLowest) {
  Driven bfc({.first_region = 16_MiB});
  // Free chunks of 3, 2 and 2 MiB, separated by others.
  for (const auto& [slot, n] : {std::pair{0U, 3U}, {1U, 1U}, {2U, 2U}, {3U, 1U}, {4U, 2U}, {5U, 1U}})
    bfc.alloc(slot, 1_MiB * n);
  for (const std::uint32_t slot : {4U, 0U, 2U}) bfc.free(slot);
  bfc.alloc(6, 2_MiB);
  EXPECT_EQ(bfc.at(6), 4_MiB);
  bfc.alloc(7, 2_MiB);
  EXPECT_EQ(bfc.at(7), 7_MiB);
  bfc.alloc(8, 2_MiB);
  EXPECT_EQ(bfc.at(8), 0_MiB);
}

TEST(Bfc, SplitsWhenTheRestIsAsLargeAsTheRequest) {
  Driven bfc({.first_region = 4_MiB});
  bfc.alloc(0, 2_MiB + 1_B);
  EXPECT_EQ(bfc.size(0), 4_MiB);  // the remainder is smaller, so it stays with the allocation
  bfc.free(0);
  bfc.alloc(0, 2_MiB);
  EXPECT_EQ(bfc.size(0), 2_MiB);
  EXPECT_EQ(bfc->use().free, 2_MiB);
}

TEST(Bfc, SplitsWhenTheRestReachesTheLimit) {
  Driven bfc({.first_region = 512_MiB});
  bfc.alloc(0, 384_MiB);
  EXPECT_EQ(bfc.size(0), 384_MiB);
  bfc.free(0);
  bfc.alloc(0, 384_MiB + 256_B);
  EXPECT_EQ(bfc.size(0), 512_MiB);
}

TEST(Bfc, TheFragmentationFractionReplacesThatLimit) {
  Driven bfc({.first_region = 64_MiB, .limit = 1_GiB, .fragmentation_fraction = 1.0 / 64});
  bfc.alloc(0, 48_MiB);
  EXPECT_EQ(bfc.size(0), 48_MiB);
  bfc.free(0);
  bfc.alloc(0, 48_MiB + 1_B);
  EXPECT_EQ(bfc.size(0), 64_MiB);
}

TEST(Bfc, RegionsBeginAt2MiBAndDoubleUnlessTheyJustDid) {
  TestDevice device;
  Driven bfc({}, &device);
  bfc.alloc(0, 1_MiB);   // 2, the next one would have 4
  bfc.alloc(1, 4_MiB);   // 4, the next one 8
  bfc.alloc(2, 20_MiB);  // doubled to 32 for it
  bfc.alloc(3, 17_MiB);  // 32 again, then 64
  bfc.alloc(4, 33_MiB);  // 64
  EXPECT_EQ(device.asked, sizes({2, 4, 32, 32, 64}));
  EXPECT_EQ(bfc.size(2), 32_MiB);
  EXPECT_EQ(bfc->use().reserved, 134_MiB);
  EXPECT_EQ(bfc->driver_calls().malloc, 5U);
}

TEST(Bfc, TheLastRegionIsWhatIsLeftOfTheLimit) {
  TestDevice device;
  Driven bfc({.limit = 11_MiB}, &device);
  EXPECT_TRUE(bfc.alloc(0, 2_MiB));
  EXPECT_TRUE(bfc.alloc(1, 3_MiB));
  EXPECT_FALSE(bfc.alloc(2, 6_MiB));
  EXPECT_TRUE(bfc.alloc(2, 5_MiB));
  EXPECT_EQ(device.asked, sizes({2, 4, 5}));
  EXPECT_FALSE(bfc.alloc(3, 2_MiB));
}

TEST(Bfc, AsksForNineTenthsWhenTheDeviceRefuses) {
  TestDevice device;
  device.largest = 3_MiB;
  Driven bfc({.first_region = 4_MiB}, &device);
  EXPECT_TRUE(bfc.alloc(0, 1_MiB));
  // 0.9 of 4 MiB, 0.9 of that, and once more, each rounded up to 256 B.
  EXPECT_EQ(device.asked, (std::vector{4_MiB, 3774976_B, 3397632_B, 3057920_B}));
  EXPECT_EQ(bfc->use().reserved, 3057920_B);
  device.asked.clear();
  EXPECT_FALSE(bfc.alloc(1, 7_MiB));  // of 8 MiB: 7.2 would fit, 6.5 no longer
  EXPECT_EQ(device.asked.size(), 2U);
}

TEST(Bfc, TheDeviceGivesWholePages) {
  TestDevice device;
  device.largest = 3_MiB;
  Driven bfc({.first_region = 4_MiB, .page = 1_MiB}, &device);
  bfc.alloc(0, 1_MiB);
  EXPECT_EQ(device.asked, sizes({4, 4, 4, 3}));
  EXPECT_EQ(bfc->use().reserved, 3_MiB);
}

TEST(Bfc, WithoutGrowthThereIsOneRegion) {
  TestDevice device;
  Driven bfc({.growth = Growth::none, .limit = 100_MiB}, &device);
  EXPECT_EQ(bfc->use().reserved, 0_B);  // taken at the first request
  EXPECT_TRUE(bfc.alloc(0, 1_B));
  EXPECT_TRUE(bfc.alloc(1, 90_MiB));
  EXPECT_FALSE(bfc.alloc(2, 20_MiB));
  EXPECT_EQ(device.asked, sizes({100}));
}

TEST(Bfc, MergesAtOnceButNotAcrossRegions) {
  TestDevice device;
  device.gap = {};
  Driven bfc({}, &device);
  bfc.alloc(0, 1_MiB);
  bfc.alloc(1, 1_MiB);
  bfc.alloc(2, 4_MiB);
  for (const std::uint32_t slot : {0U, 2U, 1U}) bfc->free_requested(slot, {});
  EXPECT_EQ(bfc->largest_free(), 4_MiB);
  EXPECT_EQ(bfc->use().free, 6_MiB);
}

TEST(Bfc, RegionsThatTouchBecomeOneWhenTheyMay) {
  TestDevice device;
  device.gap = {};
  Driven bfc({.coalesce_regions = true}, &device);
  bfc.alloc(0, 1_MiB);
  bfc.alloc(1, 4_MiB);  // begins in the remainder of the first region
  EXPECT_EQ(bfc.at(1), 1_MiB);
  EXPECT_EQ(bfc.size(1), 5_MiB);
  bfc.free(0);
  bfc.free(1);
  EXPECT_EQ(bfc->largest_free(), 6_MiB);
}

TEST(Bfc, MemoryIsReusableWhenTheProgramLetsGo) {
  Driven bfc;
  bfc.alloc(0, 2_MiB);
  bfc->free_requested(0, {});
  bfc.alloc(1, 2_MiB);
  EXPECT_EQ(bfc.at(1), 0_B);
  bfc->free_completed(0, {});
  EXPECT_EQ(bfc->use().allocated, 2_MiB);
}

TEST(Bfc, GarbageCollectionGivesFreeRegionsBack) {
  for (const bool collects : {false, true}) {
    SCOPED_TRACE(collects);
    TestDevice device;
    Driven bfc({.limit = 10_MiB, .garbage_collection = collects}, &device);
    bfc.alloc(0, 2_MiB);
    bfc.alloc(1, 4_MiB);
    bfc.free(0);
    EXPECT_EQ(bfc.alloc(2, 5_MiB), collects);
    EXPECT_EQ(device.released, collects ? sizes({2}) : sizes({}));
    EXPECT_EQ(bfc->use().reserved, collects ? 10_MiB : 6_MiB);
    EXPECT_FALSE(bfc.alloc(3, 7_MiB)) << "nothing that is free could help";
    EXPECT_EQ(device.released.size(), collects ? 1U : 0U);
  }
}

TEST(Bfc, TheGapOfAPartitionedRegionIsTheLastChoice) {
  for (const bool partitioned : {false, true}) {
    SCOPED_TRACE(partitioned);
    Driven bfc({.growth = Growth::none, .limit = 64_MiB, .spatial_partitioning = partitioned});
    for (const auto& [slot, n] : {std::pair{0U, 20U}, {1U, 20U}, {2U, 1U}}) bfc.alloc(slot, 1_MiB * n);
    bfc.free(0);
    bfc.free(1);
    EXPECT_EQ(bfc->largest_free(), 40_MiB);
    bfc.alloc(3, 2_MiB);  // the 23 MiB at the end would be the better fit
    EXPECT_EQ(bfc.at(3), partitioned ? 0_MiB : 41_MiB);
    bfc.free(3);
    bfc.free(2);
    EXPECT_EQ(bfc->largest_free(), 64_MiB);
    bfc.alloc(4, 33_MiB);
    EXPECT_EQ(bfc.size(4), 64_MiB) << "the gap is split as any chunk is";
  }
}

TEST(Bfc, LimitsAreSharesOfTheDevice) {
  BfcSettings settings = jax_default_settings();
  EXPECT_EQ(settings.limit_on(std::nullopt), 60_GiB);  // 75 % of 80 GiB
  EXPECT_EQ(settings.limit_on(24_GiB), 18_GiB);
  EXPECT_EQ(settings.limit_on(1001_MiB), 752_MiB);  // 750.75, in whole pages
  EXPECT_EQ(jax_growth_settings().limit_on(std::nullopt), BfcSettings::unlimited);
  EXPECT_EQ(jax_growth_settings().limit_on(24_GiB), 18_GiB);
  settings.limit = 5_GiB;
  EXPECT_EQ(settings.limit_on(24_GiB), 5_GiB);
}

BfcSettings onnx_settings() {
  return {.first_region = 1_MiB, .largest_region = 1_GiB, .onnx_growth = true, .shrinks = true};
}

TEST(OrtArena, BeginsWith1MiBAndStopsDoublingAt1GiB) {
  TestDevice device;
  Driven bfc(onnx_settings(), &device);
  std::uint32_t slot = 0;
  for (const Bytes size : {1_MiB, 2_MiB, 600_MiB, 600_MiB, 600_MiB, 3_GiB}) bfc.alloc(slot++, size);
  EXPECT_EQ(device.asked, sizes({1, 2, 1024, 1024, 1024, 4096}));
  for (std::uint32_t i = 0; i < slot; ++i) bfc.free(i);
  bfc->empty_cache();
  EXPECT_EQ(bfc->use().reserved, 1_MiB) << "the first region stays";
  bfc.alloc(0, 1_MiB);
  bfc.alloc(1, 1_MiB);
  EXPECT_EQ(device.asked.back(), 2_MiB);
}

TEST(OrtArena, ComesDownTo1GiBAfterALargerRequest) {
  TestDevice device;
  Driven bfc(onnx_settings(), &device);
  std::uint32_t slot = 0;
  for (const Bytes size : {3_GiB, 3_GiB, 600_MiB, 600_MiB, 600_MiB}) bfc.alloc(slot++, size);
  EXPECT_EQ(device.asked, sizes({4096, 4096, 1024}));
}

TEST(OrtArena, DoublesBeforeTheDeviceIsAsked) {
  TestDevice device;
  device.largest = 900_KiB;
  Driven bfc(onnx_settings(), &device);
  EXPECT_FALSE(bfc.alloc(0, 1_MiB));
  device.largest = 2_GiB;
  EXPECT_TRUE(bfc.alloc(0, 1_MiB));
  EXPECT_EQ(device.asked.back(), 2_MiB);
}

TEST(OrtArena, DoesNotAskForLessThan8KiB) {
  TestDevice device;
  device.largest = 7_KiB;
  Driven bfc(onnx_settings(), &device);
  EXPECT_FALSE(bfc.alloc(0, 1_KiB));
  EXPECT_GE(device.asked.back(), 8_KiB);
}

TEST(Bfc, HasOneGapWhereADeviceThatRefusesLeavesTwoRegions) {
  TestDevice device;
  device.largest = 9_MiB;
  Driven bfc({.growth = Growth::none, .limit = 16_MiB, .spatial_partitioning = true}, &device);
  ASSERT_TRUE(bfc.alloc(0, 1_MiB));
  ASSERT_TRUE(bfc.alloc(1, 5_MiB));  // in a second region
  ASSERT_GT(device.asked.size(), 2U);
  const Bytes reserved = bfc->use().reserved;
  for (const std::uint32_t slot : {0U, 1U}) bfc.free(slot);
  EXPECT_EQ(bfc->use().free, reserved);
  EXPECT_EQ(bfc->use().allocated, 0_B);
  ASSERT_TRUE(bfc.alloc(0, 4_MiB));
  bfc.free(0);
  EXPECT_EQ(bfc->use().free, reserved);
}

TEST(OrtArena, CanTakeWhatIsRequested) {
  TestDevice device;
  Driven bfc({.growth = Growth::requested, .shrinks = true}, &device);
  bfc.alloc(0, 3_MiB);
  bfc.alloc(1, 5_MiB);
  EXPECT_EQ(device.asked, sizes({3, 5}));
  bfc.free(0);
  bfc->empty_cache();
  EXPECT_EQ(bfc->use().reserved, 5_MiB);
}

/// The allocator's own search: the first fit in 21 bins by size, from the request's bin upward.
class Bins {
 public:
  void insert(Bytes size, Address address) { bin_of(size).emplace(size, address); }
  void erase(Bytes size, Address address) { bin_of(size).erase({size, address}); }
  std::optional<Address> find(Bytes size) const {
    for (std::size_t i = number(size); i < bins_.size(); ++i)
      for (const auto& [chunk, address] : bins_.at(i))
        if (chunk >= size) return address;
    return std::nullopt;
  }

 private:
  static std::size_t number(Bytes size) {
    return std::min<std::size_t>(20, static_cast<std::size_t>(std::bit_width(size.count / 256)) - 1);
  }
  std::set<std::pair<Bytes, Address>>& bin_of(Bytes size) { return bins_.at(number(size)); }
  std::array<std::set<std::pair<Bytes, Address>>, 21> bins_;
};

TEST(Bfc, BinsWouldChooseTheSame) {
  Driven bfc({.growth = Growth::none, .limit = 64_GiB});
  synthetic::Random random(1);
  std::set<std::uint32_t> live;
  for (int step = 0; step < 20000; ++step) {
    const auto slot = static_cast<std::uint32_t>(random.below(64));
    if (live.contains(slot)) {
      bfc.free(slot);
      live.erase(slot);
      continue;
    }
    Bins bins;
    bfc->blocks().for_each([&](const Block& block) {
      if (block.state == BlockState::free) bins.insert(block.size, block.address);
    });
    const Bytes size{256 * random.log_uniform(1, std::uint64_t{1} << 22U)};  // up to 1 GiB: the last bin is open-ended
    const auto expected = bins.find(size);
    ASSERT_TRUE(bfc.alloc(slot, size));
    if (expected) {
      ASSERT_EQ(Address{} + bfc.at(slot), *expected) << "step " << step;
    }
    live.insert(slot);
  }
}

TEST(BfcSettings, PresetsDifferInTheirDefaults) {
  for (const auto& [name, growth, fraction] : {std::tuple{"tf.bfc", "true", "1"},
                                               {"tf.growth", "true", "1"},
                                               {"jax.default", "false", "0.75"},
                                               {"jax.growth", "true", "0.75"}}) {
    const PolicyEntry* entry = find_policy(name);
    ASSERT_NE(entry, nullptr) << name;
    EXPECT_EQ(defaults_of(entry->info.parameters).at("allow_growth"), growth) << name;
    EXPECT_EQ(defaults_of(entry->info.parameters).at("fraction"), fraction) << name;
    EXPECT_TRUE(bind_policy({.name = name, .parameters = {}})) << name;
  }
}

TEST(BfcSettings, ParametersAreStrict) {
  for (const auto& [key, value] : std::map<std::string, std::string>{{"allow_growth", "yes"},
                                                                     {"fraction", "0"},
                                                                     {"fraction", "1.5"},
                                                                     {"fragmentation_fraction", "-1"},
                                                                     {"garbage_collection", ""},
                                                                     {"limit", "0"},
                                                                     {"limit", "64TiB"},
                                                                     {"memory", "none"},
                                                                     {"page", "3MiB"},
                                                                     {"spatial_partitioning", "true"},
                                                                     {"limits", "1GiB"}}) {
    const auto bound = bind_policy({.name = "tf.bfc", .parameters = {{key, value}}});
    ASSERT_FALSE(bound) << key << "=" << value;
    EXPECT_NE(bound.error().message().find(key), std::string::npos);
  }
  for (const auto& [key, value] : std::map<std::string, std::string>{{"extend", "twice"},
                                                                     {"first", "0"},
                                                                     {"largest", "0"},
                                                                     {"largest_rest", "none"},
                                                                     {"max_mem", "64TiB"},
                                                                     {"regrowth", ""}})
    EXPECT_FALSE(bind_policy({.name = "ort.arena", .parameters = {{key, value}}})) << key << "=" << value;
}

}  // namespace
}  // namespace memreel
