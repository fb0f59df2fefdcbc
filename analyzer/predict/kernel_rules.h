// Which requests of a program are for the results of kernels that ask for more (kernel_requests.h), and how large their
// arguments are.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "analyzer/predict/align.h"
#include "analyzer/predict/model.h"

namespace memreel {

/// The base of a model whose sizes have been learned, beside its partners in each recording.
struct LearnedSizes {
  const Model& model;
  Recordings recordings;
  std::span<const Partners> partners;  // by recording

  const std::vector<Request>& rows() const { return model.base->requests.rows; }
  bool is_exact(std::uint32_t row) const { return model.rules[model.rule_of[row]].exact.has_value(); }
  /// Python has no frame in the threads of a backward pass.
  bool in_backward(std::uint32_t row) const;
  /// By row: whether a frame of its call stack has this function, if one is given, of a file whose path ends so.
  std::vector<bool> called_from(std::string_view function, std::string_view file) const;
  /// Whether a request of the backward pass is freed with the last of the kernel of which `result` is the result.
  bool is_freed_after(std::uint32_t row, std::uint32_t result) const {
    return in_backward(row) && row + rows()[row].lifetime == result;
  }
};

/// Sums. One that took scratch is known by it. One that takes some only in larger runs is known by what stands beside
/// it: the backward pass of a layer asks for the gradients of its inputs (rows x inputs), its weights (inputs x
/// outputs) and its bias (outputs) one after the other, that of a convolution of images for those of its weights and
/// its bias. PyTorch: AddmmBackward0, LinearBackward0 and ConvolutionBackward0, tools/autograd/derivatives.yaml.
std::vector<KernelRule> learn_sums(const LearnedSizes& sizes, const GpuTraits& gpu);

/// Gradients of embeddings: the last request of a backward pass that is as large as a table of words, where what
/// embedding() returned is as large as a gradient that is freed behind it.
std::vector<KernelRule> learn_embeddings(const LearnedSizes& sizes, const GpuTraits& gpu);

struct LearnedKernels {
  std::vector<KernelRule> rules;  // by row
  std::size_t explained = 0;      // how many asked for what their rule says, by what stands beside them
  std::size_t of_gpu = 0;         // of those, how many would ask for more on a larger GPU
};
LearnedKernels learn_kernels(const LearnedSizes& sizes, const GpuTraits& gpu);

}  // namespace memreel
