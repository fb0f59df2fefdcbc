// The requests of an embedding's gradient: from 3,073 indices on it is computed by sorting.
//
// The rule: embedding_dense_backward_cuda() in aten/src/ATen/native/cuda/Embedding.cu and
// embedding_backward_cuda_kernel() in EmbeddingBackwardKernel.cu, PyTorch 2.11. The indices are sorted, then the rows
// of the gradient that belong to one word are added ten at a time, then those sums. Scratch is CUB's: of
// DeviceRadixSort (dispatch_radix_sort.cuh, InvokeOnesweep()), DeviceSelect::UniqueByKey and DeviceScan, CCCL 3.0, with
// the tile sizes that tuning_radix_sort.cuh and tuning_unique_by_key.cuh give for keys of 8 bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "analyzer/predict/kernel_requests.h"

namespace memreel {

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

}  // namespace memreel
