// SPDX-License-Identifier: Apache-2.0
// cuda.malloc and cuda.async compared with a real driver: tests/gpu/recorded, recorded on an NVIDIA H200 by
// tests/gpu/probe_allocators; probe_script.h describes the commands. Every address and every size must be equal.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/replay/policies/cuda_async.h"
#include "analyzer/replay/policies/cuda_malloc.h"
#include "tests/unit/analyzer/recorded_on_gpu.h"

namespace memreel {
namespace {

using recorded_on_gpu::for_each_line;
using recorded_on_gpu::Line;

constexpr std::uint32_t most_slots = 1000, most_streams = 8;

/// One heap with a (pool, stream) pair for every stream that a script may name.
Prepared heap() {
  Prepared heap;
  heap.slot_count = most_slots;
  for (std::uint32_t stream = 0; stream < most_streams; ++stream)
    heap.pool_streams.push_back({.stream = StreamId{stream}, .stream_handle = stream});
  return heap;
}

/// Replays a recording with the model. What the model does not support (a busy device, trimming to a size) ends a
/// pool's part.
class AsyncRecording {
 public:
  void run(const std::string& name) {
    for_each_line(name, [&](Line& line) { step(line); });
    EXPECT_GT(compared_, 100U);
  }

 private:
  void step(Line& line) {
    if (line.command == "pool") return start(line);
    if (!policy_) return;
    if (line.command == "a") {
      const auto slot = static_cast<std::uint32_t>(line.word());
      const Bytes size{line.word()};
      ASSERT_TRUE(policy_->allocate(slot, size, static_cast<std::uint32_t>(line.word())));
      ASSERT_EQ(static_cast<std::int64_t>(policy_->extent_of(slot).address.value), line.answered());
      ++compared_;
    } else if (line.command == "r") {
      policy_->free(static_cast<std::uint32_t>(line.word()), {});
    } else if (line.command == "sync") {
      policy_->device_synchronized();
    } else if (line.command == "ssync") {
      policy_->stream_synchronized(static_cast<std::uint32_t>(line.word()));
    } else if (line.command == "event") {
      const auto awaited = static_cast<std::uint32_t>(line.word());
      return policy_->stream_waits(awaited, static_cast<std::uint32_t>(line.word()));
    } else if (line.command != "wait") {
      policy_.reset();
      return;
    }
    ASSERT_EQ(static_cast<std::int64_t>(policy_->use().reserved.count), line.answered());
  }

  void start(Line& line) {
    std::string threshold;
    line.words >> threshold;
    CudaAsyncSettings settings;
    settings.release_threshold = threshold == "max" ? CudaAsyncSettings::never : Bytes{std::stoull(threshold)};
    policy_.reset();
    if (line.word() > 0) return;  // a limited pool
    settings.follow_events = line.word() != 0;
    settings.opportunistic = line.word() != 0;
    settings.internal_dependencies = line.word() != 0;
    policy_.emplace(heap_, settings, device_);
  }

  Prepared heap_ = heap();
  SimulatedDevice device_{{}, {}};
  std::optional<CudaAsync> policy_;
  std::size_t compared_ = 0;
};

TEST(CudaAsyncRecorded, PlacementAndGaps) { AsyncRecording().run("cuda_async_place.txt"); }
TEST(CudaAsyncRecorded, Remapping) { AsyncRecording().run("cuda_async_remap.txt"); }
TEST(CudaAsyncRecorded, ReleaseThresholdZero) { AsyncRecording().run("cuda_async_threshold_0.txt"); }
TEST(CudaAsyncRecorded, ReleaseThresholdOf300MiB) { AsyncRecording().run("cuda_async_threshold_300.txt"); }
TEST(CudaAsyncRecorded, ThreeStreamsAndWaitsForThem) { AsyncRecording().run("cuda_async_stream_waits.txt"); }
TEST(CudaAsyncRecorded, FourStreamsAndEvents) { AsyncRecording().run("cuda_async_events.txt"); }
TEST(CudaAsyncRecorded, EventsWithoutOpportunisticReuse) { AsyncRecording().run("cuda_async_events_only.txt"); }

/// The offset of each request in its page, and the memory taken from the device.
void compare_malloc(const std::string& name) {
  const Prepared prepared = heap();
  SimulatedDevice device({}, {});
  CudaMalloc policy(prepared, {}, device);
  std::size_t compared = 0;
  for_each_line(name, [&](Line& line) {
    const auto slot = static_cast<std::uint32_t>(line.word());
    if (line.command == "m") {
      ASSERT_TRUE(policy.allocate(slot, Bytes{line.word()}, 0));
      const std::uint64_t page = CudaMalloc::page.count;
      ASSERT_EQ(policy.extent_of(slot).address.value % page, static_cast<std::uint64_t>(line.answered()) % page);
      ++compared;
    } else {
      policy.free(slot, {});
    }
    ASSERT_EQ(static_cast<std::int64_t>(policy.use().reserved.count), line.answered());
  });
  EXPECT_GT(compared, 100U);
}

TEST(CudaMallocRecorded, SmallRequests) { compare_malloc("cuda_malloc_small.txt"); }
TEST(CudaMallocRecorded, RequestsAroundThePageSize) { compare_malloc("cuda_malloc_mixed.txt"); }

}  // namespace
}  // namespace memreel
