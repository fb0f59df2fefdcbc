// SPDX-License-Identifier: Apache-2.0
// Memory created separately from the addresses it is mapped at (cuMemCreate, cuMemMap). It is freed once it is mapped
// nowhere and all references to its handle are released, in either order (cuda.h, cuMemRelease and cuMemUnmap).
// Releasing the handle right after mapping, as many programs do, frees nothing yet; and the driver may reuse the
// handle's number for other memory while the first is still alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

namespace memreel::cuda {

class PhysicalMemory {
 public:
  /// Counted in order of creation, from 0.
  using Number = std::size_t;

  /// What is known about one piece.
  struct Piece {
    std::uint64_t handle = 0;
    std::uint64_t size = 0;
    std::uint32_t references = 1;  // to the handle
    std::uint32_t mappings = 0;
    std::uint32_t namesakes = 0;  // how many pieces lived under this handle when it was created

    bool alive() const { return references > 0 || mappings > 0; }
  };

  Number created(std::uint64_t handle, std::uint64_t size);
  /// `handle` has one more reference: it was retained through the mapping at `address` (0: unknown), when it may have
  /// had none.
  void retained(std::uint64_t handle, std::uint64_t address = 0);
  /// Returns the piece that this frees, if any.
  std::optional<Number> released(std::uint64_t handle);
  /// `size` bytes of `handle` are mapped at `address`. Unknown handles (multicast objects, another process's memory)
  /// can be mapped too, but belong to no piece.
  std::optional<Number> mapped(std::uint64_t address, std::uint64_t size, std::uint64_t handle);
  /// Returns the pieces that this frees. Only whole mappings can be unmapped.
  std::vector<Number> unmapped(std::uint64_t address, std::uint64_t size);

  const Piece& operator[](Number number) const { return pieces_.at(number); }

  /// Drops what is known about a freed piece.
  void forget(Number number) { pieces_.erase(number); }

 private:
  struct Mapping {
    std::uint64_t size = 0;
    std::optional<Number> piece;
  };

  std::optional<Number> find(std::uint64_t handle) const;

  std::unordered_map<Number, Piece> pieces_;
  std::unordered_map<std::uint64_t, Number> by_handle_;            // those with references
  std::unordered_map<std::uint64_t, std::uint32_t> living_under_;  // handle: how many pieces, with references or not
  std::map<std::uint64_t, Mapping> mappings_;                      // by address
  Number next_ = 0;
};

}  // namespace memreel::cuda
