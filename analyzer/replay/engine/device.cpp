// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/engine/device.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace memreel {
namespace {

/// The meaning of "unlimited": no device has more, and the index of free blocks supports no larger one.
constexpr Bytes most_memory = BestFitIndex::max_size;

constexpr Bytes ascending_spacing = 2_MiB;
constexpr Address last_address{std::uint64_t{1} << 63U};
constexpr Bytes addresses_spacing{std::uint64_t{1} << 42U};  // between address ranges: far more than any device has

}  // namespace

SimulatedDevice::SimulatedDevice(const DeviceModel& model, std::span<const RecordedSegment> recorded, Backing* backing,
                                 Placing placing)
    : model_(model),
      backing_(backing),
      limit_(model.kind == DeviceModel::Kind::capacity ? std::min(model.capacity, most_memory) : most_memory) {
  if (placing == Placing::as_driver) driver_.emplace(recorded);
  if (placing == Placing::as_recorded) recorded_ = recorded;
  for (const RecordedSegment& segment : recorded_)
    next_address_ = std::max(next_address_, segment.address + segment.size);
}

SimulatedDevice::~SimulatedDevice() = default;

std::optional<Bytes> SimulatedDevice::capacity() const {
  if (model_.kind == DeviceModel::Kind::capacity) return model_.capacity;
  return std::nullopt;
}

std::optional<Address> SimulatedDevice::reserve(Bytes size) {
  if (!allows(size)) return std::nullopt;
  const auto address = driver_ ? driver_->take(size) : next_address(size);
  if (!address) return std::nullopt;
  if (backing_ && !backing_->reserve(*address, size)) {
    if (driver_) driver_->give_back(*address);
    return std::nullopt;
  }
  reserved_ += size;
  traffic_.malloc_bytes += size;
  return address;
}

std::optional<Address> SimulatedDevice::next_address(Bytes size) {
  if (!recorded_.empty()) {
    const RecordedSegment next = recorded_.front();
    recorded_ = next.size == size ? recorded_.subspan(1) : std::span<const RecordedSegment>();
    if (next.size == size) return next.address;
  }
  const Bytes aligned{std::bit_ceil(std::max(size, ascending_spacing).count)};
  Address address{round_up(Bytes{next_address_.value}, aligned).count};
  if (address + aligned > first_addresses && address < last_addresses) address = last_addresses;
  if (address > last_address) return std::nullopt;
  next_address_ = address + aligned;
  return address;
}

void SimulatedDevice::release(Address address, Bytes size) {
  reserved_ -= size;
  traffic_.free_bytes += size;
  if (driver_) driver_->give_back(address);
  if (backing_) backing_->release(address, size);
}

std::optional<Device::Addresses> SimulatedDevice::reserve_addresses(Bytes least, Bytes unit) {
  const Bytes size = unit * (addresses_spacing / unit);
  const bool any_left = next_addresses_ < last_addresses;
  if (least > size || !any_left) return std::nullopt;
  return Addresses{std::exchange(next_addresses_, next_addresses_ + addresses_spacing), size};
}

std::optional<Address> SimulatedDevice::hold(Address /*recorded*/, Bytes size) {
  // The recorded segments begin with the ones held, so that these get their addresses.
  const DriverCalls before = traffic_;
  const auto address = reserve(size);
  traffic_ = before;
  return address;
}

std::optional<Device::Addresses> SimulatedDevice::hold_addresses(Address /*recorded*/, Bytes least, Bytes unit) {
  return reserve_addresses(least, unit);
}

bool SimulatedDevice::hold_mapped(Address address, Bytes size) {
  const DriverCalls before = traffic_;
  const bool mapped = allows(size) && map(address, size);
  traffic_ = before;
  return mapped;
}

bool SimulatedDevice::map(Address /*address*/, Bytes size) {
  if (!model_.told) return extend(size);
  if (backing_ && !backing_->extend(size)) return false;
  reserved_ += size;
  traffic_.map_bytes += size;
  return true;
}

namespace {

constexpr Bytes page = 2_MiB;
constexpr Bytes unit = 32_MiB;  // of regions
constexpr Address highest{std::uint64_t{0x7f00} << 32U};
constexpr Bytes least_address{1U << 16U};
constexpr std::uint64_t age_of_contexts = std::uint64_t{1} << 63U;  // at or above: contexts; below: all others

bool is_aligned(Address address) { return address.value % unit.count == 0; }
Address round_down(Address address) { return {address.value & ~(unit.count - 1)}; }

}  // namespace

