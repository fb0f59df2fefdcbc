#include "analyzer/engine/device.h"

#include <algorithm>
#include <bit>
#include <utility>

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

}  // namespace memreel
