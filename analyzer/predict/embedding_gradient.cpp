#include "analyzer/predict/embedding_gradient.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace memreel {
namespace {

constexpr std::uint64_t most_unsorted = 3072;  // indices
constexpr std::uint64_t rows_at_a_time = 10;   // NROWS_PER_THREAD

/// The number of keys that a block takes at a time, by compute capability.
struct Tiles {
  std::uint32_t capability;
  std::uint64_t sort, unique;
};
constexpr std::array all_tiles{
    Tiles{70, 256 * 11, 64 * 5},  Tiles{80, 384 * 10, 256 * 7},   Tiles{86, 384 * 10, 64 * 5},
    Tiles{90, 384 * 12, 640 * 7}, Tiles{100, 384 * 12, 384 * 10},
};
constexpr std::uint64_t scan_tile = 128 * 7;  // on all GPUs: CUB has no tuning for PyTorch's own addition operator

constexpr auto capabilities = [] {
  std::array<std::uint32_t, all_tiles.size()> of_tiles{};
  for (std::size_t i = 0; i < of_tiles.size(); ++i) of_tiles[i] = all_tiles[i].capability;
  return of_tiles;
}();

/// The last one that is not newer, as CUB chooses.
const Tiles& tiles_of(const GpuTraits& gpu) {
  const auto newer = std::ranges::upper_bound(all_tiles, gpu.compute_capability, {}, &Tiles::capability);
  return newer == all_tiles.begin() ? all_tiles.front() : *std::prev(newer);
}

/// CUB's AliasTemporaries(): parts begin at multiples of 256, and so may the whole.
constexpr std::uint64_t aliased(std::initializer_list<std::uint64_t> parts) {
  constexpr std::uint64_t alignment = 256;
  std::uint64_t sum = alignment - 1;
  for (const std::uint64_t part : parts) sum += divide_up(part, alignment) * alignment;
  return sum;
}

/// A descriptor of 16 bytes for each tile, and for a warp before the first.
constexpr std::uint64_t tile_states(std::uint64_t keys, std::uint64_t tile) {
  return aliased({(divide_up(keys, tile) + 32) * 16});
}

std::uint64_t sort_scratch(std::uint64_t keys, std::uint64_t tile) {
  constexpr std::uint64_t passes = 8, digits = 256, offset_bytes = 8, counter_bytes = 4;
  const std::uint64_t portion = ((std::uint64_t{1} << 28U) - 1) / tile * tile, portions = divide_up(keys, portion);
  return aliased({portions * passes * digits * offset_bytes,
                  divide_up(std::min(keys, portion), tile) * digits * counter_bytes, keys * index_bytes,
                  keys * index_bytes, portions * passes * counter_bytes});
}

}  // namespace

std::span<const std::uint32_t> capabilities_of_embeddings() { return capabilities; }

KernelRequests requests_of(const EmbeddingGradient& gradient, const GpuTraits& gpu) {
  const std::uint64_t n = gradient.indices;
  if (n <= most_unsorted) return {};
  const Tiles& tiles = tiles_of(gpu);
  const std::uint64_t segments = std::min(n, gradient.words), partial_segments = n / rows_at_a_time + segments;
  const Bytes indices{index_bytes * n}, count{index_bytes}, of_segments{index_bytes * segments};
  return {
      .before = {{indices, 14},                             // sorted
                 {indices, 13},                             // original positions
                 {indices, 1},                              // 0, 1, 2 ...
                 {Bytes{sort_scratch(n, tiles.sort)}, 0}},  //
      .after = {{indices, 9},                               // start of each segment of equal indices
                {count, 8},                                 // number of segments
                {indices, 1},                               // unused keys
                {Bytes{aliased({tile_states(n, tiles.unique), 0})}, 0},
                {of_segments, 5},  // number of partial segments of each
                {of_segments, 4},  // their running sum
                {Bytes{aliased({tile_states(segments, scan_tile)})}, 0},
                {count, 2},                                                  // number of partial segments
                {Bytes{index_bytes * partial_segments}, 1},                  // start of each
                {Bytes{sum_bytes * partial_segments * gradient.width}, 0}},  // their sums
  };
}

std::optional<EmbeddingGradient> embedding_gradient_of(std::span<const Bytes, embedding_requests> sizes) {
  const std::uint64_t n = sizes[0].count / index_bytes, segments = sizes[9].count / index_bytes,
                      partial_segments = sizes[13].count / index_bytes;
  if (n <= most_unsorted || segments == 0 || partial_segments != n / rows_at_a_time + segments) return std::nullopt;
  EmbeddingGradient gradient{.indices = n, .width = sizes[14].count / (sum_bytes * partial_segments)};
  const std::uint64_t word = gradient.width * gradient.number;
  if (word == 0 || sizes[embedding_result].count % word != 0) return std::nullopt;
  gradient.words = sizes[embedding_result].count / word;
  return gradient;
}

}  // namespace memreel
