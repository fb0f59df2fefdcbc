// SPDX-License-Identifier: Apache-2.0
// What each kind of call becomes. Calls consist of parameters and results as CUPTI reports them.
#include "collector/cuda/decoder.h"

#include <gtest/gtest.h>

#include <optional>

namespace memreel::cuda {
namespace {

using agent::Record;
using agent::RecordKind;
using agent::Space;

template <class T = void>
T* pointer(std::uint64_t number) {
  return reinterpret_cast<T*>(number);  // NOLINT(performance-no-int-to-ptr): an opaque handle
}

class DecoderTest : public ::testing::Test {
 protected:
  static constexpr KnownObjects::Known context{.number = 7, .device = 3};

  std::uint64_t enter(Call call, const auto& parameters) {
    return decoder_.enter({.call = call, .parameters = &parameters, .context = context});
  }
  void exit(Call call, const auto& parameters, Status status, std::uint64_t entered, bool captured = false) {
    decoder_.exit({.call = call, .parameters = &parameters, .context = context, .captured = captured}, status, entered);
  }
  /// The records of a complete call.
  std::vector<Record> records_of(Call call, const auto& parameters, Status status = success, bool captured = false) {
    exit(call, parameters, status, enter(call, parameters), captured);
    return drained();
  }
  /// The single record of a complete call.
  Record record_of(Call call, const auto& parameters, Status status = success, bool captured = false) {
    const std::vector<Record> records = records_of(call, parameters, status, captured);
    EXPECT_EQ(records.size(), 1U);
    return records.empty() ? Record{} : records.front();
  }
  std::vector<Record> drained() {
    std::vector<Record> records;
    recorder_.drain(records);
    return records;
  }

