// SPDX-License-Identifier: Apache-2.0
// What JAX's own allocator did on a GPU, reproduced exactly to the last address and metric.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "analyzer/replay/policies/bfc.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/replay/replay.h"
#include "analyzer/replay/verify.h"
#include "formats/import/import.h"
#include "formats/import/xplane/regions.h"
#include "formats/import/xplane/xplane.h"
#include "tests/histories.h"

namespace memreel {
namespace {

/// All profiles: histories next to the checkout, and the samples in it.
std::vector<test::History> profiles() {
  std::vector<test::History> found;
  for (const std::filesystem::path& root :
       {test::source_directory() / "samples" / "traces", test::history_directory().value_or("")}) {
    if (root.empty()) continue;
    for (const auto& entry : std::filesystem::directory_iterator(root))
      if (entry.path().string().ends_with(".xplane.pb.gz"))
        found.push_back({entry.path().stem().stem().stem().string(), entry.path()});
  }
  return found;
}

std::string six_digits(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", std::abs(value));
  return text.data();
}

/// Answers like the device: with the deduced regions.
class Regions final : public Device {
 public:
  explicit Regions(std::vector<xplane::Region> regions) : regions_(std::move(regions)) {}
  std::optional<Address> reserve(Bytes size) override {
    if (next_ == regions_.size() || size > regions_[next_].size) return std::nullopt;
    EXPECT_EQ(size, regions_[next_].size);
    return regions_[next_++].address;
  }
  void release(Address, Bytes) override { ADD_FAILURE() << "a region was given back"; }
  std::optional<Bytes> capacity() const override { return std::nullopt; }

 private:
  std::vector<xplane::Region> regions_;
  std::size_t next_ = 0;
};

/// Replays the events of one allocator. Returns the number that differ in address, chunk size, bytes in use, or in the
/// fragmentation that the allocator itself computed.
std::size_t differences(const std::vector<const xplane::MemoryEvent*>& events, const xplane::Regions& regions,
                        bool partitioned) {
  Regions device(regions.regions);
  Prepared heap;
  heap.slot_count = static_cast<std::uint32_t>(events.size());
  Bfc policy(heap,
             {.growth = regions.growing ? BfcSettings::Growth::doubling : BfcSettings::Growth::none,
              .limit = events[0]->in_use + events[0]->available,
              .page = regions.page,
              .spatial_partitioning = partitioned && !regions.growing},
             device);
  std::map<Address, std::uint32_t> slots;
  std::size_t different = 0;
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    const xplane::MemoryEvent& event = *events[i];
    bool same = true;
    if (event.is_free) {
      policy.free(slots.at(event.address), event.requested);
    } else {
      if (!policy.allocate(i, event.requested, 0)) return events.size();
      same = policy.extent_of(i) == Extent{event.address, event.allocated};
      slots[event.address] = i;
    }
    const auto free = static_cast<double>((policy.use().reserved - policy.use().allocated).count);
    const double fragmentation = (free - static_cast<double>(policy.largest_free().count)) / free;
    same =
        same && policy.use().allocated == event.in_use && six_digits(fragmentation) == six_digits(event.fragmentation);
    different += same ? 0 : 1;
  }
  return different;
}

TEST(BfcHistories, EveryMetricOfTheAllocatorIsRepeated) {
  ASSERT_FALSE(profiles().empty());
  for (const test::History& profile : profiles()) {
    SCOPED_TRACE(profile.name);
    auto file = open_bytes(profile.file);
    ASSERT_TRUE(file) << file.error().message();
    ByteCursor bytes(*std::move(file), {});
    std::vector<std::byte> unused;
    TraceWriter writer(memory_sink(unused), {});
    const auto recording = xplane::read_xspace(bytes, writer);
    ASSERT_TRUE(recording) << recording.error().message();
    for (const auto& [name, number] : recording->allocators) {
      SCOPED_TRACE(name);
      std::vector<const xplane::MemoryEvent*> events;
      for (const xplane::MemoryEvent& event : recording->events)
        if (event.allocator == number) events.push_back(&event);
      const auto regions = xplane::infer_regions(events);
      ASSERT_TRUE(regions);
      EXPECT_EQ(differences(events, *regions, true), 0U) << "of " << events.size();
    }
  }
}

TEST(BfcHistories, VerifyIsExactAndReplayReservesTheSame) {
  for (const test::History& profile : profiles()) {
    SCOPED_TRACE(profile.name);
    const auto trace = open_any(profile.file);
    ASSERT_TRUE(trace) << trace.error().message();
    const auto verifications = verify(*trace);
    ASSERT_TRUE(verifications) << verifications.error().message();
    const std::vector<Prepared> heaps = prepare(*trace);
    ASSERT_EQ(heaps.size(), verifications->size());
    for (std::size_t i = 0; i < heaps.size(); ++i) {
      const Verification& heap = verifications->at(i);
      EXPECT_TRUE(heap.exact()) << heap.note;
      EXPECT_GT(heap.allocations, 0U);
      EXPECT_EQ(heap.peak_reserved, heap.recorded_peak_reserved);
      const auto results = replay(std::span(&heaps[i], 1), std::span(&heap.policy, 1));
      ASSERT_TRUE(results) << results.error().message();
      if (profile.name != "jax_crowded") {  // a replay does not see others on the device
        EXPECT_EQ(results->at(0).peak_reserved, heap.recorded_peak_reserved);
      }
    }
  }
}

TEST(BfcHistories, AnotherChoiceIsADivergenceThatShowsTheFreeChunks) {
  const auto file = test::source_directory() / "samples" / "traces" / "jax_oom_growth.xplane.pb.gz";
  auto trace = open_any(file);
  ASSERT_TRUE(trace) << trace.error().message();
  std::size_t last = 0;
  for (std::size_t i = 0; i < trace->events.count(); ++i)
    if (trace->events.kind(i) == EventKind::alloc &&
        trace->tables[trace->tables[trace->events.origin(i)].heap].device == 0)
      last = i;
  trace->events.set_address(trace->events.allocation(last), trace->events.address(last) + 256_B);
  const auto verifications = verify(*trace);
  ASSERT_TRUE(verifications);
  const Verification& heap = verifications->at(0);
  EXPECT_FALSE(heap.exact());
  EXPECT_EQ(heap.address_matches, heap.allocations - 1);
  ASSERT_TRUE(heap.first_divergence);
  EXPECT_EQ(heap.first_divergence->event, last);
  EXPECT_FALSE(heap.first_divergence->free_blocks.empty());
}

TEST(BfcHistories, OtherBytesInUseAreADivergence) {
  const auto file = test::source_directory() / "samples" / "traces" / "jax_oom_growth.xplane.pb.gz";
  auto trace = open_any(file);
  ASSERT_TRUE(trace) << trace.error().message();
  for (std::size_t i = trace->events.count(); i-- > 0;)
    if (trace->events.kind(i) == EventKind::memory_info) {
      trace->events.set_size_and_value(i, trace->events.size(i) + 256_B, trace->events.value(i));
      break;
    }
  const auto verifications = verify(*trace);
  ASSERT_TRUE(verifications);
  EXPECT_TRUE(
      std::ranges::any_of(*verifications, [](const Verification& heap) { return heap.first_divergence.has_value(); }));
}

}  // namespace
}  // namespace memreel
