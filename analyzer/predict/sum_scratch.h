// The scratch of sums, such as the gradient of a bias and the mean of a loss.
//
// The rule: aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig() and gpu_reduce_kernel(), PyTorch 1.9 to 2.11. A
// block has up to 512 threads. Once each of them would add 256 numbers, so many blocks share a sum that each thread
// adds 16, or as many as the device runs at once, or so many that each adds 256. Every block leaves its partial sums
// for the last, and semaphores count the blocks.
#pragma once

#include <cstdint>
#include <optional>

#include "analyzer/predict/kernel_requests.h"

namespace memreel {

/// Which numbers are adjacent in memory. A thread adds numbers of up to four columns if those of a row are, as in a
/// batch of vectors; if those of a column are, as in the channels of images, a block is laid along it.
enum class SumLayout : std::uint8_t { rows, columns };

/// The column sums of a matrix of numbers of 2 or 4 bytes, accumulated in 4.
struct ColumnSums {
  std::uint64_t rows = 0, columns = 0;
  SumLayout layout = SumLayout::rows;
};

struct SumScratch {
  Bytes partial_sums, semaphores;
  friend bool operator==(const SumScratch&, const SumScratch&) = default;
};

/// None if no blocks share a sum.
std::optional<SumScratch> scratch_of(const ColumnSums& sums, const GpuTraits& gpu = {});

KernelRequests requests_of(const SumScratch& scratch);

/// The most rows with which sums of this many columns take `scratch`, unless the number of blocks that the device runs
/// at once limits it; none if they never do.
std::optional<std::uint64_t> rows_of_scratch(std::uint64_t columns, SumLayout layout, const SumScratch& scratch);

/// Whether more rows make no more scratch than `scratch`, because the device runs no more blocks at once.
bool is_limited(std::uint64_t columns, SumLayout layout, const SumScratch& scratch, const GpuTraits& gpu);

}  // namespace memreel