  agent::Recorder recorder_{{.depth = 0}};
  Decoder decoder_{recorder_};
};

void expect_alloc(const Record& record, Space space, std::uint64_t address, std::uint64_t size, int device = 3) {
  EXPECT_EQ(record.kind, RecordKind::alloc);
  EXPECT_EQ(record.space, space);
  EXPECT_EQ(record.address, address);
  EXPECT_EQ(record.size, size);
  EXPECT_EQ(record.device, device);
  EXPECT_EQ(record.context, 7);
}

void expect_free(const Record& record, Space space, std::uint64_t address, int device = 3) {
  EXPECT_EQ(record.kind, RecordKind::free);
  EXPECT_EQ(record.space, space);
  EXPECT_EQ(record.address, address);
  EXPECT_EQ(record.device, device);
}

TEST_F(DecoderTest, LinearMemory) {
  DevicePointer address = 0x7000;
  expect_alloc(record_of(Call::cuMemAlloc_v2, params::MemAlloc{&address, 100}), Space::linear, 0x7000, 100);
  expect_free(record_of(Call::cuMemFree_v2, params::MemFree{0x7000}), Space::linear, 0x7000);
}

TEST_F(DecoderTest, PitchedMemoryIsItsPitchTimesItsHeight) {
  DevicePointer address = 0x7000;
  std::size_t pitch = 512;
  expect_alloc(record_of(Call::cuMemAllocPitch_v2, params::MemAllocPitch{&address, &pitch, 100, 10, 4}), Space::linear,
               0x7000, 5120);
}

TEST_F(DecoderTest, AFailedPitchedRequestAskedForItsWidth) {
  DevicePointer address = 0;
  std::size_t pitch = 0xDEAD;
  const Record record =
      record_of(Call::cuMemAllocPitch_v2, params::MemAllocPitch{&address, &pitch, 100, 10, 4}, out_of_memory);
  EXPECT_EQ(record.kind, RecordKind::alloc_failed);
  EXPECT_EQ(record.size, 1000U);
}

TEST_F(DecoderTest, ManagedMemory) {
  DevicePointer address = 0x7000;
  expect_alloc(record_of(Call::cuMemAllocManaged, params::MemAllocManaged{&address, 100, 1}), Space::managed, 0x7000,
               100);
}

TEST_F(DecoderTest, HostMemoryIsOnNoDevice) {
  void* address = pointer(0x9000);
  expect_alloc(record_of(Call::cuMemAllocHost_v2, params::MemAllocHost{&address, 50}), Space::pinned, 0x9000, 50, -1);
  expect_alloc(record_of(Call::cuMemHostAlloc, params::MemHostAlloc{&address, 50, 0}), Space::pinned, 0x9000, 50, -1);
  expect_alloc(record_of(Call::cuMemHostAlloc_v2, params::MemHostAlloc{&address, 50, 0}), Space::pinned, 0x9000, 50,
               -1);
  expect_free(record_of(Call::cuMemFreeHost, params::MemFreeHost{address}), Space::pinned, 0x9000, -1);
  expect_alloc(record_of(Call::cuMemHostRegister_v2, params::MemHostRegister{address, 60, 0}), Space::registered,
               0x9000, 60, -1);
  expect_free(record_of(Call::cuMemHostUnregister, params::MemHostUnregister{address}), Space::registered, 0x9000, -1);
}

TEST_F(DecoderTest, StreamOrderedMemoryNamesStreamAndPool) {
  DevicePointer address = 0x7000;
  for (const Call call : {Call::cuMemAllocAsync, Call::cuMemAllocAsync_ptsz}) {
    const Record record = record_of(call, params::MemAllocAsync{&address, 100, pointer(0x51)});
    expect_alloc(record, Space::ordered, 0x7000, 100);
    EXPECT_EQ(record.stream, 0x51U);
    EXPECT_EQ(record.object, 0U);
  }
  for (const Call call : {Call::cuMemAllocFromPoolAsync, Call::cuMemAllocFromPoolAsync_ptsz}) {
    const Record record = record_of(call, params::MemAllocFromPoolAsync{&address, 100, pointer(0xF0), pointer(0x51)});
    expect_alloc(record, Space::ordered, 0x7000, 100);
    EXPECT_EQ(record.stream, 0x51U);
    EXPECT_EQ(record.object, 0xF0U);
  }
  for (const Call call : {Call::cuMemFreeAsync, Call::cuMemFreeAsync_ptsz}) {
    const Record record = record_of(call, params::MemFreeAsync{0x7000, pointer(0x52)});
    expect_free(record, Space::ordered, 0x7000);
    EXPECT_EQ(record.stream, 0x52U);
  }
}

TEST_F(DecoderTest, CapturedCallsAllocateNothing) {
  DevicePointer address = 0x7000;
  const Record node = record_of(Call::cuMemAllocAsync, params::MemAllocAsync{&address, 100, nullptr}, success, true);
  EXPECT_EQ(node.kind, RecordKind::graph_alloc);
  EXPECT_EQ(node.address, 0x7000U);
  EXPECT_EQ(node.size, 100U);

  const std::vector<Record> freed =
      records_of(Call::cuMemFreeAsync, params::MemFreeAsync{0x7000, nullptr}, success, true);
  ASSERT_EQ(freed.size(), 3U);
  EXPECT_EQ(freed[1].kind, RecordKind::free_cancelled);
  EXPECT_EQ(freed[1].object, freed[0].sequence);
  EXPECT_EQ(freed[2].kind, RecordKind::graph_free);
  EXPECT_EQ(freed[2].address, 0x7000U);
}

TEST_F(DecoderTest, NodesThatAreAddedToGraphs) {
  MemAllocNode alloc{.size = 100, .address = 0x7000};
  alloc.pool.location = {.type = Location::device, .id = 2};
  const Record added = record_of(Call::cuGraphAddMemAllocNode, params::GraphAddMemAllocNode{.parameters = &alloc});
  EXPECT_EQ(added.kind, RecordKind::graph_alloc);
  EXPECT_EQ(added.address, 0x7000U);
  EXPECT_EQ(added.size, 100U);
  EXPECT_EQ(added.device, 2);
  EXPECT_EQ(record_of(Call::cuGraphAddMemFreeNode, params::GraphAddMemFreeNode{.address = 0x7000}).kind,
            RecordKind::graph_free);

  GraphNode node{.type = mem_alloc_node, .reserved = {}, .alloc = alloc};
  EXPECT_EQ(record_of(Call::cuGraphAddNode, params::GraphAddNode{.parameters = &node}).address, 0x7000U);
  EXPECT_EQ(record_of(Call::cuGraphAddNode_v2, params::GraphAddNodeV2{.parameters = &node}).size, 100U);
  node = {.type = mem_free_node, .reserved = {}, .freed = 0x7000};
  EXPECT_EQ(record_of(Call::cuGraphAddNode, params::GraphAddNode{.parameters = &node}).kind, RecordKind::graph_free);
  node.type = 0;  // a kernel
  EXPECT_TRUE(records_of(Call::cuGraphAddNode, params::GraphAddNode{.parameters = &node}).empty());
}

TEST_F(DecoderTest, MemoryThatIsCreatedAndMapped) {
  AllocationHandle handle = 0x77;
  AllocationProperties properties{};
  properties.location = {.type = Location::device, .id = 1};
  const Record created = record_of(Call::cuMemCreate, params::MemCreate{&handle, 4096, &properties, 0});
  EXPECT_EQ(created.kind, RecordKind::handle_created);
  EXPECT_EQ(created.object, 0x77U);
  EXPECT_EQ(created.size, 4096U);
  EXPECT_EQ(created.device, 1);

  DevicePointer base = 0x10000;
  const Record reserved = record_of(Call::cuMemAddressReserve, params::MemAddressReserve{&base, 8192, 0, 0, 0});
  EXPECT_EQ(reserved.kind, RecordKind::addresses_reserved);
  EXPECT_EQ(reserved.address, 0x10000U);

  const Record mapped = record_of(Call::cuMemMap, params::MemMap{0x10000, 4096, 0, handle, 0});
  EXPECT_EQ(mapped.kind, RecordKind::mapped);
  EXPECT_EQ(mapped.object, 0x77U);
  EXPECT_EQ(record_of(Call::cuMemUnmap, params::MemUnmap{0x10000, 4096}).kind, RecordKind::unmapped);
  EXPECT_EQ(record_of(Call::cuMemRelease, params::MemRelease{handle}).kind, RecordKind::handle_released);
  EXPECT_EQ(record_of(Call::cuMemAddressFree, params::MemAddressFree{0x10000, 8192}).kind,
            RecordKind::addresses_released);
  EXPECT_EQ(record_of(Call::cuMemRetainAllocationHandle, params::MemRetainAllocationHandle{&handle, nullptr}).kind,
            RecordKind::handle_retained);
  EXPECT_EQ(
      record_of(Call::cuMemImportFromShareableHandle, params::MemImportFromShareableHandle{&handle, nullptr, 1}).kind,
      RecordKind::handle_imported);
}

TEST_F(DecoderTest, MemoryOnAHostNodeIsOnNoDevice) {
  AllocationHandle handle = 0x77;
  AllocationProperties properties{};
  properties.location = {.type = 3, .id = 1};
  EXPECT_EQ(record_of(Call::cuMemCreate, params::MemCreate{&handle, 4096, &properties, 0}).device, -1);
}

TEST_F(DecoderTest, ArraysAreAsLargeAsTheirElements) {
  Object array = pointer(0xA0);
  const ArrayDescriptor flat{.width = 256, .height = 128, .format = 0x20, .channels = 4};
  expect_alloc(record_of(Call::cuArrayCreate_v2, params::ArrayCreate{&array, &flat}), Space::array, 0xA0,
               256 * 128 * 16);
  const Array3dDescriptor deep{.width = 64, .height = 32, .depth = 8, .format = 0x01, .channels = 1, .flags = 0};
  expect_alloc(record_of(Call::cuArray3DCreate_v2, params::Array3dCreate{&array, &deep}), Space::array, 0xA0,
               64 * 32 * 8);
  expect_alloc(record_of(Call::cuMipmappedArrayCreate, params::MipmappedArrayCreate{&array, &deep, 2}), Space::array,
               0xA0, 64 * 32 * 8 + 32 * 16 * 4);
  expect_free(record_of(Call::cuArrayDestroy, params::ArrayDestroy{array}), Space::array, 0xA0);
  expect_free(record_of(Call::cuMipmappedArrayDestroy, params::ArrayDestroy{array}), Space::array, 0xA0);
}

TEST_F(DecoderTest, MemoryOfOthersIsImported) {
  DevicePointer address = 0x7000;
  const ExternalBuffer buffer{.offset = 0, .size = 300, .flags = 0};
  expect_alloc(record_of(Call::cuExternalMemoryGetMappedBuffer,
                         params::ExternalMemoryGetMappedBuffer{&address, nullptr, &buffer}),
               Space::imported, 0x7000, 300);
  expect_alloc(record_of(Call::cuIpcOpenMemHandle, params::IpcOpenMemHandle{&address, {}, 1}), Space::imported, 0x7000,
               0);
  expect_alloc(record_of(Call::cuIpcOpenMemHandle_v2, params::IpcOpenMemHandle{&address, {}, 1}), Space::imported,
               0x7000, 0);
  expect_free(record_of(Call::cuIpcCloseMemHandle, params::IpcCloseMemHandle{0x7000}), Space::imported, 0x7000);
}

constexpr int host_location = 2, numa_location = 3;

/// CUDA 13.4's locality domain: two bytes, the second of which names the domain.
constexpr Location domain_of(int device, int domain) {
  return {.type = Location::locality_domain, .id = device | domain << 8U};
}

TEST_F(DecoderTest, Pools) {
  Object pool = pointer(0xF0);
  PoolProperties properties{};
  properties.allocation_type = pinned_memory;
  properties.location = {.type = Location::device, .id = 1};
  const Record created = record_of(Call::cuMemPoolCreate, params::MemPoolCreate{&pool, &properties});
  EXPECT_EQ(created.kind, RecordKind::pool_created);
  EXPECT_EQ(created.object, 0xF0U);
  EXPECT_EQ(created.device, 1);
  EXPECT_EQ(created.space, Space::ordered);
  EXPECT_EQ(record_of(Call::cuDeviceSetMemPool, params::DeviceSetMemPool{1, pool}).kind, RecordKind::pool_chosen);
  EXPECT_EQ(record_of(Call::cuMemPoolDestroy, params::MemPoolDestroy{pool}).kind, RecordKind::pool_destroyed);
}

TEST_F(DecoderTest, PoolsAreWhereTheirMemoryIs) {
  struct Case {
    Location location;
    int type;
    int device;
    Space space;
  };
  for (const auto& [location, type, device, space] : {
           Case{{Location::device, 2}, pinned_memory, 2, Space::ordered},
           Case{domain_of(5, 3), pinned_memory, 5, Space::ordered},
           Case{{host_location, 0}, pinned_memory, -1, Space::ordered},
           Case{{numa_location, 1}, pinned_memory, -1, Space::ordered},
           Case{{Location::device, 1}, managed_memory, 1, Space::managed},
           Case{{host_location, 0}, managed_memory, -1, Space::managed},
           Case{{Location::none, 0}, managed_memory, 3, Space::managed},  // in the current context
       }) {
    Object pool = pointer(0xF0);
    PoolProperties properties{};
    properties.allocation_type = type;
    properties.location = location;
    const params::MemGetMemPool asked{&pool, &location, type};
    for (const Record& record :
         {record_of(Call::cuMemPoolCreate, params::MemPoolCreate{&pool, &properties}),
          record_of(Call::cuMemGetMemPool, asked), record_of(Call::cuMemGetDefaultMemPool, asked)}) {
      EXPECT_EQ(record.kind, RecordKind::pool_created);
      EXPECT_EQ(record.object, 0xF0U);
      EXPECT_EQ(record.device, device);
      EXPECT_EQ(record.space, space);
    }
  }
}

TEST_F(DecoderTest, PoolsOfADevice) {
  Object pool = pointer(0xF0);
  for (const Call call : {Call::cuDeviceGetMemPool, Call::cuDeviceGetDefaultMemPool}) {
    const Record record = record_of(call, params::DeviceGetMemPool{&pool, 6});
    EXPECT_EQ(record.kind, RecordKind::pool_created);
    EXPECT_EQ(record.object, 0xF0U);
    EXPECT_EQ(record.device, 6);
  }
}

TEST_F(DecoderTest, OnlyADevicesPoolOfItsOwnMemoryServesRequestsThatNameNone) {
  const Object pool = pointer(0xF0);
  const auto chosen = [&](Location location, int type) {
    return records_of(Call::cuMemSetMemPool, params::MemSetMemPool{&location, type, pool});
  };
  const std::vector<Record> records = chosen({Location::device, 2}, pinned_memory);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].kind, RecordKind::pool_chosen);
  EXPECT_EQ(records[0].object, 0xF0U);
  EXPECT_EQ(records[0].device, 2);
  EXPECT_TRUE(chosen({Location::device, 2}, managed_memory).empty());
  EXPECT_TRUE(chosen({host_location, 0}, pinned_memory).empty());
  EXPECT_TRUE(chosen(domain_of(2, 0), pinned_memory).empty());
}

