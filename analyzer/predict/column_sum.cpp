#include "analyzer/predict/column_sum.h"

#include <algorithm>
#include <bit>

namespace memreel {
namespace {

constexpr std::uint64_t sum_bytes = 4;
constexpr std::uint64_t most_threads = 512, warp = 32;         // of a block, when each makes one sum
constexpr std::uint64_t least_values = 16, most_values = 256;  // that a thread adds

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

/// How a block is laid out over the columns.
struct Block {
  explicit Block(std::uint64_t columns) {
    while (columns % sums != 0) sums /= 2;
    const std::uint64_t threads = most_threads / sums, across = std::bit_floor(columns / sums);
    width = std::min(across, warp);
    height = threads / width;
    width = std::min(across, threads / height);
    count = divide_up(columns / sums, width);
    partial_sums = Bytes{sum_bytes * columns * width * sums};
  }

  /// Of all blocks that the device runs at once, those that can share a column.
  std::uint64_t most_sharing(const Multiprocessors& device) const {
    return divide_up(device.count * (device.threads / (width * height)), count);
  }
  bool fills(const Multiprocessors& device) const { return count > device.count * (device.threads / (width * height)); }

  std::uint64_t sums = 4;  // that a thread makes
  std::uint64_t width = 0, height = 0;
  std::uint64_t count = 0;  // of blocks beside each other
  Bytes partial_sums;       // of as many blocks as share a column, each
};

}  // namespace

std::optional<SumScratch> scratch_of(const ColumnSum& sum, const Multiprocessors& device) {
  if (sum.columns == 0) return std::nullopt;
  const Block block(sum.columns);
  const std::uint64_t values = divide_up(sum.rows, block.height);
  if (values < most_values || block.fills(device)) return std::nullopt;
  const std::uint64_t sharing =
      std::max(std::min(block.most_sharing(device), divide_up(values, least_values)), divide_up(values, most_values));
  if (sharing == 1) return std::nullopt;
  return SumScratch{.partial_sums = block.partial_sums * sharing, .semaphores = Bytes{sum_bytes * block.count}};
}

std::optional<std::uint64_t> rows_of_scratch(std::uint64_t columns, const SumScratch& scratch) {
  if (columns == 0) return std::nullopt;
  const Block block(columns);
  const std::uint64_t sharing = scratch.partial_sums.count / block.partial_sums.count;
  if (scratch.semaphores.count != sum_bytes * block.count || sharing < 2 ||
      scratch.partial_sums.count % block.partial_sums.count != 0)
    return std::nullopt;
  return sharing * least_values * block.height;
}

bool is_limited(std::uint64_t columns, const SumScratch& scratch, const Multiprocessors& device) {
  const Block block(columns);
  return scratch.partial_sums.count >= block.partial_sums.count * block.most_sharing(device);
}

}  // namespace memreel
