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
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/engine/prepared.h"
#include "analyzer/heap/address_index.h"
#include "analyzer/heap/block_table.h"
#include "formats/model/units.h"

namespace memreel {

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

}  // namespace memreel
