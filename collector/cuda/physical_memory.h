// Memory that is created apart from the addresses it is mapped at (cuMemCreate, cuMemMap), and when it is gone: when it
// is mapped nowhere any more and every reference to its handle is released, in whatever order (cuda.h, cuMemRelease and
// cuMemUnmap). Releasing the handle right after mapping, as many programs do, frees nothing yet; and the driver may
// give its number to other memory while the first still lives.
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

  /// What is known of one piece.
  struct Piece {
    std::uint64_t handle = 0;
    std::uint64_t size = 0;
    std::uint32_t references = 1;  // to the handle
    std::uint32_t mappings = 0;
    std::uint32_t namesakes = 0;  // how many lived under this handle when it was created

    bool alive() const { return references > 0 || mappings > 0; }
  };

  Number created(std::uint64_t handle, std::uint64_t size);
  /// `handle` has a reference more: it was asked for what is mapped at `address` (0: not known), which may have had
  /// none.
  void retained(std::uint64_t handle, std::uint64_t address = 0);
  /// The piece that is gone by that, if one is.
  std::optional<Number> released(std::uint64_t handle);
  /// `size` bytes of `handle` are at `address`. Handles that are not known (multicast objects, another process's
  /// memory) are mapped, too, but name no piece.
  std::optional<Number> mapped(std::uint64_t address, std::uint64_t size, std::uint64_t handle);
  /// The pieces that are gone by that. Only whole mappings can be unmapped.
  std::vector<Number> unmapped(std::uint64_t address, std::uint64_t size);

  const Piece& operator[](Number number) const { return pieces_.at(number); }

  /// What is known of pieces that are gone is forgotten by this.
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