DriverAddresses::DriverAddresses(std::span<const RecordedSegment> recorded)
    : recorded_(recorded), lowest_(recorded.empty() ? highest : round_down(recorded.front().address)) {}

void DriverAddresses::see_recorded(std::size_t segment) {
  const Address address = recorded_[segment].address;
  const Bytes size = std::max(recorded_[segment].size, 1_B);
  const auto in_made_region = [&] {
    const auto after = made_regions_.upper_bound(address);
    return after != made_regions_.begin() && address < std::prev(after)->second;
  };
  if (!contexts_ends_.contains(address) && (is_aligned(address) || in_made_region())) {
    if (is_aligned(address)) made_regions_.insert_or_assign(address, address + round_up(size, unit));
    return;
  }
  // Space not made into a region by any request, or what follows such space.
  const Address end = address + round_up(size, page);
  contexts_ends_.insert(end);
  see_contexts_region(address, end);
}

void DriverAddresses::see_contexts_region(Address begin, Address end) {
  // Its place may be taken, or known already.
  const auto after = region_at_.lower_bound(begin);
  if (after != region_at_.end() && after->first < end) return;
  if (after == region_at_.begin()) return add_region(begin, end, true);
  const std::uint32_t before = std::prev(after)->second;
  Region& region = regions_[before];
  if (region.end > begin) return;
  if (region.end < begin || !region.is_contexts) return add_region(begin, end, true);
  // It is one region, of which more is now known.
  const BlockId more = blocks_.add(begin, end - begin, before);
  blocks_.link(region.last, more);
  if (blocks_[region.last].state == BlockState::free) {
    remove_gap(region.last);
    blocks_.absorb_previous(more);
  }
  region.last = more;
  region.end = end;
  add_gap(more);
  occupy(begin, end);
}

std::optional<Address> DriverAddresses::take(Bytes size) {
  size = round_up(std::max(size, 1_B), page);
  for (; seen_ < recorded_.size() && seen_ <= taken_; ++seen_) see_recorded(seen_);
  const auto address = as_recorded_ ? take_recorded(size) : std::nullopt;
  as_recorded_ = address.has_value();
  ++taken_;
  return address ? address : take_by_rules(size);
}

std::optional<Address> DriverAddresses::take_recorded(Bytes size) {
  if (taken_ == recorded_.size() || round_up(recorded_[taken_].size, page) != size) return std::nullopt;
  const Address address = recorded_[taken_].address;
  if (region_of(address) == regions_.size()) {
    const Address end = address + round_up(size, is_aligned(address) ? unit : page);
    const auto after = region_at_.lower_bound(address);
    if (after != region_at_.end() && after->first < end) return std::nullopt;
    add_region(address, end, false);
  }
  const auto after = gap_at_.upper_bound(address);
  if (after == gap_at_.begin()) return std::nullopt;
  const BlockId gap = std::prev(after)->second;
  if (blocks_[gap].address + blocks_[gap].size < address + size) return std::nullopt;
  allocate(gap, address, size);
  return address;
}

std::optional<Address> DriverAddresses::take_by_rules(Bytes size) {
  auto region = static_cast<std::uint32_t>(by_age_.find(Address{}, size));
  if (region == static_cast<std::uint32_t>(BlockId::none)) {
    const auto address = make_region(round_up(size, unit));
    if (!address) return std::nullopt;
    region = region_of(*address);
  }
  const Address address = regions_[region].gaps.lower_bound({size, Address{}})->second;
  const auto gap = gap_at_.find(address);
  if (gap == gap_at_.end()) return std::nullopt;
  allocate(gap->second, address, size);
  return address;
}

std::optional<Address> DriverAddresses::make_region(Bytes size) {
  for (auto gap = gaps_.rbegin(); gap != gaps_.rend(); ++gap) {
    const Address begin = gap->first, end = round_down(gap->second);
    if (end < begin + size || usable(begin, end) < size) continue;
    const Address address = end - size;
    add_region(address, end, false);
    return address;
  }
  if (lowest_.value < size.count + least_address.count) return std::nullopt;
  const Address address = lowest_ - size;
  add_region(address, lowest_, false);
  return address;
}

Bytes DriverAddresses::usable(Address begin, Address end) const {
  const auto after = region_at_.lower_bound(begin);
  const bool touches = after != region_at_.begin() && regions_[std::prev(after)->second].end == begin;
  return end - begin - (touches ? unit : Bytes{});
}

