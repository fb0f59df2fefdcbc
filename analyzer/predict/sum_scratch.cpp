// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/kernel_requests.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include "analyzer/predict/kernel_rules.h"

namespace memreel {
namespace {

constexpr std::uint64_t most_threads = 512, warp = 32;         // of a block, if each makes one sum
constexpr std::uint64_t least_values = 16, most_values = 256;  // added by a thread

/// How blocks cover the matrix if it has more rows than a block has threads.
struct Blocks {
  Blocks(std::uint64_t columns, SumLayout layout) {
    std::uint64_t sums = 1;  // per thread
    if (layout == SumLayout::rows)
      for (sums = 4; columns % sums != 0;) sums /= 2;
    const std::uint64_t most = most_threads / sums;
    const auto at_most = [&](std::uint64_t number) { return std::min(std::bit_floor(number), most); };
    const std::uint64_t across = layout == SumLayout::rows ? at_most(columns / sums) : most;
    const std::uint64_t down = layout == SumLayout::rows ? most : at_most(columns);
    std::uint64_t width = std::min(across, warp);
    const std::uint64_t height = std::min(down, most / width);
    width = std::min(across, most / height);
    threads = width * height;
    step = layout == SumLayout::rows ? height : threads;
    count = layout == SumLayout::rows ? divide_up(columns / sums, width) : columns;
    partial_sums = Bytes{sum_bytes * columns * (layout == SumLayout::rows ? width * sums : 1)};
  }

  std::uint64_t at_once(const GpuTraits& gpu) const { return gpu.multiprocessors * (gpu.threads / threads); }
  /// Of all blocks that the device runs at once, the number that can share a sum.
  std::uint64_t most_sharing(const GpuTraits& gpu) const { return divide_up(at_once(gpu), count); }

  std::uint64_t threads = 0;
  std::uint64_t step = 0;   // rows that a block adds in one step
  std::uint64_t count = 0;  // number of adjacent blocks
  Bytes partial_sums;       // of each of the blocks that share a sum
};

}  // namespace

std::optional<SumScratch> scratch_of(const ColumnSums& sums, const GpuTraits& gpu) {
  if (sums.columns == 0) return std::nullopt;
  const Blocks blocks(sums.columns, sums.layout);
  const std::uint64_t values = divide_up(sums.rows, blocks.step);
  if (values < most_values || blocks.count > blocks.at_once(gpu)) return std::nullopt;
  const std::uint64_t sharing =
      std::max(std::min(blocks.most_sharing(gpu), divide_up(values, least_values)), divide_up(values, most_values));
  if (sharing == 1) return std::nullopt;
  return SumScratch{.partial_sums = blocks.partial_sums * sharing, .semaphores = Bytes{sum_bytes * blocks.count}};
}

KernelRequests requests_of(const SumScratch& scratch) {
  return {.after = {{.size = scratch.partial_sums, .lifetime = 1}, {.size = scratch.semaphores, .lifetime = 0}}};
}

std::optional<std::uint64_t> rows_of_scratch(std::uint64_t columns, SumLayout layout, const SumScratch& scratch) {
  if (columns == 0) return std::nullopt;
  const Blocks blocks(columns, layout);
  const std::uint64_t sharing = scratch.partial_sums.count / blocks.partial_sums.count;
  if (scratch.semaphores.count != sum_bytes * blocks.count || sharing < 2 ||
      scratch.partial_sums.count % blocks.partial_sums.count != 0)
    return std::nullopt;
  return sharing * least_values * blocks.step;
}

bool is_limited(std::uint64_t columns, SumLayout layout, const SumScratch& scratch, const GpuTraits& gpu) {
  const Blocks blocks(columns, layout);
  return scratch.partial_sums.count >= blocks.partial_sums.count * blocks.most_sharing(gpu);
}

namespace {

/// The conversion of numbers from two bytes to four follows the gradients made of them.
constexpr std::uint32_t furthest_conversion = 5;
/// How far back the gradient of a layer's outputs is searched.
constexpr std::uint32_t furthest_output = 256;
/// How far back the gradient of a convolution's weights is searched, and a copy that it was made from.
constexpr std::uint32_t furthest_weights = 3, furthest_copy = 8;

class SumFinder {
 public:
  SumFinder(const LearnedSizes& sizes, const GpuTraits& gpu)
      : sizes_(sizes), model_(sizes.model), rows_(sizes.rows()), gpu_(gpu) {
    const std::vector<bool> convolves = sizes_.called_from("", "torch/nn/modules/conv.py");
    for (std::uint32_t row = 0; row < rows_.size(); ++row) {
      if (!convolves[row]) continue;
      convolved_.insert(rows_[row].size);
      if (rows_[row].lifetime != Request::kept) behind_convolution_.insert(row + rows_[row].lifetime);
    }
  }

