#include "analyzer/predict/sum_scratch.h"

#include <algorithm>
#include <bit>

namespace memreel {
namespace {

constexpr std::uint64_t most_threads = 512, warp = 32;         // of a block, if each makes one sum
constexpr std::uint64_t least_values = 16, most_values = 256;  // added by a thread

/// How blocks cover the matrix if it has more rows than a block has threads.
struct Blocks {
  Blocks(std::uint64_t columns, SumLayout layout) {
    std::uint64_t sums = 1;  // per thread
    if (layout == SumLayout::rows)
      for (sums = 4; columns % sums != 0;) sums /= 2;
    const std::uint64_t most = most_threads / sums;
    const auto at_most = [&](std::uint64_t number) { return std::min(std::bit_floor(number), most); };
    const std::uint64_t across = layout == SumLayout::rows ? at_most(columns / sums) : most;
    const std::uint64_t down = layout == SumLayout::rows ? most : at_most(columns);
    std::uint64_t width = std::min(across, warp);
    const std::uint64_t height = std::min(down, most / width);
    width = std::min(across, most / height);
    threads = width * height;
    step = layout == SumLayout::rows ? height : threads;
    count = layout == SumLayout::rows ? divide_up(columns / sums, width) : columns;
    partial_sums = Bytes{sum_bytes * columns * (layout == SumLayout::rows ? width * sums : 1)};
  }

  std::uint64_t at_once(const GpuTraits& gpu) const { return gpu.multiprocessors * (gpu.threads / threads); }
  /// Of all blocks that the device runs at once, the number that can share a sum.
  std::uint64_t most_sharing(const GpuTraits& gpu) const { return divide_up(at_once(gpu), count); }

  std::uint64_t threads = 0;
  std::uint64_t step = 0;   // rows that a block adds in one step
  std::uint64_t count = 0;  // number of adjacent blocks
  Bytes partial_sums;       // of each of the blocks that share a sum
};

}  // namespace

std::optional<SumScratch> scratch_of(const ColumnSums& sums, const GpuTraits& gpu) {
  if (sums.columns == 0) return std::nullopt;
  const Blocks blocks(sums.columns, sums.layout);
  const std::uint64_t values = divide_up(sums.rows, blocks.step);
  if (values < most_values || blocks.count > blocks.at_once(gpu)) return std::nullopt;
  const std::uint64_t sharing =
      std::max(std::min(blocks.most_sharing(gpu), divide_up(values, least_values)), divide_up(values, most_values));
  if (sharing == 1) return std::nullopt;
  return SumScratch{.partial_sums = blocks.partial_sums * sharing, .semaphores = Bytes{sum_bytes * blocks.count}};
}

KernelRequests requests_of(const SumScratch& scratch) {
  return {.after = {{.size = scratch.partial_sums, .lifetime = 1}, {.size = scratch.semaphores, .lifetime = 0}}};
}

std::optional<std::uint64_t> rows_of_scratch(std::uint64_t columns, SumLayout layout, const SumScratch& scratch) {
  if (columns == 0) return std::nullopt;
  const Blocks blocks(columns, layout);
  const std::uint64_t sharing = scratch.partial_sums.count / blocks.partial_sums.count;
  if (scratch.semaphores.count != sum_bytes * blocks.count || sharing < 2 ||
      scratch.partial_sums.count % blocks.partial_sums.count != 0)
    return std::nullopt;
  return sharing * least_values * blocks.step;
}

bool is_limited(std::uint64_t columns, SumLayout layout, const SumScratch& scratch, const GpuTraits& gpu) {
  const Blocks blocks(columns, layout);
  return scratch.partial_sums.count >= blocks.partial_sums.count * blocks.most_sharing(gpu);
}

}  // namespace memreel
