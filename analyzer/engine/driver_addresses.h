// Where CUDA's driver puts the memory that it is asked for.
//
// Source: measured on NVIDIA H200s with driver 580 (CUDA 13.0) under Linux 6.18; docs/measurements.md says how.
//
// - Memory comes in pages of 2 MiB out of regions, ranges of addresses that are multiples of 32 MiB in place and size.
// - Of the regions with a gap that is large enough the one made last is taken, in it the smallest such gap, of
//   several the lowest; its front.
// - Without one a region is made, of the size rounded up to 32 MiB, at the upper end of the highest free addresses.
//   The 32 MiB below it must be free, too: the driver asks the system for as much more, to align what it gets.
// - A region of which nothing is used goes back to the system at once.
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
/// As long as the requests are those that were recorded they get the recorded addresses. What the rules don't tell can
/// be seen there: memory that others take from the same regions, and addresses that the host has use for. From the
/// first other request on the rules alone decide, beginning with the regions that there are at that time. Regions that
/// the context made for itself, which are known by the recorded segments in them, are older than all others, stay, and
/// can be used once as many segments were asked for as when they were first seen in use.
class DriverAddresses {
 public:
  /// `recorded`, in the order in which they were given, must outlive this.
  explicit DriverAddresses(std::span<const RecordedSegment> recorded);

  /// `size` bytes at an address that nothing else has until it is given back; none when there are no addresses left.
  std::optional<Address> take(Bytes size);
  /// `address` must have been taken.
  void give_back(Address address);

 private:
  struct Region {
    Address begin, end;
    std::uint64_t age = 0;  // the lower, the later it is searched
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
  std::size_t seen_ = 0;                     // of `recorded_`
  std::map<Address, Address> made_regions_;  // of those seen: regions that a request made, by their beginning
  std::set<Address> contexts_ends_;          // and where the pieces of others end

  std::vector<Region> regions_;
  std::vector<std::uint32_t> unused_regions_;
  std::map<Address, std::uint32_t> region_at_;
  AddressIndex by_age_;  // the largest gap of each region that has one, the newest region first
  std::uint64_t regions_made_ = 0;
  BlockTable blocks_;
  std::unordered_map<std::uint64_t, BlockId> taken_at_;
  std::map<Address, BlockId> gap_at_;

  Address lowest_;                   // nothing is used below it
  std::map<Address, Address> gaps_;  // free addresses above it, by their beginning
};

}  // namespace memreel
