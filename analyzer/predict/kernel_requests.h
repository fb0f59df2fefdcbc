// SPDX-License-Identifier: Apache-2.0
// Scratch that kernels request in addition to their result: it appears, grows and stops growing at sizes that follow
// from a library's source, where no recording of a smaller run can show it. Such requests are computed, not learned.
//
// All known kernels:
//   sums, such as a bias' gradient and a loss    kernel_requests.h          from 256 numbers a thread on
//   the gradient of an embedding                 kernel_requests.h   from 3,073 indices on
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "formats/model/units.h"

namespace memreel {

/// The GPU properties that determine the scratch. The defaults are those of an H100 and an H200.
struct GpuTraits {
  std::uint64_t multiprocessors = 132;
  std::uint64_t threads = 2048;           // that each multiprocessor runs at once
  std::uint32_t compute_capability = 90;  // 10 * major + minor

  friend bool operator==(const GpuTraits&, const GpuTraits&) = default;
};

/// Bytes of the numbers that kernels accumulate in.
inline constexpr std::uint64_t sum_bytes = 4;

constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

struct KernelRequest {
  Bytes size;
  std::uint32_t lifetime = 0;  // number of the kernel's requests, including its result's, before it is freed

  friend bool operator==(const KernelRequest&, const KernelRequest&) = default;
};

/// In request order. What is freed at the same time is freed in reverse order.
struct KernelRequests {
  std::vector<KernelRequest> before, after;  // around the request for the result

  bool empty() const { return before.empty() && after.empty(); }
  friend bool operator==(const KernelRequests&, const KernelRequests&) = default;
};

// The requests of an embedding's gradient: from 3,073 indices on it is computed by sorting.
//
// The rule: embedding_dense_backward_cuda() in aten/src/ATen/native/cuda/Embedding.cu and
// embedding_backward_cuda_kernel() in EmbeddingBackwardKernel.cu, PyTorch 2.11. The indices are sorted, then the rows
// of the gradient that belong to one word are added ten at a time, then those sums. Scratch is CUB's: of
// DeviceRadixSort (dispatch_radix_sort.cuh, InvokeOnesweep()), DeviceSelect::UniqueByKey and DeviceScan, CCCL 3.0, with
// the tile sizes that tuning_radix_sort.cuh and tuning_unique_by_key.cuh give for keys of 8 bytes.

inline constexpr std::uint64_t index_bytes = 8;

/// With 64-bit indices, like Python's.
struct EmbeddingGradient {
  std::uint64_t indices = 0;
  std::uint64_t words = 0;
  std::uint64_t width = 0;   // numbers per word
  std::uint64_t number = 4;  // bytes per number, 2 or 4

  Bytes result() const { return Bytes{words * width * number}; }
  /// The gradient that it is computed from.
  Bytes source() const { return Bytes{indices * width * number}; }

  friend bool operator==(const EmbeddingGradient&, const EmbeddingGradient&) = default;
};

/// None for few indices.
KernelRequests requests_of(const EmbeddingGradient& gradient, const GpuTraits& gpu);

/// The number of requests, if there are any, including the result's, and the index of the result's.
inline constexpr std::size_t embedding_requests = 15, embedding_result = 4;

/// The gradient whose requests have these sizes, with numbers of 4 bytes; none if there is none. The caller must check
/// the lifetimes.
std::optional<EmbeddingGradient> embedding_gradient_of(std::span<const Bytes, embedding_requests> sizes);

/// The compute capabilities at which the scratch changes.
std::span<const std::uint32_t> capabilities_of_embeddings();

// The scratch of sums, such as the gradient of a bias and the mean of a loss.
//
// The rule: aten/src/ATen/native/cuda/Reduce.cuh, setReduceConfig() and gpu_reduce_kernel(), PyTorch 1.9 to 2.11. A
// block has up to 512 threads. Once each of them would add 256 numbers, so many blocks share a sum that each thread
// adds 16, or as many as the device runs at once, or so many that each adds 256. Every block leaves its partial sums
// for the last, and semaphores count the blocks.

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
