// The device as a policy sees it: gives memory or refuses.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "analyzer/engine/driver_addresses.h"
#include "analyzer/engine/prepared.h"
#include "analyzer/engine/replay_result.h"
#include "analyzer/heap/best_fit_index.h"
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
  /// Where an address that it gave really lies: it may give others, so that their order tells something.
  virtual Address real(Address address) const { return address; }
  /// Whether `size` more bytes would be within the limit.
  virtual bool allows(Bytes /*size*/) const { return true; }

  /// The limit that the policy was told of, e.g. by a memory fraction; none when it has none.
  virtual std::optional<Bytes> capacity() const = 0;
};

/// Real memory, held for what a simulated device grants.
class Backing {
 public:
  Backing() = default;
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;
  virtual ~Backing() = default;

  /// False: there is no memory for it. `address` names the segment until it is released; it is the policy's own.
  virtual bool reserve(Address address, Bytes size) = 0;
  virtual void release(Address address, Bytes size) = 0;
  /// More, or less, at the end of a range that grows.
  virtual bool extend(Bytes size) = 0;
  virtual void shrink(Bytes size) = 0;
};

/// A device with a capacity, or as much as a policy can use. Segments get the addresses that the driver would give them
/// (driver_addresses.h), so that a replay of what was recorded repeats the recording. Addresses to map memory behind
/// are above those, and many.
class SimulatedDevice final : public Device {
 public:
  enum class Placing : std::uint8_t {
    as_driver,
    ascending,    // each segment at a higher address than all before, a multiple of the power of two that it fits into
    as_recorded,  // in the order of the recorded ones; from the first of another size on, ascending
  };
  /// `recorded`: the segments that the recorded run was given, in order. They must outlive this. With a `backing`, what
  /// it refuses is refused.
  SimulatedDevice(const DeviceModel& model, std::span<const RecordedSegment> recorded, Backing* backing = nullptr,
                  Placing placing = Placing::as_driver);

  std::optional<Address> reserve(Bytes size) override;
  void release(Address address, Bytes size) override;
  std::optional<Addresses> reserve_addresses(Bytes least, Bytes unit) override;
  bool map(Address address, Bytes size) override;
  void unmap(Address /*address*/, Bytes size) override { shrink(size); }
  bool allows(Bytes size) const override { return reserved_ <= limit_ && size <= limit_ - reserved_; }
  std::optional<Bytes> capacity() const override;

  /// Memory without an address of its own, for policies that grow one range. False when the device refuses.
  bool extend(Bytes size) {
    if (!allows(size) || (backing_ && !backing_->extend(size))) return false;
    reserved_ += size;
    traffic_.map_bytes += size;
    return true;
  }
  void shrink(Bytes size) {
    reserved_ -= size;
    traffic_.unmap_bytes += size;
    if (backing_) backing_->shrink(size);
  }

  /// What it has in all.
  Bytes limit() const { return limit_; }

  /// Fills in how many bytes it gave and got back so far.
  void count_bytes(DriverCalls& calls) const {
    calls.malloc_bytes = traffic_.malloc_bytes;
    calls.free_bytes = traffic_.free_bytes;
    calls.map_bytes = traffic_.map_bytes;
    calls.unmap_bytes = traffic_.unmap_bytes;
  }

 private:
  /// Ranges of addresses are above all that drivers give, yet low: the index of free blocks is quicker with such.
  static constexpr Address first_addresses{std::uint64_t{1} << 49U};
  static constexpr Address last_addresses{std::uint64_t{1} << 62U};

  std::optional<Address> next_address(Bytes size);

  DeviceModel model_;
  Backing* backing_;
  Bytes limit_;
  Bytes reserved_;
  DriverCalls traffic_;  // its bytes
  std::optional<DriverAddresses> driver_;
  std::span<const RecordedSegment> recorded_;  // left to give as recorded
  Address next_address_;                       // without it
  Address next_addresses_ = first_addresses;
};

}  // namespace memreel
