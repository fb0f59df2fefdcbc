// The device as a policy sees it: gives memory or refuses.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "analyzer/heap/best_fit_index.h"
#include "analyzer/replay/prepared.h"
#include "analyzer/replay/replay.h"
#include "formats/model/units.h"

namespace memreel {

/// Called once per segment, not once per event.
///
/// Memory comes in one of two ways: as segments, or as addresses behind which memory is mapped and unmapped. A device
/// need not know of the second.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  /// A segment of `size` bytes, or nothing when the device refuses.
  virtual std::optional<Address> reserve(Bytes size) = 0;
  virtual void release(Address address, Bytes size) = 0;

  struct Addresses {
    Address address;
    Bytes size;
  };
  /// Addresses without memory behind them: at least `least` bytes, a multiple of `unit`.
  virtual std::optional<Addresses> reserve_addresses(Bytes /*least*/, Bytes /*unit*/) { return std::nullopt; }
  /// The addresses that begin at `address`; nothing is mapped there any more.
  virtual void release_addresses(Address /*address*/) {}
  /// Puts memory behind reserved addresses. False when the device refuses.
  virtual bool map(Address /*address*/, Bytes /*size*/) { return false; }
  virtual void unmap(Address /*address*/, Bytes /*size*/) {}
  /// Whether `size` more bytes would be within the limit.
  virtual bool allows(Bytes /*size*/) const { return true; }

  /// The limit that the policy was told of, e.g. by a memory fraction; none when it has none.
  virtual std::optional<Bytes> capacity() const = 0;
};

/// A device with a capacity, or as much as a policy can use. The n-th segment of a size gets the address of the n-th
/// recorded segment of that size, so that a replay of what was recorded repeats the recording; when there is no such
/// segment, or something is in its place, an address above all recorded ones that was never used before. Addresses to
/// map memory behind are above all others, and many.
class SimulatedDevice final : public Device {
 public:
  SimulatedDevice(const DeviceModel& model, std::span<const RecordedSegment> recorded);

  std::optional<Address> reserve(Bytes size) override;
  void release(Address address, Bytes size) override;
  std::optional<Addresses> reserve_addresses(Bytes least, Bytes unit) override;
  bool map(Address address, Bytes size) override;
  void unmap(Address /*address*/, Bytes size) override { shrink(size); }
  bool allows(Bytes size) const override { return reserved_ <= limit_ && size <= limit_ - reserved_; }
  std::optional<Bytes> capacity() const override;

  /// Memory without an address of its own, for policies that grow one range. False when the device refuses.
  bool extend(Bytes size) {
    if (!allows(size)) return false;
    reserved_ += size;
    return true;
  }
  void shrink(Bytes size) { reserved_ -= size; }

  /// What it has in all.
  Bytes limit() const { return limit_; }

 private:
  std::optional<Address> recorded_address(Bytes size);
  bool overlaps_reserved(Address address, Bytes size) const;

  DeviceModel model_;
  Bytes limit_;
  Bytes reserved_;
  std::unordered_map<std::uint64_t, std::vector<Address>> unused_;  // recorded addresses by size, the next one last
  std::map<Address, Bytes> reserved_recorded_;                      // segments at recorded addresses
  Address synthetic_;
  Address next_addresses_{std::uint64_t{1} << 63U};
};

}  // namespace memreel
