// SPDX-License-Identifier: Apache-2.0
// Virtual memory management: an array that grows in place, without copying and without needing a larger free block.
//
//   memreel record ./growing_vector && memreel report memreel-*.reel
//
// Addresses are reserved once; physical memory is created and mapped after the existing mapping, as in PyTorch's
// expandable segments. The handle is released right after mapping: the mapping alone keeps the memory.
#include <cstdint>
#include <vector>

#include "check.h"
#include "ground_truth.h"

namespace {

class GrowingVector {
 public:
  GrowingVector(int device, std::size_t most) {
    properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties_.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    check(cuMemGetAllocationGranularity(&unit_, &properties_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED), "granularity");
    reserved_ = (most + unit_ - 1) / unit_ * unit_;  // NOLINT: the unit is the driver's, and not zero
    check(cuMemAddressReserve(&base_, reserved_, 0, 0, 0), "cuMemAddressReserve");
    truth::say("reserve", "addresses", base_, reserved_);
  }
  GrowingVector(const GrowingVector&) = delete;
  GrowingVector& operator=(const GrowingVector&) = delete;
  ~GrowingVector() {
    shrink_to(0);
    truth::say("release", "addresses", base_, reserved_);
    check(cuMemAddressFree(base_, reserved_), "cuMemAddressFree");
  }

  void grow_to(std::size_t bytes) {
    while (mapped_ < bytes) {
      CUmemGenericAllocationHandle handle = 0;
      check(cuMemCreate(&handle, unit_, &properties_, 0), "cuMemCreate");
      truth::say("alloc", "physical", 0, unit_);
      check(cuMemMap(base_ + mapped_, unit_, 0, handle, 0), "cuMemMap");
      truth::say("map", "mapped", base_ + mapped_, unit_);
      check(cuMemRelease(handle), "cuMemRelease");
      const CUmemAccessDesc access{properties_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
      check(cuMemSetAccess(base_ + mapped_, unit_, &access, 1), "cuMemSetAccess");
      mapped_ += unit_;
    }
  }

  void shrink_to(std::size_t bytes) {
    while (mapped_ >= bytes + unit_) {
      mapped_ -= unit_;
      truth::say("unmap", "mapped", base_ + mapped_, unit_);
      truth::say("free", "physical", 0, unit_);
      check(cuMemUnmap(base_ + mapped_, unit_), "cuMemUnmap");
    }
  }

  std::size_t mapped() const { return mapped_; }

 private:
  CUmemAllocationProp properties_{};
  std::size_t unit_ = 0, reserved_ = 0, mapped_ = 0;
  CUdeviceptr base_ = 0;
};

}  // namespace

int main() {
  check(cuInit(0), "cuInit");
  CUcontext context = nullptr;
  check(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  {
    constexpr std::size_t mib = 1 << 20;
    GrowingVector vector(0, 256 * mib);
    for (const std::size_t size : {1U, 5U, 20U, 60U, 30U, 90U, 10U}) {
      vector.grow_to(size * mib);
      vector.shrink_to(size * mib);
      std::printf("%zu MiB wanted, %zu MiB mapped\n", size, vector.mapped() / mib);
    }
  }
  check(cuDevicePrimaryCtxRelease(0), "cuDevicePrimaryCtxRelease");
}
