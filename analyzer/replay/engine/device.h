// SPDX-License-Identifier: Apache-2.0
// The device as seen by a policy: grants or refuses memory.
#pragma once

#include <map>
#include <set>
#include <span>
#include <unordered_map>

#include "analyzer/replay/engine/prepared.h"
#include "analyzer/replay/engine/replay_result.h"
#include "analyzer/replay/heap/address_index.h"
#include "analyzer/replay/heap/best_fit_index.h"
#include "analyzer/replay/heap/block_table.h"
#include "formats/model/units.h"

namespace memreel {

// Where CUDA's driver places the memory requested from it.
//
// Source: measured on NVIDIA H200s with driver 580 (CUDA 13.0) under Linux 6.18; docs/measurements.md says how.
//
// - Memory comes in pages of 2 MiB out of regions, address ranges aligned to and sized in multiples of 32 MiB.
// - Among the regions with a large enough gap, the newest is used; in it the smallest such gap, ties going to the
//   lowest; of the gap, the front.
// - If there is none, a region is made, of the size rounded up to 32 MiB, at the upper end of the highest free
//   addresses. The 32 MiB below it must be free too: the driver requests that much more from the system, to align what
//   it gets.
// - An unused region is returned to the system at once.

/// Addresses of segments as a driver would give them to one process.
///
/// As long as requests match the recorded ones, they get the recorded addresses. These reveal what the rules cannot:
/// memory that others take from the same regions, and addresses used by the host. From the first different request on,
/// only the rules decide, starting from the regions that exist then. Regions that the context made for itself,
/// recognized by the recorded segments in them, are older than all others, persist, and can be used once as many
/// segments were requested as when they were first seen in use.
class DriverAddresses {
 public:
  /// `recorded`, in the order they were granted, must outlive this object.
  explicit DriverAddresses(std::span<const RecordedSegment> recorded);

  /// `size` bytes at an address that nothing else uses until it is returned; none if no addresses are left.
  std::optional<Address> take(Bytes size);
  /// `address` must have been taken.
  void give_back(Address address);

 private:
  struct Region {
    Address begin, end;
    std::uint64_t age = 0;  // lower ones are searched later
    BlockId last = BlockId::none;
    Bytes used;
    bool is_contexts = false;
    std::set<std::pair<Bytes, Address>> gaps;

    Bytes largest_gap() const { return gaps.empty() ? Bytes{} : gaps.rbegin()->first; }
  };

  void see_recorded(std::size_t segment);
  void see_contexts_region(Address begin, Address end);
  std::optional<Address> take_recorded(Bytes size);
  std::optional<Address> take_by_rules(Bytes size);
  std::optional<Address> make_region(Bytes size);
  void add_region(Address begin, Address end, bool is_contexts);
  void add_gap(BlockId block);
  void remove_gap(BlockId block);
  std::uint32_t region_of(Address address) const;
  void allocate(BlockId gap, Address address, Bytes size);
  Bytes usable(Address begin, Address end) const;
  void occupy(Address begin, Address end);
  void add_gap(Address begin, Address end);

  std::span<const RecordedSegment> recorded_;
  std::size_t taken_ = 0;
  bool as_recorded_ = true;
  std::size_t seen_ = 0;                     // number of `recorded_` seen
  std::map<Address, Address> made_regions_;  // of those seen: regions made by a request, by start address
  std::set<Address> contexts_ends_;          // and the ends of the pieces of others

  std::vector<Region> regions_;
  std::vector<std::uint32_t> unused_regions_;
  std::map<Address, std::uint32_t> region_at_;
  AddressIndex by_age_;  // the largest gap of each region that has one, newest region first
  std::uint64_t regions_made_ = 0;
  BlockTable blocks_;
  std::unordered_map<std::uint64_t, BlockId> taken_at_;
  std::map<Address, BlockId> gap_at_;

  Address lowest_;                   // nothing below it is used
  std::map<Address, Address> gaps_;  // free addresses above it, by start address
};

/// Called once per segment, not once per event.
///
/// Memory comes in one of two ways: as segments, or as address ranges in which memory is mapped and unmapped. A device
/// need not support the second.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  /// A segment of `size` bytes, or nothing if the device refuses.
  virtual std::optional<Address> reserve(Bytes size) = 0;
  virtual void release(Address address, Bytes size) = 0;

  struct Addresses {
    Address address;
    Bytes size;
  };
  /// Reserves addresses without memory: at least `least` bytes, a multiple of `unit`.
  virtual std::optional<Addresses> reserve_addresses(Bytes /*least*/, Bytes /*unit*/) { return std::nullopt; }
  /// Releases the address range that begins at `address`; nothing may be mapped in it.
  virtual void release_addresses(Address /*address*/) {}
  /// Maps memory at reserved addresses. False if the device refuses.
  virtual bool map(Address /*address*/, Bytes /*size*/) { return false; }
  virtual void unmap(Address /*address*/, Bytes /*size*/) {}
  /// Memory that the policy has from the start, because the recorded allocator had it when the recording began: a
  /// segment, addresses without memory, and memory mapped there. Takes the recorded addresses, except that `address` is
  /// the policy's own; returns those for the policy. The device refuses what is over its limit.
  virtual std::optional<Address> hold(Address recorded, Bytes size) {
    static_cast<void>(size);
    return recorded;
  }
  virtual std::optional<Addresses> hold_addresses(Address recorded, Bytes least, Bytes unit) {
    static_cast<void>(least);
    static_cast<void>(unit);
    static_cast<void>(recorded);
    return std::nullopt;
  }
  virtual bool hold_mapped(Address /*address*/, Bytes /*size*/) { return false; }

