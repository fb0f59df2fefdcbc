// The scratch of sums, as the gradient of a bias and the mean of a loss are.
//
// The rule: aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig() and gpu_reduce_kernel(), PyTorch 1.9 to 2.11. A
// block has up to 512 threads. Once each of them would add 256 numbers, so many blocks share a sum that each thread
// adds 16, or as many as the device runs at once, or so many that each adds 256. Every block leaves its partial sums
// for the last, and the blocks are counted in semaphores.
#pragma once

#include <cstdint>
#include <optional>

#include "analyzer/predict/kernel_requests.h"

namespace memreel {

/// Which numbers lie beside each other in memory. A thread adds numbers of up to four columns where those of a row do,
/// as of a batch of vectors; where those of a column do, as of the channels of images, a block is laid along it.
enum class SumLayout : std::uint8_t { rows, columns };

/// The sums of the columns of a matrix of numbers of 2 or 4 bytes, which are added in 4.
struct ColumnSums {
  std::uint64_t rows = 0, columns = 0;
  SumLayout layout = SumLayout::rows;
};

struct SumScratch {
  Bytes partial_sums, semaphores;
  friend bool operator==(const SumScratch&, const SumScratch&) = default;
};

/// None when no blocks share a sum.
std::optional<SumScratch> scratch_of(const ColumnSums& sums, const GpuTraits& gpu = {});

KernelRequests requests_of(const SumScratch& scratch);

/// The most rows with which sums of so many columns take `scratch`, unless what the device runs at once limits it; none
/// when they never do.
std::optional<std::uint64_t> rows_of_scratch(std::uint64_t columns, SumLayout layout, const SumScratch& scratch);

/// Whether no more rows make more scratch than `scratch`, for the device runs no more blocks at once.
bool is_limited(std::uint64_t columns, SumLayout layout, const SumScratch& scratch, const GpuTraits& gpu);

}  // namespace memreel