TEST_F(DecoderTest, AFailedQuestionForAPoolIsNothing) {
  Object pool = nullptr;
  const Location location{Location::device, 0};
  EXPECT_TRUE(records_of(Call::cuMemGetMemPool, params::MemGetMemPool{&pool, &location, pinned_memory}, 801).empty());
  EXPECT_TRUE(records_of(Call::cuDeviceGetMemPool, params::DeviceGetMemPool{&pool, 9}, 101).empty());
}

TEST_F(DecoderTest, MemoryOfALocalityDomainIsItsDevices) {
  AllocationHandle handle = 0x77;
  AllocationProperties properties{};
  properties.location = domain_of(5, 1);
  EXPECT_EQ(record_of(Call::cuMemCreate, params::MemCreate{&handle, 4096, &properties, 0}).device, 5);

  MemAllocNode node{};
  node.pool.location = domain_of(4, 1);
  node.address = 0x7000;
  node.size = 64;
  Object made = nullptr;
  EXPECT_EQ(
      record_of(Call::cuGraphAddMemAllocNode, params::GraphAddMemAllocNode{&made, nullptr, nullptr, 0, &node}).device,
      4);
}

TEST_F(DecoderTest, AFailedRequestKeepsItsSizeAndStatus) {
  DevicePointer address = 0xDEAD;
  const Record record = record_of(Call::cuMemAlloc_v2, params::MemAlloc{&address, 1 << 30}, out_of_memory);
  EXPECT_EQ(record.kind, RecordKind::alloc_failed);
  EXPECT_EQ(record.size, 1U << 30U);
  EXPECT_EQ(record.status, out_of_memory);
  EXPECT_EQ(record.address, 0U) << "what the driver left in the result means nothing";
}

