#include "analyzer/replay/device.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace memreel {
namespace {

/// What "unlimited" means: no device has more, and the index of free blocks takes no larger one.
constexpr Bytes most_memory = BestFitIndex::max_size;

constexpr Bytes synthetic_spacing = 2_MiB;
constexpr Address last_recorded_address{std::uint64_t{1} << 62U};
constexpr Address last_address{std::uint64_t{1} << 63U};
constexpr Bytes addresses_spacing{std::uint64_t{1}
                                  << 42U};  // between ranges of addresses: far more than any device has

}  // namespace

SimulatedDevice::SimulatedDevice(const DeviceModel& model, std::span<const RecordedSegment> recorded, Backing* backing)
    : model_(model),
      backing_(backing),
      limit_(model.kind == DeviceModel::Kind::capacity ? std::min(model.capacity, most_memory) : most_memory) {
  for (std::size_t i = recorded.size(); i-- > 0;) {
    const auto& [address, size] = recorded[i];
    // Addresses that no device has are not repeated: synthetic ones must fit above them.
    if (size > most_memory || address > last_recorded_address) continue;
    unused_[size.count].push_back(address);
    synthetic_ = std::max(synthetic_, address + size);
  }
  synthetic_ = Address{round_up(Bytes{synthetic_.value}, synthetic_spacing).count} + synthetic_spacing;
}

std::optional<Bytes> SimulatedDevice::capacity() const {
  if (model_.kind == DeviceModel::Kind::capacity) return model_.capacity;
  return std::nullopt;
}

std::optional<Address> SimulatedDevice::reserve(Bytes size) {
  if (!allows(size)) return std::nullopt;
  const auto address = choose_address(size);
  if (!address) return std::nullopt;
  if (backing_ && !backing_->reserve(*address, size)) {
    reserved_recorded_.erase(*address);
    return std::nullopt;
  }
  reserved_ += size;
  traffic_.malloc_bytes += size;
  return address;
}

std::optional<Address> SimulatedDevice::choose_address(Bytes size) {
  if (const auto address = recorded_address(size)) {
    reserved_recorded_.emplace(*address, size);
    return address;
  }
  if (synthetic_ > last_address) return std::nullopt;
  const Address address = synthetic_;
  synthetic_ = synthetic_ + round_up(size, synthetic_spacing);
  return address;
}

void SimulatedDevice::release(Address address, Bytes size) {
  reserved_ -= size;
  traffic_.free_bytes += size;
  reserved_recorded_.erase(address);
  if (backing_) backing_->release(address, size);
}

std::optional<Device::Addresses> SimulatedDevice::reserve_addresses(Bytes least, Bytes unit) {
  const Bytes size = unit * (addresses_spacing / unit);
  const bool any_left = next_addresses_.value < ~std::uint64_t{0} - 2 * addresses_spacing.count;
  if (least > size || !any_left) return std::nullopt;
  return Addresses{std::exchange(next_addresses_, next_addresses_ + addresses_spacing), size};
}

bool SimulatedDevice::map(Address /*address*/, Bytes size) {
  if (!model_.told) return extend(size);
  if (backing_ && !backing_->extend(size)) return false;
  reserved_ += size;
  traffic_.map_bytes += size;
  return true;
}

std::optional<Address> SimulatedDevice::recorded_address(Bytes size) {
  const auto found = unused_.find(size.count);
  if (found == unused_.end() || found->second.empty()) return std::nullopt;
  const Address address = found->second.back();
  if (overlaps_reserved(address, size)) return std::nullopt;
  found->second.pop_back();
  return address;
}

bool SimulatedDevice::overlaps_reserved(Address address, Bytes size) const {
  const auto after = reserved_recorded_.lower_bound(address);
  if (after != reserved_recorded_.end() && after->first < address + size) return true;
  if (after == reserved_recorded_.begin()) return false;
  const auto before = std::prev(after);
  return before->first + before->second > address;
}

}  // namespace memreel
