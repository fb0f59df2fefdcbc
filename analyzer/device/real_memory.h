// Real memory for the segments of a policy that places its blocks itself: it makes its own decisions, but what it
// reserves and releases is really allocated and freed, at real cost and with real refusals.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzer/device/gpu.h"
#include "analyzer/engine/device.h"

namespace memreel::gpu {

/// How segments are made.
enum class SegmentsBy : std::uint8_t {
  malloc,  // cuMemAlloc
  map,     // an address range, and physical memory mapped into it
};

/// A range that grows at its end is always mapped: cuMemAlloc can't extend an allocation.
class RealMemory final : public Backing {
 public:
  static constexpr Bytes granularity = 2_MiB;  // of mappings, on every GPU that memreel was tested on

  RealMemory(Gpu& gpu, SegmentsBy how) : gpu_(gpu), how_(how), free_at_start_(gpu.free_memory()) {}
  ~RealMemory() override;

  bool reserve(Address address, Bytes size) override;
  void release(Address address, Bytes size) override;
  bool extend(Bytes size) override;
  void shrink(Bytes size) override;

  /// The highest use at any time, measured by how far the device's free memory fell.
  Bytes highest_taken() const { return highest_taken_; }
  /// Something was requested that can't be mapped: not whole pages.
  bool misaligned() const { return misaligned_; }

 private:
  struct Mapping {
    DevicePointer address = 0;
    Bytes size;
  };

  void give_back(DevicePointer pointer, Bytes size);
  void measure();

  Gpu& gpu_;
  SegmentsBy how_;
  Bytes free_at_start_, highest_taken_;
  bool misaligned_ = false;
  std::unordered_map<std::uint64_t, Mapping> segments_;  // by the policy's address
  DevicePointer range_ = 0;                              // addresses for the growing range
  std::vector<Mapping> range_mappings_;                  // in address order
};

}  // namespace memreel::gpu