TEST_F(DecoderTest, AFailedRequestNamesThePoolThatRefusedIt) {
  DevicePointer address = 0;
  const Record record =
      record_of(Call::cuMemAllocFromPoolAsync,
                params::MemAllocFromPoolAsync{&address, 100, pointer(0xF0), pointer(0x51)}, out_of_memory);
  EXPECT_EQ(record.kind, RecordKind::alloc_failed);
  EXPECT_EQ(record.object, 0xF0U);
  AllocationHandle handle = 0xDEAD;
  const AllocationProperties properties{};
  EXPECT_EQ(record_of(Call::cuMemCreate, params::MemCreate{&handle, 4096, &properties, 0}, out_of_memory).object, 0U);
}

TEST_F(DecoderTest, AFreeIsRecordedBeforeTheDriverDoesItAndCancelledWhenItFails) {
  const params::MemFree parameters{0x7000};
  const std::uint64_t entered = enter(Call::cuMemFree_v2, parameters);
  const std::vector<Record> before = drained();
  ASSERT_EQ(before.size(), 1U);
  EXPECT_EQ(before[0].sequence, entered);
  exit(Call::cuMemFree_v2, parameters, 1, entered);
  const std::vector<Record> after = drained();
  ASSERT_EQ(after.size(), 1U);
  EXPECT_EQ(after[0].kind, RecordKind::free_cancelled);
  EXPECT_EQ(after[0].object, entered);
}

TEST_F(DecoderTest, FreeingNothingIsNothing) {
  EXPECT_TRUE(records_of(Call::cuMemFree_v2, params::MemFree{0}).empty());
  EXPECT_TRUE(records_of(Call::cuMemFreeHost, params::MemFreeHost{nullptr}).empty());
  EXPECT_TRUE(records_of(Call::cuMemFreeAsync, params::MemFreeAsync{0, nullptr}).empty());
}

TEST_F(DecoderTest, WhatDidNotHappenIsNotRecorded) {
  DevicePointer address = 0;
  EXPECT_TRUE(records_of(Call::cuMemAddressReserve, params::MemAddressReserve{&address, 1, 0, 0, 0}, 1).empty());
  EXPECT_TRUE(records_of(Call::cuMemMap, params::MemMap{0x1000, 1, 0, 1, 0}, 1).empty());
  EXPECT_TRUE(records_of(Call::cuMemHostRegister_v2, params::MemHostRegister{nullptr, 1, 0}, 1).empty());
  EXPECT_TRUE(records_of(Call::cuIpcOpenMemHandle, params::IpcOpenMemHandle{&address, {}, 0}, 1).empty());
}

}  // namespace
}  // namespace memreel::cuda
