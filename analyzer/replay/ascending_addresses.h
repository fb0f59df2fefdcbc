// A device whose addresses follow the order of allocation.
#pragma once

#include <iterator>
#include <map>
#include <optional>

#include "analyzer/engine/device.h"

namespace memreel {

/// An adapter between a policy and a device: memory obtained later has a higher address. A policy that breaks ties by
/// address thus breaks them by the age of the memory and then by address, as PyTorch does since 2.13.
class AscendingAddresses final : public Device {
 public:
  /// `device` must outlive this object.
  explicit AscendingAddresses(Device& device) : device_(device) {}

  /// The device's address for one of the policy's.
  Address real(Address address) const override {
    const auto after = real_.upper_bound(address);
    if (after == real_.begin()) return address;
    const auto& [base, memory] = *std::prev(after);
    return memory + (address - base);
  }

  std::optional<Address> reserve(Bytes size) override {
    const auto memory = device_.reserve(size);
    if (!memory) return std::nullopt;
    return add(*memory, size);
  }
  void release(Address address, Bytes size) override {
    device_.release(real(address), size);
    real_.erase(address);
  }
  std::optional<Addresses> reserve_addresses(Bytes least, Bytes unit) override {
    const auto memory = device_.reserve_addresses(least, unit);
    if (!memory) return std::nullopt;
    return Addresses{add(memory->address, memory->size), memory->size};
  }
  void release_addresses(Address address) override {
    device_.release_addresses(real(address));
    real_.erase(address);
  }
  bool map(Address address, Bytes size) override { return device_.map(real(address), size); }
  void unmap(Address address, Bytes size) override { device_.unmap(real(address), size); }
  std::optional<Address> hold(Address recorded, Bytes size) override {
    const auto memory = device_.hold(recorded, size);
    if (!memory) return std::nullopt;
    return add(*memory, size);
  }
  std::optional<Addresses> hold_addresses(Address recorded, Bytes least, Bytes unit) override {
    const auto memory = device_.hold_addresses(recorded, least, unit);
    if (!memory) return std::nullopt;
    return Addresses{add(memory->address, memory->size), memory->size};
  }
  bool hold_mapped(Address address, Bytes size) override { return device_.hold_mapped(real(address), size); }
  bool allows(Bytes size) const override { return device_.allows(size); }
  bool is_told_not_to_take(Bytes size) const override { return device_.is_told_not_to_take(size); }
  std::optional<Bytes> capacity() const override { return device_.capacity(); }

 private:
  static constexpr Bytes alignment = 2_MiB;

  Address add(Address memory, Bytes size) {
    const Address address = next_;
    next_ = next_ + round_up(size, alignment);
    real_.emplace(address, memory);
    return address;
  }

  Device& device_;
  Address next_{alignment.count};
  std::map<Address, Address> real_;  // by the policy's address: its start on the device
};

}  // namespace memreel