  /// Whether a request is for sums of two-byte numbers, converted to four.
  bool converts(std::uint32_t row, const KernelRule& kernel) const {
    const SumRule& sum = std::get<SumRule>(kernel.rule);
    const std::uint32_t last = last_of(kernel.row, sum);
    return sum.number == 2 && row > last && row <= last + furthest_conversion &&
           rows_[row].size == rows_[kernel.row].size * 2;
  }

  std::optional<SumRule> find(std::uint32_t row) {
    std::optional<SumRule> converted, found;
    for (const std::uint64_t number : number_bytes) {
      if (rows_[row].size.count % number != 0) continue;
      for (const SumRule& rule : by_neighbours(row, number)) {
        if (!agrees(row, rule)) continue;
        if (number == 2 && is_converted(row, rule))
          converted = rule;
        else if (!rule.of_inputs || outlive_inputs(row, rule) || known_.contains(sizes_of(row, rule)))
          found = rule;
      }
    }
    if (converted) found = converted;
    if (found) {
      known_.insert(sizes_of(row, *found));
      return found;
    }
    if (!sizes_.is_exact(row) || !took_scratch(row)) return std::nullopt;
    found = by_summed(row);
    return found ? found : by_scratch(row);
  }

 private:
  /// The gradients of inputs and weights precede or follow it, with at most one request between them that is never
  /// freed, such as a library's first.
  std::vector<SumRule> by_neighbours(std::uint32_t row, std::uint64_t number) const {
    std::vector<SumRule> rules;
    if (!sizes_.in_backward(row) || !sizes_.is_exact(row)) return rules;
    for (const bool before : {true, false})
      for (std::uint32_t left_out = 0; left_out <= 2; ++left_out) {  // none, the first or the second next to it
        const std::uint32_t weights = left_out == 1 ? 2 : 1, inputs = left_out == 0 ? 2 : 3;
        if (before ? row < inputs : row + inputs >= rows_.size()) continue;
        const auto at = [&](std::uint32_t distance) { return before ? row - distance : row + distance; };
        if (left_out > 0 && rows_[at(left_out)].lifetime != Request::kept) continue;
        rules.push_back({.number = number, .gradient = at(inputs), .weights = at(weights)});
      }
    std::erase_if(rules, [&](const SumRule& rule) {
      return !is_layer(row, rule) || rows_[rule.gradient].site != rows_[row].site ||
             rows_[rule.weights].site != rows_[row].site || !sizes_.is_exact(rule.gradient) ||
             !sizes_.is_exact(rule.weights);
    });
    // A convolution with one-pixel filters has the shapes of a linear layer.
    if (rules.empty() || behind_convolution_.contains(row))
      if (const std::optional<SumRule> rule = of_convolution(row, number)) return {*rule};
    return rules;
  }

  /// The gradient of the weights precedes it, with at most scratch between them, and the gradient of the outputs is
  /// freed after it.
  std::optional<SumRule> of_convolution(std::uint32_t row, std::uint64_t number) const {
    const Bytes sums = rows_[row].size;
    const auto is_made_of_sums = [&](std::uint32_t at) {
      return rows_[at].size > sums && rows_[at].size.count % sums.count == 0 && sizes_.is_exact(at);
    };
    const auto is_scratch = [&](std::uint32_t at) {
      return rows_[at].lifetime != Request::kept && at + rows_[at].lifetime < row;
    };
    std::uint32_t weights = row;
    for (std::uint32_t back = 1; back <= std::min(row, furthest_weights) && weights == row; ++back)
      if (!is_scratch(row - back)) weights = row - back;
    if (sums.count == 0 || weights == row || !sizes_.in_backward(weights) || !is_made_of_sums(weights) ||
        !are_weights(weights, row))
      return std::nullopt;
    std::optional<SumRule> rule;
    for (std::uint32_t back = 1; back <= std::min(row, furthest_output); ++back) {
      const std::uint32_t outputs = row - back;
      if (!sizes_.is_freed_after(outputs, row)) continue;
      if (rows_[outputs].size * 2 == sums) return std::nullopt;  // they are converted
      if (rule || outputs >= weights || !is_made_of_sums(outputs)) continue;
      rule = {.number = number,
              .layout = layout_of(row, weights, outputs),
              .of_inputs = false,
              .gradient = outputs,
              .weights = weights};
    }
    return rule;
  }

