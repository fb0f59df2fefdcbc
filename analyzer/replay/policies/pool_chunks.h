// SPDX-License-Identifier: Apache-2.0
// The physical memory of a stream-ordered pool: chunks of equal size, mapped side by side into the pool's addresses.
#pragma once

#include <algorithm>
#include <vector>

#include "formats/model/units.h"

namespace memreel {

/// Chunk i lies at [i * size, (i + 1) * size). A chunk without memory is unmapped. A chunk is idle if no occupied block
/// touches it: its memory can be moved or released.
class PoolChunks {
 public:
  static constexpr Bytes size = 32_MiB;

  std::size_t mapped() const { return mapped_; }

  /// The number of chunks in a range that have no memory.
  std::size_t missing(Address address, Bytes bytes) const {
    if (unmapped_ == 0 && end_of(address, bytes) <= chunks_.size()) return 0;
    const std::size_t first = first_of(address), end = end_of(address, bytes), known = std::min(end, chunks_.size());
    std::size_t count = end - std::min(end, std::max(first, known));
    for (std::size_t i = first; i < known; ++i)
      if (!chunks_[i].mapped) ++count;
    return count;
  }

  Bytes mapped_bytes(Address address, Bytes bytes) const {
    if (missing(address, bytes) == 0) return bytes;
    Bytes sum;
    for (std::size_t i = first_of(address); i < end_of(address, bytes); ++i)
      if (i < chunks_.size() && chunks_[i].mapped) sum += overlap(i, address, bytes);
    return sum;
  }

  /// Marks a range as occupied or vacant. Nothing is occupied twice.
  void occupy(Address address, Bytes bytes) {
    grow_to(end_of(address, bytes));
    for (std::size_t i = first_of(address); i < end_of(address, bytes); ++i)
      chunks_[i].occupied += overlap(i, address, bytes);
  }
  void vacate(Address address, Bytes bytes) {
    for (std::size_t i = first_of(address); i < end_of(address, bytes); ++i)
      chunks_[i].occupied -= overlap(i, address, bytes);
  }

  /// The number of idle chunks with memory outside a range; at most `most`.
  std::size_t idle(Address address, Bytes bytes, std::size_t most) const {
    std::size_t count = 0;
    for (std::size_t i = chunks_.size(); i-- > 0 && count < most;)
      if (is_idle(i) && !touches(i, address, bytes)) ++count;
    return count;
  }

  /// Takes the memory of `count` idle chunks outside a range, the highest ones first. There must be as many.
  void unmap_idle(Address address, Bytes bytes, std::size_t count) {
    for (std::size_t i = chunks_.size(); i-- > 0 && count > 0;) {
      if (!is_idle(i) || touches(i, address, bytes)) continue;
      chunks_[i].mapped = false;
      --mapped_;
      ++unmapped_;
      --count;
    }
  }

  /// Gives memory to every chunk of a range.
  void map(Address address, Bytes bytes) {
    grow_to(end_of(address, bytes));
    for (std::size_t i = first_of(address); i < end_of(address, bytes); ++i) {
      if (chunks_[i].mapped) continue;
      chunks_[i].mapped = true;
      ++mapped_;
      --unmapped_;
    }
  }

 private:
  struct Chunk {
    bool mapped = false;
    Bytes occupied;
  };

  static std::size_t first_of(Address address) { return address.value / size.count; }
  static std::size_t end_of(Address address, Bytes bytes) {
    return (address.value + bytes.count + size.count - 1) / size.count;
  }
  static Bytes overlap(std::size_t i, Address address, Bytes bytes) {
    const std::uint64_t begin = std::max(i * size.count, address.value);
    return {std::min((i + 1) * size.count, address.value + bytes.count) - begin};
  }
  static bool touches(std::size_t i, Address address, Bytes bytes) {
    return i >= first_of(address) && i < end_of(address, bytes);
  }
  bool is_idle(std::size_t i) const { return chunks_[i].mapped && chunks_[i].occupied == 0_B; }
  void grow_to(std::size_t count) {
    if (count <= chunks_.size()) return;
    unmapped_ += count - chunks_.size();
    chunks_.resize(count);
  }

  std::vector<Chunk> chunks_;
  std::size_t mapped_ = 0, unmapped_ = 0;  // their sum is the number of chunks
};

}  // namespace memreel
