// SPDX-License-Identifier: Apache-2.0
// The RMM adapter, with a stand-in for RMM's header.
#include "samples/adapters/rmm_memory.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <new>
#include <utility>
#include <vector>

#include "collector/recorder/recorder.h"

namespace memreel::annotate {
namespace {

using agent::Record;
using agent::RecordKind;

/// Hands out its own memory from the front and never reuses it.
class Memory final : public rmm::mr::device_memory_resource {
 public:
  char* begin() { return memory_.data(); }

 private:
  void* do_allocate(std::size_t bytes, rmm::cuda_stream_view /*stream*/) override {
    if (bytes > memory_.size() - used_) throw std::bad_alloc();
    return memory_.data() + std::exchange(used_, used_ + bytes);
  }
  void do_deallocate(void* /*address*/, std::size_t /*bytes*/, rmm::cuda_stream_view /*stream*/) noexcept override {}

  std::vector<char> memory_ = std::vector<char>(4096);
  std::size_t used_ = 0;
};

TEST(RmmAdapter, RecordsWhatGoesThrough) {
  agent::Recorder recorder{agent::Options{}};
  agent::set_recorder(&recorder);
  Memory device, pooled;
  {
    const annotated_pool pool("rmm", MEMREEL_POOL_CACHING);
    memreel_adapters::rmm_segments below(&device, pool);
    memreel_adapters::rmm_allocations above(&pooled, pool);
    void* const segment = below.allocate(2048);
    void* const address = above.allocate(100, rmm::cuda_stream_view(segment));
    EXPECT_THROW(above.allocate(1 << 20), std::bad_alloc);
    above.deallocate(address, 100);
    below.deallocate(segment, 2048);
  }
  agent::set_recorder(nullptr);
  std::vector<Record> batch;
  recorder.drain(batch);
  std::erase_if(batch, [](const Record& record) { return record.kind == RecordKind::thread_began; });
  const std::vector kinds{RecordKind::own_pool_made, RecordKind::segment_added, RecordKind::alloc,
                          RecordKind::alloc_failed,  RecordKind::free,          RecordKind::segment_removed,
                          RecordKind::own_pool_gone};
  ASSERT_EQ(batch.size(), kinds.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) EXPECT_EQ(batch[i].kind, kinds[i]);
  EXPECT_EQ(batch[1].address, std::bit_cast<std::uint64_t>(device.begin()));
  EXPECT_EQ(batch[1].size, 2048U);
  EXPECT_EQ(batch[2].address, std::bit_cast<std::uint64_t>(pooled.begin()));
  EXPECT_EQ(batch[2].size, 100U);
  EXPECT_EQ(batch[2].stream, batch[1].address);
  EXPECT_EQ(batch[3].size, 1U << 20U);
}

}  // namespace
}  // namespace memreel::annotate
