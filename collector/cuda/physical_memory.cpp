// SPDX-License-Identifier: Apache-2.0
#include "collector/cuda/physical_memory.h"

#include <iterator>

namespace memreel::cuda {

PhysicalMemory::Number PhysicalMemory::created(std::uint64_t handle, std::uint64_t size) {
  const Number number = next_++;
  pieces_[number] = {.handle = handle, .size = size, .namesakes = living_under_[handle]++};
  by_handle_[handle] = number;
  return number;
}

std::optional<PhysicalMemory::Number> PhysicalMemory::find(std::uint64_t handle) const {
  const auto found = by_handle_.find(handle);
  if (found == by_handle_.end()) return std::nullopt;
  return found->second;
}

void PhysicalMemory::retained(std::uint64_t handle, std::uint64_t address) {
  std::optional<Number> number = find(handle);
  const auto behind = mappings_.upper_bound(address);
  if (behind != mappings_.begin()) {
    const auto& [start, mapping] = *std::prev(behind);
    if (mapping.piece && address - start < mapping.size) number = mapping.piece;
  }
  if (!number) return;
  ++pieces_[*number].references;
  by_handle_[handle] = *number;
}

std::optional<PhysicalMemory::Number> PhysicalMemory::released(std::uint64_t handle) {
  const auto number = find(handle);
  if (!number) return std::nullopt;
  Piece& piece = pieces_[*number];
  if (--piece.references > 0) return std::nullopt;
  by_handle_.erase(handle);
  if (piece.mappings > 0) return std::nullopt;
  if (--living_under_[handle] == 0) living_under_.erase(handle);
  return number;
}

std::optional<PhysicalMemory::Number> PhysicalMemory::mapped(std::uint64_t address, std::uint64_t size,
                                                             std::uint64_t handle) {
  const auto number = find(handle);
  if (number) ++pieces_[*number].mappings;
  mappings_[address] = {size, number};
  return number;
}

std::vector<PhysicalMemory::Number> PhysicalMemory::unmapped(std::uint64_t address, std::uint64_t size) {
  std::vector<Number> gone;
  auto mapping = mappings_.lower_bound(address);
  while (mapping != mappings_.end() && mapping->first - address < size) {
    if (const auto number = mapping->second.piece) {
      Piece& piece = pieces_[*number];
      --piece.mappings;
      if (!piece.alive()) {
        if (--living_under_[piece.handle] == 0) living_under_.erase(piece.handle);
        gone.push_back(*number);
      }
    }
    mapping = mappings_.erase(mapping);
  }
  return gone;
}

}  // namespace memreel::cuda