  /// The real location of an address it gave: a device may give different addresses, so that their order carries
  /// meaning.
  virtual Address real(Address address) const { return address; }
  /// Whether `size` more bytes would be within the limit.
  virtual bool allows(Bytes /*size*/) const { return true; }

  /// Whether a limit that the policy was told refuses `size` more bytes: a policy that maps only what it lacks asks
  /// this of the whole segment.
  virtual bool is_told_not_to_take(Bytes /*size*/) const { return false; }

  /// The limit that the policy was told, e.g. by a memory fraction; none if there is none.
  virtual std::optional<Bytes> capacity() const = 0;
};

/// Real memory behind what a simulated device grants.
class Backing {
 public:
  Backing() = default;
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;
  virtual ~Backing() = default;

  /// False if there is no memory for it. `address` names the segment until it is released; it is the policy's own.
  virtual bool reserve(Address address, Bytes size) = 0;
  virtual void release(Address address, Bytes size) = 0;
  /// Grows or shrinks the end of a growing range.
  virtual bool extend(Bytes size) = 0;
  virtual void shrink(Bytes size) = 0;
};

/// A device with a capacity, or as much as a policy can use. Segments get the addresses that the driver would assign
/// (DriverAddresses), so that replaying a recording reproduces its addresses. Address ranges for mapping lie above
/// those, with ample space.
class SimulatedDevice final : public Device {
 public:
  enum class Placing : std::uint8_t {
    as_driver,
    ascending,    // each segment above all earlier ones, at a multiple of the power of two that it fits into
    as_recorded,  // in the order of the recorded ones; ascending from the first of a different size on
  };
  /// `recorded`: the segments granted in the recorded run, in order, which must outlive this object. With a `backing`,
  /// refuses what the backing refuses.
  SimulatedDevice(const DeviceModel& model, std::span<const RecordedSegment> recorded, Backing* backing = nullptr,
                  Placing placing = Placing::as_driver);
  ~SimulatedDevice() override;

  std::optional<Address> reserve(Bytes size) override;
  void release(Address address, Bytes size) override;
  std::optional<Addresses> reserve_addresses(Bytes least, Bytes unit) override;
  bool map(Address address, Bytes size) override;
  void unmap(Address /*address*/, Bytes size) override { shrink(size); }
  std::optional<Address> hold(Address recorded, Bytes size) override;
  std::optional<Addresses> hold_addresses(Address recorded, Bytes least, Bytes unit) override;
  bool hold_mapped(Address address, Bytes size) override;
  bool allows(Bytes size) const override { return reserved_ <= limit_ && size <= limit_ - reserved_; }
  bool is_told_not_to_take(Bytes size) const override { return model_.told && !allows(size); }
  std::optional<Bytes> capacity() const override;

  /// Memory without its own address, for policies that grow one range. False if the device refuses.
  bool extend(Bytes size) {
    if (!allows(size) || (backing_ && !backing_->extend(size))) return false;
    reserved_ += size;
    traffic_.map_bytes += size;
    return true;
  }
  /// extend() by `unit`, as often as that succeeds, at most `most` times. Returns how often.
  std::size_t extend_by(Bytes unit, std::size_t most) {
    std::size_t count = 0;
    if (backing_) {
      while (count < most && extend(unit)) ++count;
      return count;
    }
    count = reserved_ <= limit_ ? std::min<std::size_t>(most, (limit_ - reserved_) / unit) : 0;
    reserved_ += unit * count;
    traffic_.map_bytes += unit * count;
    return count;
  }
  void shrink(Bytes size) {
    reserved_ -= size;
    traffic_.unmap_bytes += size;
    if (backing_) backing_->shrink(size);
  }

  /// The total memory.
  Bytes limit() const { return limit_; }

  /// Fills in how many bytes were granted and returned so far.
  void count_bytes(DriverCalls& calls) const {
    calls.malloc_bytes = traffic_.malloc_bytes;
    calls.free_bytes = traffic_.free_bytes;
    calls.map_bytes = traffic_.map_bytes;
    calls.unmap_bytes = traffic_.unmap_bytes;
  }

 private:
  /// Address ranges lie above all that drivers give, yet low: the index of free blocks is faster that way.
  static constexpr Address first_addresses{std::uint64_t{1} << 49U};
  static constexpr Address last_addresses{std::uint64_t{1} << 62U};

  std::optional<Address> next_address(Bytes size);

  DeviceModel model_;
  Backing* backing_;
  Bytes limit_;
  Bytes reserved_;
  DriverCalls traffic_;  // its bytes
  std::optional<DriverAddresses> driver_;
  std::span<const RecordedSegment> recorded_;  // not granted yet
  Address next_address_;                       // next address of the ascending order
  Address next_addresses_ = first_addresses;
};

}  // namespace memreel