  /// In larger runs, weights are the same multiple of their bias, or a larger one if layers are wider.
  bool are_weights(std::uint32_t weights, std::uint32_t row) const {
    std::uint64_t times = 0;
    for (const Recording* recording : sizes_.recordings) {
      const auto bytes = [&](std::uint32_t of) {
        return model_.rules[model_.rule_of[of]].exact->at(recording->at).count;
      };
      const std::uint64_t bias = std::max<std::uint64_t>(bytes(row), 1);
      if (bytes(weights) % bias != 0 || bytes(weights) / bias < times) return false;
      times = bytes(weights) / bias;
    }
    return true;
  }

  /// cuDNN expects the gradient with the numbers of a channel adjacent. If they were not, a copy was made.
  SumLayout layout_of(std::uint32_t row, std::uint32_t weights, std::uint32_t outputs) const {
    const Bytes size = rows_[outputs].size;
    if (!convolved_.contains(size)) return SumLayout::rows;
    for (std::uint32_t at = weights - std::min(weights, furthest_copy); at < weights; ++at)
      if (at != outputs && rows_[at].size == size && at + rows_[at].lifetime == row - 1) return SumLayout::rows;
    return SumLayout::columns;
  }

  /// Whether the sizes are those of a layer's gradients, and a gradient of its outputs is live to be summed.
  bool is_layer(std::uint32_t row, const SumRule& rule) const {
    const std::uint64_t inputs = rows_[rule.gradient].size.count, weights = rows_[rule.weights].size.count,
                        sums = rows_[row].size.count;
    if (sums == 0 || weights % sums != 0) return false;
    const std::uint64_t columns = weights / sums;  // of the inputs
    return columns > 1 && inputs > 0 && inputs % (columns * rule.number) == 0 &&
           is_live_at(row, Bytes{inputs / columns / rule.number * sums});
  }

  /// The gradients of weights are kept for the optimizer, unless they are converted or added to those of another batch.
  bool outlive_inputs(std::uint32_t row, const SumRule& rule) const {
    const auto freed = [&](std::uint32_t at) {
      const std::uint32_t lifetime = rows_[at].lifetime;
      return lifetime == Request::kept ? lifetime : at + lifetime;
    };
    return std::min(freed(rule.weights), freed(row)) >= freed(rule.gradient);
  }

  /// Distinguishes layers.
  using LayerSizes = std::array<std::uint64_t, 4>;
  LayerSizes sizes_of(std::uint32_t row, const SumRule& rule) const {
    return {model_.rule_of[rule.gradient], model_.rule_of[rule.weights], model_.rule_of[row], rule.number};
  }

  /// Whether an allocation of that size is live when a row is requested.
  bool is_live_at(std::uint32_t row, Bytes size) const {
    for (std::uint32_t back = 1; back <= std::min(row, furthest_output); ++back) {
      const Request& before = rows_[row - back];
      if (before.size == size && before.lifetime >= back) return true;
    }
    return false;
  }

  static std::uint32_t last_of(std::uint32_t row, const SumRule& rule) {
    return std::max({row, rule.gradient, rule.weights});
  }

  bool is_converted(std::uint32_t row, const SumRule& rule) const {
    return behind(last_of(row, rule), rows_[rule.weights].size * 2, rows_[row].size * 2);
  }

  /// Whether requests of these sizes, in this order, follow soon.
  bool behind(std::uint32_t last, Bytes first, Bytes second) const {
    bool weights = false;
    for (std::uint32_t row = last + 1; row < rows_.size() && row <= last + furthest_conversion; ++row) {
      if (rows_[row].size == first) weights = true;
      if (weights && rows_[row].size == second) return true;
    }
    return false;
  }

  /// Whether every recording took the scratch that the rule predicts, or none.
  bool agrees(std::uint32_t row, const SumRule& rule) const {
    for (std::size_t r = 0; r < sizes_.recordings.size(); ++r) {
      const std::uint32_t partner = sizes_.partners[r][row];
      if (partner == no_partner) continue;
      const auto* const recorded = recorded_kernel<SumScratch>(sizes_.recordings[r]->requests, partner);
      const KernelRequests said = model_.requests_of({row, rule}, sizes_.recordings[r]->at, gpu_);
      if (said != (recorded != nullptr ? requests_of(*recorded) : KernelRequests{})) return false;
    }
    return true;
  }

