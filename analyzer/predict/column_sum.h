// The scratch of a sum over a matrix' rows, as the gradient of a bias is made. Its size follows from PyTorch's source:
// it comes, grows and stops growing where no recording of a smaller run can show it.
//
// The rule: aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig() and gpu_reduce_kernel(), PyTorch 1.9 to 2.11. A
// block of 128 threads makes sums of up to 128 columns, four a thread. Once each of its threads would add 256 values,
// so many blocks share the columns that each thread adds 16, or as many as the device runs at once, or so many that
// each adds 256. Every block leaves its partial sums for the last, and the blocks are counted in semaphores.
#pragma once

#include <cstdint>
#include <optional>

#include "formats/model/units.h"

namespace memreel {

/// A matrix of numbers of 2 or 4 bytes, which are added in 4.
struct ColumnSum {
  std::uint64_t rows = 0, columns = 0;
};

struct SumScratch {
  Bytes partial_sums, semaphores;
  friend bool operator==(const SumScratch&, const SumScratch&) = default;
};

/// The device's multiprocessors, and threads that each runs at once. The defaults are those of an H100 and an H200.
struct Multiprocessors {
  std::uint64_t count = 132, threads = 2048;
};

/// None when no blocks share a column.
std::optional<SumScratch> scratch_of(const ColumnSum& sum, const Multiprocessors& device = {});

/// The most rows with which a sum of so many columns takes `scratch`, unless what the device runs at once limits it;
/// none when it never does.
std::optional<std::uint64_t> rows_of_scratch(std::uint64_t columns, const SumScratch& scratch);

/// Whether no more rows make more scratch than `scratch`, for the device runs no more blocks at once.
bool is_limited(std::uint64_t columns, const SumScratch& scratch, const Multiprocessors& device = {});

}  // namespace memreel