void DriverAddresses::add_region(Address begin, Address end, bool is_contexts) {
  std::uint32_t number = 0;
  if (unused_regions_.empty()) {
    number = static_cast<std::uint32_t>(regions_.size());
    regions_.emplace_back();
  } else {
    number = unused_regions_.back();
    unused_regions_.pop_back();
  }
  regions_[number] = {.begin = begin,
                      .end = end,
                      .age = is_contexts ? age_of_contexts + begin.value : age_of_contexts - ++regions_made_,
                      .last = blocks_.add(begin, end - begin, number),
                      .used = {},
                      .is_contexts = is_contexts,
                      .gaps = {}};
  region_at_[begin] = number;
  add_gap(regions_[number].last);
  occupy(begin, end);
  lowest_ = std::min(lowest_, round_down(begin));
}

void DriverAddresses::add_gap(BlockId block) {
  const auto [address, size] = std::pair(blocks_[block].address, blocks_[block].size);
  Region& region = regions_[blocks_[block].arena];
  const Bytes largest = region.largest_gap();
  gap_at_[address] = block;
  region.gaps.emplace(size, address);
  if (size <= largest) return;
  if (largest.count > 0) by_age_.erase(Address{region.age}, largest);
  by_age_.insert(Address{region.age}, size, BlockId{blocks_[block].arena});
}

void DriverAddresses::remove_gap(BlockId block) {
  const auto [address, size] = std::pair(blocks_[block].address, blocks_[block].size);
  Region& region = regions_[blocks_[block].arena];
  gap_at_.erase(address);
  region.gaps.erase({size, address});
  const Bytes largest = region.largest_gap();
  if (size <= largest) return;
  by_age_.erase(Address{region.age}, size);
  if (largest.count > 0) by_age_.insert(Address{region.age}, largest, BlockId{blocks_[block].arena});
}

std::uint32_t DriverAddresses::region_of(Address address) const {
  const auto after = region_at_.upper_bound(address);
  const auto none = static_cast<std::uint32_t>(regions_.size());
  if (after == region_at_.begin()) return none;
  const std::uint32_t region = std::prev(after)->second;
  return address < regions_[region].end ? region : none;
}

void DriverAddresses::allocate(BlockId gap, Address address, Bytes size) {
  remove_gap(gap);
  Region& region = regions_[blocks_[gap].arena];
  if (blocks_[gap].address < address) add_gap(blocks_.split_front(gap, address - blocks_[gap].address));
  if (blocks_[gap].size > size) {
    const BlockId front = blocks_.split_front(gap, size);
    add_gap(gap);
    gap = front;
  }
  blocks_[gap].state = BlockState::allocated;
  taken_at_[address.value] = gap;
  region.used += size;
}

void DriverAddresses::give_back(Address address) {
  const auto found = taken_at_.find(address.value);
  const BlockId id = found->second;
  taken_at_.erase(found);
  Block& block = blocks_[id];
  Region& region = regions_[block.arena];
  region.used -= block.size;
  block.state = BlockState::free;
  blocks_.absorb_free_neighbours(id, [&](BlockId neighbour) {
    remove_gap(neighbour);
    if (region.last == neighbour) region.last = id;
  });
  if (region.used.count > 0 || region.is_contexts) return add_gap(id);
  const auto number = block.arena;
  blocks_.remove(id);
  region_at_.erase(region.begin);
  unused_regions_.push_back(number);
  add_gap(region.begin, region.end);
}

void DriverAddresses::occupy(Address begin, Address end) {
  auto gap = gaps_.upper_bound(begin);
  if (gap != gaps_.begin()) --gap;
  while (gap != gaps_.end() && gap->first < end) {
    const auto [gap_begin, gap_end] = *gap;
    if (gap_end <= begin) {
      ++gap;
      continue;
    }
    gap = gaps_.erase(gap);
    if (gap_begin < begin) gaps_[gap_begin] = begin;
    if (end < gap_end) gaps_[end] = gap_end;
  }
}

void DriverAddresses::add_gap(Address begin, Address end) {
  const auto after = gaps_.lower_bound(begin);
  if (after != gaps_.end() && after->first == end) {
    end = after->second;
    gaps_.erase(after);
  }
  const auto next = gaps_.lower_bound(begin);
  if (next != gaps_.begin() && std::prev(next)->second == begin) {
    begin = std::prev(next)->first;
    gaps_.erase(std::prev(next));
  }
  if (begin == lowest_)
    lowest_ = round_down(end);
  else
    gaps_[begin] = end;
}

}  // namespace memreel
