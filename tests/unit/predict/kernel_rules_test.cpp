// SPDX-License-Identifier: Apache-2.0
// Which requests of recorded programs are for results of kernels that need more in larger runs.
#include "analyzer/predict/kernel_rules.h"

#include <gmock/gmock.h>

#include <array>

#include "analyzer/predict/cards.h"
#include "analyzer/predict/synthesize.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

class Program {
 public:
  std::uint32_t ask(std::uint64_t size, StackId stack = StackId::none) {
    next_ += 1 << 30;
    live_.push_back(build_.alloc(origin_, Address{next_}, Bytes{size}, stack));
    return static_cast<std::uint32_t>(live_.size() - 1);
  }
  void free(std::uint32_t which) { build_.free(live_[which]); }
  StackId stack(const std::string& frame) { return build_.stack({frame}); }

  /// A kernel's result, with everything it allocates and frees.
  std::uint32_t run(const KernelRequests& kernel, std::uint64_t size) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> scratch;  // and the last request before it is freed
    std::uint32_t asked = 0;
    const auto more = [&](const std::vector<KernelRequest>& requests) {
      for (const KernelRequest& request : requests) {
        scratch.emplace_back(ask(request.size.count), asked + request.lifetime);
        for (auto newest = scratch.rbegin(); newest != scratch.rend(); ++newest)
          if (newest->second == asked) free(newest->first);
        ++asked;
      }
    };
    more(kernel.before);
    const std::uint32_t result = ask(size);
    ++asked;
    more(kernel.after);
    return result;
  }

  Recording recording(Values at) {
    Recording made{.at = std::move(at), .trace = std::move(build_.trace()), .heap = HeapId{1}};
    made.requests = requests_of(made.trace, made.heap);
    return made;
  }

 private:
  TraceBuilder build_;
  OriginId origin_ = build_.origin(HeapId{1});
  std::uint64_t next_ = std::uint64_t{1} << 32U;
  std::vector<AllocationId> live_;
};

constexpr std::uint64_t word_count = 16000, width = 768;

/// An embedding of 512 words per sample, and what its backward pass allocates on `gpu`.
Recording embedding(std::uint64_t batch, const GpuTraits& gpu = {}) {
  Program program;
  const std::uint64_t n = 512 * batch;
  const StackId words = program.stack("embedding@torch/nn/functional.py:2567");
  const std::uint32_t ids = program.ask(8 * n, program.stack("data@train.py:3"));
  const std::uint32_t embedded = program.ask(n * width * 4, words);
  const std::uint32_t kept = program.ask(n * width * 8, program.stack("forward@model.py:7"));
  program.free(embedded);
  const std::uint32_t gradient = program.ask(n * width * 4);
  program.free(kept);
  const std::uint32_t table = program.run(
      requests_of(EmbeddingGradient{.indices = n, .words = word_count, .width = width}, gpu), word_count * width * 4);
  program.free(gradient);
  program.free(table);
  program.free(ids);
  return program.recording({batch});
}

/// The bias of a convolution on 64 x 64 images; `copied`: to channels-last layout. Two-byte gradients are converted,
/// four-byte ones kept.
Recording convolution(std::uint64_t batch, bool copied, const GpuTraits& gpu = {}, std::uint64_t number = 2) {
  Program program;
  const StackId forward = program.stack("_conv_forward@torch/nn/modules/conv.py:548");
  constexpr std::uint64_t channels = 32;
  const std::uint64_t rows = batch * 64 * 64, size = rows * channels * number;
  const std::uint32_t input = program.ask(rows * 3 * number, forward), output = program.ask(size, forward);
  const std::uint32_t gradient = program.ask(size);
  program.free(output);
  const std::uint32_t copy = copied ? program.ask(size) : 0;
  const std::uint32_t weights = program.ask(27 * channels * number);
  if (copied) program.free(copy);
  const auto scratch =
      scratch_of({.rows = rows, .columns = channels, .layout = copied ? SumLayout::rows : SumLayout::columns}, gpu);
  const std::uint32_t bias = program.run(scratch ? requests_of(*scratch) : KernelRequests{}, channels * number);
  program.free(gradient);
  program.free(input);
  if (number == 4) return program.recording({batch});
  const std::uint32_t converted = program.ask(27 * channels * 4);
  program.free(weights);
  const std::uint32_t converted_bias = program.ask(channels * 4);
  program.free(bias);
  program.free(converted);
  program.free(converted_bias);
  return program.recording({batch});
}

