// SPDX-License-Identifier: Apache-2.0
// Heaps and regions of a program that uses NVTX's memory extension as shipped.
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExtMem.h>

#include <array>
#include <bit>
#include <string>
#include <vector>

#include "collector/recorder/recorder.h"

namespace memreel::nvtx {
namespace {

using agent::Record;
using agent::RecordKind;

class MemoryExtension : public ::testing::Test {
 public:
  MemoryExtension() : recorder_(agent::Options{}) { agent::set_recorder(&recorder_); }
  ~MemoryExtension() override { agent::set_recorder(nullptr); }

 protected:
  nvtxMemHeapHandle_t heap(const char* name) {
    const nvtxMemVirtualRangeDesc_t range{memory_.size(), memory_.data()};
    nvtxMemHeapDesc_t description{};
    description.extCompatID = NVTX_EXT_COMPATID_MEM;
    description.structSize = sizeof description;
    description.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
    description.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    description.typeSpecificDescSize = sizeof range;
    description.typeSpecificDesc = &range;
    description.messageType = NVTX_MESSAGE_TYPE_ASCII;
    description.message.ascii = name;
    return nvtxMemHeapRegister(nullptr, &description);
  }

  std::vector<nvtxMemRegionHandle_t> put(nvtxMemHeapHandle_t heap, std::vector<nvtxMemVirtualRangeDesc_t> ranges) {
    std::vector<nvtxMemRegionHandle_t> handles(ranges.size());
    const nvtxMemRegionsRegisterBatch_t batch{
        NVTX_EXT_COMPATID_MEM, sizeof batch,  NVTX_MEM_TYPE_VIRTUAL_ADDRESS, heap, ranges.size(), sizeof ranges[0],
        ranges.data(),         handles.data()};
    nvtxMemRegionsRegister(nullptr, &batch);
    return handles;
  }

  std::vector<Record> seen() {
    std::vector<Record> batch, all;
    recorder_.drain(batch);
    for (const Record& record : batch)
      if (record.kind != RecordKind::thread_began) all.push_back(record);
    return all;
  }
  std::uint64_t at(std::size_t offset) const { return std::bit_cast<std::uint64_t>(memory_.data() + offset); }

  agent::Recorder recorder_;
  std::array<char, 4096> memory_{};
};

TEST_F(MemoryExtension, HeapsArePoolsWithASegment) {
  nvtxMemHeapHandle_t made = heap("arena");
  nvtxMemHeapUnregister(nullptr, made);
  const auto records = seen();
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].kind, RecordKind::own_pool_made);
  EXPECT_EQ(records[0].device, 3) << "of the thread that registered it";
  const auto name = recorder_.names()[static_cast<std::uint32_t>(records[0].address)];
  EXPECT_EQ(std::string(static_cast<const char*>(static_cast<const void*>(name.data())), name.size()), "arena");
  EXPECT_EQ(records[1].kind, RecordKind::segment_added);
  EXPECT_EQ(records[1].size, memory_.size());
  EXPECT_EQ(records[2].kind, RecordKind::own_pool_gone);
  for (const Record& record : records) EXPECT_EQ(record.object, records[0].object);
}

TEST_F(MemoryExtension, RegionsAreAllocations) {
  nvtxMemHeapHandle_t made = heap("arena");
  seen();
  const auto handles = put(made, {{100, memory_.data()}, {200, memory_.data() + 512}});
  const nvtxMemVirtualRangeDesc_t larger{300, memory_.data() + 512};
  const nvtxMemRegionsResizeBatch_t resize{NVTX_EXT_COMPATID_MEM, sizeof resize, NVTX_MEM_TYPE_VIRTUAL_ADDRESS, 1,
                                           sizeof larger,         &larger};
  nvtxMemRegionsResize(nullptr, &resize);
  std::array<nvtxMemRegionRef_t, 1> by_handle{}, by_address{};
  by_handle[0].handle = handles[0];
  by_address[0].pointer = memory_.data() + 512;
  for (const auto& [kind, references] : {std::pair{NVTX_MEM_REGION_REF_TYPE_HANDLE, &by_handle},
                                         std::pair{NVTX_MEM_REGION_REF_TYPE_POINTER, &by_address}}) {
    const nvtxMemRegionsUnregisterBatch_t batch{
        NVTX_EXT_COMPATID_MEM,      sizeof batch,      static_cast<std::uint32_t>(kind), 1,
        sizeof(nvtxMemRegionRef_t), references->data()};
    nvtxMemRegionsUnregister(nullptr, &batch);
  }
  const auto records = seen();
  ASSERT_EQ(records.size(), 5U);
  const std::array kinds{RecordKind::alloc, RecordKind::alloc, RecordKind::resized, RecordKind::free, RecordKind::free};
  const std::array addresses{at(0), at(512), at(512), at(0), at(512)};
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].kind, kinds[i]);
    EXPECT_EQ(records[i].address, addresses[i]);
    EXPECT_EQ(records[i].space, agent::Space::own);
  }
  EXPECT_EQ(records[0].size, 100U);
  EXPECT_EQ(records[2].size, 300U);
  EXPECT_NE(records[0].stack, stacks::StackKey::none);
}

TEST_F(MemoryExtension, AResetHeapIsEmptyAndThere) {
  nvtxMemHeapHandle_t made = heap("arena");
  put(made, {{100, memory_.data()}});
  seen();
  nvtxMemHeapReset(nullptr, made);
  const auto records = seen();
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records[0].kind, RecordKind::own_pool_gone);
  EXPECT_EQ(records[1].kind, RecordKind::own_pool_made);
  EXPECT_EQ(records[2].kind, RecordKind::segment_added);
}

TEST_F(MemoryExtension, RegionsNeedNoHeap) {
  put(NVTX_MEM_HEAP_HANDLE_PROCESS_WIDE, {{100, memory_.data()}});
  const auto records = seen();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].kind, RecordKind::own_pool_made);
  EXPECT_EQ(records[1].kind, RecordKind::alloc);
  EXPECT_EQ(records[1].object, records[0].object);
}

}  // namespace
}  // namespace memreel::nvtx
