// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/kernel_rules.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>

#include "analyzer/predict/kernel_requests.h"

namespace memreel {

bool LearnedSizes::in_backward(std::uint32_t row) const {
  return model.base->trace.events.stack(rows()[row].event) == StackId::none;
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
    from[row] = calls[index(model.base->trace.events.stack(rows()[row].event))];
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

namespace {

constexpr std::uint64_t most_unsorted = 3072;  // indices
constexpr std::uint64_t rows_at_a_time = 10;   // NROWS_PER_THREAD

/// The number of keys that a block takes at a time, by compute capability.
struct Tiles {
  std::uint32_t capability;
  std::uint64_t sort, unique;
};
constexpr std::array all_tiles{
    Tiles{70, 256 * 11, 64 * 5},  Tiles{80, 384 * 10, 256 * 7},   Tiles{86, 384 * 10, 64 * 5},
    Tiles{90, 384 * 12, 640 * 7}, Tiles{100, 384 * 12, 384 * 10},
};
constexpr std::uint64_t scan_tile = 128 * 7;  // on all GPUs: CUB has no tuning for PyTorch's own addition operator

constexpr auto capabilities = [] {
  std::array<std::uint32_t, all_tiles.size()> of_tiles{};
  for (std::size_t i = 0; i < of_tiles.size(); ++i) of_tiles[i] = all_tiles[i].capability;
  return of_tiles;
}();

/// The last one that is not newer, as CUB chooses.
const Tiles& tiles_of(const GpuTraits& gpu) {
  const auto newer = std::ranges::upper_bound(all_tiles, gpu.compute_capability, {}, &Tiles::capability);
  return newer == all_tiles.begin() ? all_tiles.front() : *std::prev(newer);
}

/// CUB's AliasTemporaries(): parts begin at multiples of 256, and so may the whole.
constexpr std::uint64_t aliased(std::initializer_list<std::uint64_t> parts) {
  constexpr std::uint64_t alignment = 256;
  std::uint64_t sum = alignment - 1;
  for (const std::uint64_t part : parts) sum += divide_up(part, alignment) * alignment;
  return sum;
}

/// A descriptor of 16 bytes for each tile, and for a warp before the first.
constexpr std::uint64_t tile_states(std::uint64_t keys, std::uint64_t tile) {
  return aliased({(divide_up(keys, tile) + 32) * 16});
}

std::uint64_t sort_scratch(std::uint64_t keys, std::uint64_t tile) {
  constexpr std::uint64_t passes = 8, digits = 256, offset_bytes = 8, counter_bytes = 4;
  const std::uint64_t portion = ((std::uint64_t{1} << 28U) - 1) / tile * tile, portions = divide_up(keys, portion);
  return aliased({portions * passes * digits * offset_bytes,
                  divide_up(std::min(keys, portion), tile) * digits * counter_bytes, keys * index_bytes,
                  keys * index_bytes, portions * passes * counter_bytes});
}

}  // namespace

std::span<const std::uint32_t> capabilities_of_embeddings() { return capabilities; }

KernelRequests requests_of(const EmbeddingGradient& gradient, const GpuTraits& gpu) {
  const std::uint64_t n = gradient.indices;
  if (n <= most_unsorted) return {};
  const Tiles& tiles = tiles_of(gpu);
  const std::uint64_t segments = std::min(n, gradient.words), partial_segments = n / rows_at_a_time + segments;
  const Bytes indices{index_bytes * n}, count{index_bytes}, of_segments{index_bytes * segments};
  return {
      .before = {{indices, 14},                             // sorted
                 {indices, 13},                             // original positions
                 {indices, 1},                              // 0, 1, 2 ...
                 {Bytes{sort_scratch(n, tiles.sort)}, 0}},  //
      .after = {{indices, 9},                               // start of each segment of equal indices
                {count, 8},                                 // number of segments
                {indices, 1},                               // unused keys
                {Bytes{aliased({tile_states(n, tiles.unique), 0})}, 0},
                {of_segments, 5},  // number of partial segments of each
                {of_segments, 4},  // their running sum
                {Bytes{aliased({tile_states(segments, scan_tile)})}, 0},
                {count, 2},                                                  // number of partial segments
                {Bytes{index_bytes * partial_segments}, 1},                  // start of each
                {Bytes{sum_bytes * partial_segments * gradient.width}, 0}},  // their sums
  };
}

std::optional<EmbeddingGradient> embedding_gradient_of(std::span<const Bytes, embedding_requests> sizes) {
  const std::uint64_t n = sizes[0].count / index_bytes, segments = sizes[9].count / index_bytes,
                      partial_segments = sizes[13].count / index_bytes;
  if (n <= most_unsorted || segments == 0 || partial_segments != n / rows_at_a_time + segments) return std::nullopt;
  EmbeddingGradient gradient{.indices = n, .width = sizes[14].count / (sum_bytes * partial_segments)};
  const std::uint64_t word = gradient.width * gradient.number;
  if (word == 0 || sizes[embedding_result].count % word != 0) return std::nullopt;
  gradient.words = sizes[embedding_result].count / word;
  return gradient;
}

namespace {

/// How far back the arguments of embedding() are searched.
constexpr std::uint32_t furthest_indices = 4096;

class EmbeddingFinder {
 public:
  EmbeddingFinder(const LearnedSizes& sizes, const GpuTraits& gpu)
      : sizes_(sizes), model_(sizes.model), rows_(sizes.rows()), gpu_(gpu) {}

  std::vector<KernelRule> run() {
    const std::vector<bool> embeds = sizes_.called_from("embedding", "torch/nn/functional.py");
    for (std::uint32_t row = 0; row < rows_.size(); ++row)
      if (embeds[row] && !sizes_.in_backward(row)) consider(row);
    for (std::uint32_t row = 0; row < rows_.size(); ++row)
      if (!is_known(row))
        if (std::optional<EmbeddingRule> rule = by_requests(row)) found_.push_back({row, *std::move(rule)});
    std::ranges::sort(found_, {}, &KernelRule::row);
    return std::move(found_);
  }

 private:
  bool is_known(std::uint32_t row) const { return std::ranges::find(found_, row, &KernelRule::row) != found_.end(); }

  /// `forward`: the result of embedding().
  void consider(std::uint32_t forward) {
    if (!sizes_.is_exact(forward)) return;
    const std::vector<std::uint32_t> results = results_of(forward);
    if (results.empty()) return;
    for (std::uint32_t back = 1; back <= std::min(forward, furthest_indices); ++back) {
      const std::uint32_t indices = forward - back;
      if (rows_[indices].lifetime < back) continue;
      const std::optional<std::uint64_t> word = bytes_of_word(forward, indices);
      if (!word) continue;
      const auto result = std::ranges::find_if(results, [&](std::uint32_t row) {
        return rows_[row].size.count % *word == 0 && rows_[row].size.count > *word;
      });
      if (result != results.end()) return add(*result, indices, *word);
    }
  }

  /// The bytes that embedding() returned per index, for requests that may be its indices, if their number grows and the
  /// ratio does not.
  std::optional<std::uint64_t> bytes_of_word(std::uint32_t forward, std::uint32_t indices) const {
    const std::optional<SizeGrowth>& growth = model_.rules[model_.rule_of[indices]].exact;
    if (!growth || growth->is_constant()) return std::nullopt;
    const SizeGrowth& returned = *model_.rules[model_.rule_of[forward]].exact;
    std::optional<std::uint64_t> word;
    for (const Recording* recording : sizes_.recordings) {
      const std::uint64_t count = growth->at(recording->at).count / index_bytes,
                          bytes = returned.at(recording->at).count;
      if (growth->at(recording->at).count % index_bytes != 0 || count == 0 || bytes % count != 0 || bytes == count)
        return std::nullopt;
      if (word && *word != bytes / count) return std::nullopt;
      word = bytes / count;
    }
    return word;
  }

  /// Candidates for the gradient of the words, the last of the step first: after them, a gradient as large as the
  /// result of embedding() is freed.
  std::vector<std::uint32_t> results_of(std::uint32_t forward) const {
    const std::uint32_t end = *std::ranges::upper_bound(model_.base->requests.ends, forward);
    std::vector<std::uint32_t> results;
    for (std::uint32_t row = forward + 1; row < end; ++row) {
      if (rows_[row].size != rows_[forward].size || rows_[row].lifetime == Request::kept || !sizes_.in_backward(row))
        continue;
      const std::uint32_t result = row + rows_[row].lifetime;
      if (result < end && result > row && sizes_.in_backward(result) && sizes_.is_exact(result) && !is_known(result) &&
          rows_[result].size != rows_[forward].size)
        results.push_back(result);
    }
    std::ranges::sort(results, std::greater{});
    return results;
  }

  void add(std::uint32_t result, std::uint32_t indices, std::uint64_t word) {
    std::vector<SizePoint> points;
    for (const Recording* recording : sizes_.recordings)
      points.push_back(
          {recording->at, Bytes{model_.rules[model_.rule_of[indices]].exact->at(recording->at).count / index_bytes}});
    std::optional<SizeGrowth> growth = SizeGrowth::through(points, false);
    if (!growth) return;
    const std::uint64_t number = recorded_number(result).value_or(4);
    EmbeddingRule rule{.indices = *std::move(growth), .number = number, .width = word / number};
    if (*rule.width > 0 && agrees(result, rule)) found_.push_back({result, std::move(rule)});
  }

  const EmbeddingGradient* recorded(std::size_t recording, std::uint32_t row) const {
    const std::uint32_t partner = sizes_.partners[recording][row];
    if (partner == no_partner) return nullptr;
    const auto* const found = recorded_kernel<RecordedEmbedding>(sizes_.recordings[recording]->requests, partner);
    return found != nullptr ? &found->gradient : nullptr;
  }

  std::optional<std::uint64_t> recorded_number(std::uint32_t row) const {
    for (std::size_t r = 0; r < sizes_.recordings.size(); ++r)
      if (const EmbeddingGradient* const gradient = recorded(r, row)) return gradient->number;
    return std::nullopt;
  }

  /// Whether every recording made the requests that the rule predicts, or none.
  bool agrees(std::uint32_t row, const EmbeddingRule& rule) const {
    for (std::size_t r = 0; r < sizes_.recordings.size(); ++r) {
      const std::uint32_t partner = sizes_.partners[r][row];
      if (partner == no_partner) continue;
      const auto* const made = recorded_kernel<RecordedEmbedding>(sizes_.recordings[r]->requests, partner);
      const KernelRequests said = model_.requests_of({row, rule}, sizes_.recordings[r]->at, gpu_);
      if (said != (made != nullptr ? made->requests : KernelRequests{})) return false;
    }
    return true;
  }

  /// From a gradient that was recorded with all its requests.
  std::optional<EmbeddingRule> by_requests(std::uint32_t row) const {
    std::vector<SizePoint> indices;
    std::vector<EmbeddingGradient> gradients;
    for (std::size_t r = 0; r < sizes_.recordings.size(); ++r)
      if (const EmbeddingGradient* const gradient = recorded(r, row)) {
        indices.push_back({sizes_.recordings[r]->at, Bytes{gradient->indices}});
        gradients.push_back(*gradient);
      }
    if (gradients.empty() || !sizes_.is_exact(row)) return std::nullopt;
    std::optional<SizeGrowth> growth = SizeGrowth::through(indices, false);
    if (!growth) growth = SizeGrowth::constant(indices.back().size, indices.back().at.size());
    EmbeddingRule rule{.indices = *std::move(growth), .number = gradients.back().number};
    const bool same_width = std::ranges::all_of(
        gradients, [&](const EmbeddingGradient& gradient) { return gradient.width == gradients.back().width; });
    (same_width ? rule.width : rule.words) = same_width ? gradients.back().width : gradients.back().words;
    return rule;
  }

  const LearnedSizes& sizes_;
  const Model& model_;
  const std::vector<Request>& rows_;
  const GpuTraits& gpu_;
  std::vector<KernelRule> found_;
};

}  // namespace

std::vector<KernelRule> learn_embeddings(const LearnedSizes& sizes, const GpuTraits& gpu) {
  return EmbeddingFinder(sizes, gpu).run();
}

}  // namespace memreel