  bool took_scratch(std::uint32_t row) const {
    for (std::size_t r = 0; r < sizes_.recordings.size(); ++r) {
      const std::uint32_t partner = sizes_.partners[r][row];
      if (partner != no_partner && recorded_kernel<SumScratch>(sizes_.recordings[r]->requests, partner)) return true;
    }
    return false;
  }

  /// From the last request before it that explains the scratch of every recording if it is what was summed.
  std::optional<SumRule> by_summed(std::uint32_t row) const {
    const std::uint64_t sums = rows_[row].size.count;
    for (std::uint32_t back = 1; back <= std::min(row, furthest_output); ++back) {
      const std::uint32_t summed = row - back;
      if (rows_[summed].lifetime < back || !sizes_.is_exact(summed) || rows_[summed].size.count % sums != 0) continue;
      for (const std::uint64_t number : number_bytes)
        for (const SumLayout layout : {SumLayout::rows, SumLayout::columns}) {
          const SumRule rule{.number = number, .layout = layout, .of_inputs = false, .gradient = summed};
          if (sums % number == 0 && agrees(row, rule)) return rule;
        }
    }
    return std::nullopt;
  }

  /// The number of rows is derived from how many blocks shared the columns.
  std::optional<SumRule> by_scratch(std::uint32_t row) const {
    for (const bool as_computed : {true, false})
      for (const std::uint64_t number : number_bytes)
        for (const SumLayout layout : {SumLayout::rows, SumLayout::columns})
          if (std::optional<SumRule> rule = by_scratch(row, number, layout, as_computed)) return rule;
    return std::nullopt;
  }

  /// `as_computed`: only by scratch that this many rows take on this GPU.
  std::optional<SumRule> by_scratch(std::uint32_t row, std::uint64_t number, SumLayout layout, bool as_computed) const {
    std::vector<SizePoint> free, limited;
    for (std::size_t r = 0; r < sizes_.recordings.size(); ++r) {
      const std::uint32_t partner = sizes_.partners[r][row];
      if (partner == no_partner) continue;
      const Requests& requests = sizes_.recordings[r]->requests;
      const auto* const scratch = recorded_kernel<SumScratch>(requests, partner);
      if (scratch == nullptr) continue;
      const std::uint64_t columns = requests.rows[partner].size.count / number;
      const std::optional<std::uint64_t> rows = rows_of_scratch(columns, layout, *scratch);
      if (!rows) continue;
      const bool is_limit = is_limited(columns, layout, *scratch, gpu_);
      const bool is_free = !is_limit && scratch_of({*rows, columns, layout}, gpu_) == *scratch;
      if (as_computed && !is_limit && !is_free) continue;
      (is_free ? free : limited).push_back({sizes_.recordings[r]->at, Bytes{*rows}});
    }
    if (free.empty()) free = std::move(limited);
    if (free.empty()) return std::nullopt;
    SumRule rule{.number = number, .layout = layout};
    rule.rows = SizeGrowth::through(free, false);
    if (!rule.rows && free.size() > 1) rule.rows = SizeGrowth::through(std::span(free).last(2), false);
    if (!rule.rows) rule.rows = SizeGrowth::constant(free.back().size, free.back().at.size());
    return rule;
  }

  const LearnedSizes& sizes_;
  const Model& model_;
  const std::vector<Request>& rows_;
  const GpuTraits& gpu_;
  std::set<LayerSizes> known_;                  // of sums already found
  std::set<Bytes> convolved_;                   // sizes requested by forward passes of convolutions
  std::set<std::uint32_t> behind_convolution_;  // rows after which such requests are freed
};

}  // namespace

std::vector<KernelRule> learn_sums(const LearnedSizes& sizes, const GpuTraits& gpu) {
  SumFinder finder(sizes, gpu);
  std::vector<KernelRule> sums;
  for (std::uint32_t row = 0; row < sizes.rows().size(); ++row) {
    const auto nearest = std::span(sums).last(std::min<std::size_t>(sums.size(), furthest_conversion));
    if (std::ranges::any_of(nearest, [&](const KernelRule& sum) { return finder.converts(row, sum); })) continue;
    if (std::optional<SumRule> found = finder.find(row)) sums.push_back({row, *std::move(found)});
  }
  return sums;
}

}  // namespace memreel