struct Learned {
  explicit Learned(std::vector<Recording> all) : recordings(std::move(all)) {
    std::vector<const Recording*> pointers;
    for (const Recording& recording : recordings) pointers.push_back(&recording);
    model = learn(pointers, pointers.size() - 1, known_gpus({}));
  }
  std::vector<Recording> recordings;
  Model model;
};

/// The program's requests in order, by the model's rules.
std::vector<Bytes> predicted(const Model& model, std::uint64_t batch) {
  const PredictedRun run = synthesize(model, Values{batch});
  std::vector<Bytes> sizes;
  for (const std::uint32_t event : run.trace.events.begins()) sizes.push_back(run.trace.events.size(event));
  return sizes;
}

std::vector<Bytes> recorded(const Recording& recording) {
  std::vector<Bytes> sizes;
  for (const std::uint32_t event : recording.trace.events.begins()) sizes.push_back(recording.trace.events.size(event));
  return sizes;
}

TEST(KernelRules, AnEmbeddingThatIsSortedOnlyInTheLargerRun) {
  const Learned learned({embedding(1), embedding(2), embedding(3)});
  EXPECT_FALSE(learned.model.gpu_seen);
  for (const std::uint64_t batch : {4U, 6U, 7U, 40U})
    EXPECT_EQ(predicted(learned.model, batch), recorded(embedding(batch)));
}

TEST(KernelRules, AnEmbeddingThatIsSortedInEveryRun) {
  const Learned learned({embedding(8), embedding(9), embedding(11)});
  for (const std::uint64_t batch : {2U, 16U, 64U})
    EXPECT_EQ(predicted(learned.model, batch), recorded(embedding(batch)));
}

TEST(KernelRules, AnEmbeddingShowsWhatKindOfGpuSortsIt) {
  const GpuTraits a100 = find_card("A100-80GB")->gpu;
  const Learned learned({embedding(4, a100), embedding(8, a100), embedding(12, a100)});
  EXPECT_FALSE(learned.model.gpu_seen);
  EXPECT_EQ(learned.model.recorded_on.compute_capability, a100.compute_capability);
  EXPECT_EQ(predicted(learned.model, 32), recorded(embedding(32, a100)));
}

TEST(KernelRules, TheBiasOfAConvolution) {
  for (const bool copied : {false, true})
    for (const std::uint64_t number : {2U, 4U}) {
      const auto run = [&](std::uint64_t batch) { return convolution(batch, copied, {}, number); };
      const Learned learned({run(1), run(2), run(3)});
      for (const std::uint64_t batch : {8U, 32U, 64U, 512U})
        EXPECT_EQ(predicted(learned.model, batch), recorded(run(batch))) << batch << copied << number;
    }
}

TEST(KernelRules, ABiasShowsItsGpu) {
  const GpuTraits l4 = find_card("L4")->gpu;
  const Learned learned({convolution(64, false, l4), convolution(128, false, l4), convolution(256, false, l4)});
  EXPECT_TRUE(learned.model.gpu_seen);
  EXPECT_EQ(learned.model.recorded_on.multiprocessors, l4.multiprocessors);
  EXPECT_EQ(predicted(learned.model, 1024), recorded(convolution(1024, false, l4)));
}

TEST(KernelRules, AreThoseOfTheGpuThatIsPredictedFor) {
  Learned learned({convolution(64, false), convolution(128, false), convolution(256, false)});
  learned.model.predicted_for = find_card("L4")->gpu;
  EXPECT_EQ(predicted(learned.model, 1024), recorded(convolution(1024, false, learned.model.predicted_for)));
}

}  // namespace
}  // namespace memreel
