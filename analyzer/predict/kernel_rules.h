// SPDX-License-Identifier: Apache-2.0
// Finds the requests for results of kernels that request more (kernel_requests.h), and the size of their arguments.
#pragma once

#include <span>

#include "analyzer/predict/align.h"
#include "analyzer/predict/model.h"

namespace memreel {

/// The base of a model with learned sizes, and its partners in each recording.
struct LearnedSizes {
  const Model& model;
  Recordings recordings;
  std::span<const Partners> partners;  // by recording

  const std::vector<Request>& rows() const { return model.base->requests.rows; }
  bool is_exact(std::uint32_t row) const { return model.rules[model.rule_of[row]].exact.has_value(); }
  /// Python has no frame in the threads of a backward pass.
  bool in_backward(std::uint32_t row) const;
  /// By row: whether a frame of its call stack is in a file whose path ends this way and, if a function is given, in
  /// that function.
  std::vector<bool> called_from(std::string_view function, std::string_view file) const;
  /// Whether a request of the backward pass is freed with the last one of the kernel whose result is `result`.
  bool is_freed_after(std::uint32_t row, std::uint32_t result) const {
    return in_backward(row) && row + rows()[row].lifetime == result;
  }
};

/// Rules for sums. One that took scratch is recognized by it. One that takes scratch only in larger runs is recognized
/// by its neighbours: the backward pass of a layer requests the gradients of its inputs (rows x inputs), its weights
/// (inputs x outputs) and its bias (outputs) one after the other, that of an image convolution those of its weights and
/// its bias. PyTorch: AddmmBackward0, LinearBackward0 and ConvolutionBackward0, tools/autograd/derivatives.yaml.
std::vector<KernelRule> learn_sums(const LearnedSizes& sizes, const GpuTraits& gpu);

/// Rules for gradients of embeddings: the last request of a backward pass that is as large as a table of words, where
/// the result of embedding() is as large as a gradient that is freed after it.
std::vector<KernelRule> learn_embeddings(const LearnedSizes& sizes, const GpuTraits& gpu);

struct LearnedKernels {
  std::vector<KernelRule> rules;  // by row
  std::size_t explained = 0;      // how many requested what their rule predicts from their neighbours
  std::size_t of_gpu = 0;         // of those, how many would request more on a larger GPU
};
LearnedKernels learn_kernels(const LearnedSizes& sizes, const GpuTraits& gpu);

}  // namespace memreel
