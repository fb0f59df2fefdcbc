// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/kernel_rules.h"

#include <algorithm>
#include <iterator>

namespace memreel {

bool LearnedSizes::in_backward(std::uint32_t row) const {
  return model.base->trace.events.stack[rows()[row].event] == StackId::none;
}

std::vector<bool> LearnedSizes::called_from(std::string_view function, std::string_view file) const {
  const Tables& tables = model.base->trace.tables;
  std::vector<bool> calls(tables.stacks.size());  // callers come first
  for (std::size_t stack = 1; stack < calls.size(); ++stack) {
    const Frame& frame = tables[tables.stacks[stack].frame];
    calls[stack] = calls[index(tables.stacks[stack].caller)] ||
                   ((function.empty() || tables[frame.function] == function) && tables[frame.file].ends_with(file));
  }
  std::vector<bool> from(rows().size());
  for (std::size_t row = 0; row < from.size(); ++row)
    from[row] = calls[index(model.base->trace.events.stack[rows()[row].event])];
  return from;
}

KernelRequests Model::requests_of(const KernelRule& kernel, std::span<const std::uint64_t> values,
                                  const GpuTraits& gpu) const {
  const auto bytes = [&](std::uint32_t row) { return rules[rule_of[row]].exact->at(values).count; };
  const auto divide = [](std::uint64_t a, std::uint64_t b) { return a / std::max<std::uint64_t>(b, 1); };
  const std::uint64_t result = bytes(kernel.row);
  if (const auto* const sum = std::get_if<SumRule>(&kernel.rule)) {
    ColumnSums sums{.columns = result / sum->number, .layout = sum->layout};
    if (sum->rows)
      sums.rows = sum->rows->at(values).count;
    else if (sum->of_inputs)
      sums.rows = divide(bytes(sum->gradient), divide(bytes(sum->weights), result) * sum->number);
    else
      sums.rows = divide(bytes(sum->gradient), result);
    const std::optional<SumScratch> scratch = scratch_of(sums, gpu);
    return scratch ? memreel::requests_of(*scratch) : KernelRequests{};
  }
  const auto& embedding = std::get<EmbeddingRule>(kernel.rule);
  EmbeddingGradient gradient{.indices = embedding.indices.at(values).count, .number = embedding.number};
  gradient.words = embedding.words ? *embedding.words : divide(result, *embedding.width * gradient.number);
  gradient.width = embedding.width ? *embedding.width : divide(result, gradient.words * gradient.number);
  return memreel::requests_of(gradient, gpu);
}

LearnedKernels learn_kernels(const LearnedSizes& sizes, const GpuTraits& gpu) {
  LearnedKernels learned{.rules = learn_sums(sizes, gpu)};
  std::vector<KernelRule> embeddings = learn_embeddings(sizes, gpu);
  std::ranges::move(embeddings, std::back_inserter(learned.rules));
  std::ranges::sort(learned.rules, {}, &KernelRule::row);
  GpuTraits larger = gpu;
  larger.multiprocessors *= 2;
  for (const KernelRule& kernel : learned.rules) {
    const auto* const sums = std::get_if<SumRule>(&kernel.rule);
    bool recorded = false, explained = sums == nullptr || !sums->rows, of_gpu = false;
    for (std::size_t r = 0; r < sizes.recordings.size(); ++r) {
      const std::uint32_t partner = sizes.partners[r][kernel.row];
      const Recording& recording = *sizes.recordings[r];
      const RecordedKernel* const made = partner == no_partner ? nullptr : recorded_kernel(recording.requests, partner);
      if (made == nullptr) continue;
      recorded = true;
      explained &= sizes.model.requests_of(kernel, recording.at, gpu) == requests_of(*made);
      of_gpu |= sizes.model.requests_of(kernel, recording.at, larger) != requests_of(*made);
    }
    learned.explained += recorded && explained ? 1U : 0U;
    learned.of_gpu += recorded && explained && of_gpu ? 1U : 0U;
  }
  return learned;
}

}  // namespace memreel
