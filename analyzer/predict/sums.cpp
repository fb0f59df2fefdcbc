#include "analyzer/predict/sums.h"

#include <algorithm>
#include <array>
#include <set>

namespace memreel {
namespace {

const SumScratch* scratch_at(const Requests& requests, std::uint32_t row) {
  const auto found = std::ranges::lower_bound(requests.sums, row, {}, &RecordedSum::row);
  return found != requests.sums.end() && found->row == row ? &found->scratch : nullptr;
}

/// Numbers are converted from two bytes to four behind the gradients that were made of them.
constexpr std::uint32_t furthest_conversion = 5;
/// How far back the gradient of a layer's outputs was asked for.
constexpr std::uint32_t furthest_output = 256;

class Finder {
 public:
  Finder(const Model& model, Recordings recordings, std::span<const Partners> partners)
      : model_(model), rows_(model.base->requests.rows), recordings_(recordings), partners_(partners) {}

  /// Whether a request is for sums of two bytes a number, converted to four.
  bool converts(std::uint32_t row, const SumRule& sum) const {
    const std::uint32_t last = std::max({sum.row, sum.inputs, sum.weights});
    return sum.number == 2 && row > last && row <= last + furthest_conversion &&
           rows_[row].size == rows_[sum.row].size * 2;
  }

  std::optional<SumRule> find(std::uint32_t row) {
    std::optional<SumRule> converted, found;
    for (const std::uint64_t number : number_bytes) {
      if (rows_[row].size.count % number != 0) continue;
      for (const SumRule& rule : by_neighbours(row, number)) {
        if (!agrees(rule)) continue;
        if (number == 2 && is_converted(rule))
          converted = rule;
        else if (outlive_inputs(rule) || known_.contains(sizes_of(rule)))
          found = rule;
      }
    }
    if (converted) found = converted;
    if (!found) return is_exact(row) ? by_scratch(row) : std::nullopt;
    known_.insert(sizes_of(*found));
    return found;
  }

 private:
  /// The gradients of inputs and weights stand before it or behind it, with at most one request between them that is
  /// never freed, as a library's first.
  std::vector<SumRule> by_neighbours(std::uint32_t row, std::uint64_t number) const {
    std::vector<SumRule> rules;
    for (const bool before : {true, false})
      for (std::uint32_t left_out = 0; left_out <= 2; ++left_out) {  // none, the first or the second beside it
        const std::uint32_t weights = left_out == 1 ? 2 : 1, inputs = left_out == 0 ? 2 : 3;
        if (before ? row < inputs : row + inputs >= rows_.size()) continue;
        const auto at = [&](std::uint32_t distance) { return before ? row - distance : row + distance; };
        if (left_out > 0 && rows_[at(left_out)].lifetime != Request::kept) continue;
        rules.push_back({.row = row, .number = number, .inputs = at(inputs), .weights = at(weights)});
      }
    std::erase_if(rules, [&](const SumRule& rule) {
      return !is_layer(rule) || !in_backward(row) || rows_[rule.inputs].site != rows_[row].site ||
             rows_[rule.weights].site != rows_[row].site || !is_exact(row) || !is_exact(rule.inputs) ||
             !is_exact(rule.weights);
    });
    return rules;
  }

  /// Whether the sizes are those of a layer's gradients, and one of its outputs' is there to be summed.
  bool is_layer(const SumRule& rule) const {
    const std::uint64_t inputs = rows_[rule.inputs].size.count, weights = rows_[rule.weights].size.count,
                        sums = rows_[rule.row].size.count;
    if (sums == 0 || weights % sums != 0) return false;
    const std::uint64_t columns = weights / sums;  // of the inputs
    return columns > 1 && inputs > 0 && inputs % (columns * rule.number) == 0 &&
           is_live_at(rule.row, Bytes{inputs / columns / rule.number * sums});
  }

  /// The gradients of weights are kept for the optimizer, unless they are converted or added to those of another batch.
  bool outlive_inputs(const SumRule& rule) const {
    const auto freed = [&](std::uint32_t row) {
      const std::uint32_t lifetime = rows_[row].lifetime;
      return lifetime == Request::kept ? lifetime : row + lifetime;
    };
    return std::min(freed(rule.weights), freed(rule.row)) >= freed(rule.inputs);
  }

  /// What tells one layer from another.
  using LayerSizes = std::array<std::uint64_t, 4>;
  LayerSizes sizes_of(const SumRule& rule) const {
    return {model_.rule_of[rule.inputs], model_.rule_of[rule.weights], model_.rule_of[rule.row], rule.number};
  }

  /// Whether something of that size is live when a row is asked for.
  bool is_live_at(std::uint32_t row, Bytes size) const {
    for (std::uint32_t back = 1; back <= std::min(row, furthest_output); ++back) {
      const Request& before = rows_[row - back];
      if (before.size == size && before.lifetime >= back) return true;
    }
    return false;
  }

  /// Python has no frame in the threads of a backward pass.
  bool in_backward(std::uint32_t row) const {
    return model_.base->trace.events.stack[rows_[row].event] == StackId::none;
  }

  bool is_exact(std::uint32_t row) const { return model_.rules[model_.rule_of[row]].exact.has_value(); }

  bool is_converted(const SumRule& rule) const {
    const std::uint32_t last = std::max({rule.row, rule.inputs, rule.weights});
    return behind(last, rows_[rule.weights].size * 2, rows_[rule.row].size * 2);
  }

  /// Whether requests of these sizes, in their order, follow soon.
  bool behind(std::uint32_t last, Bytes first, Bytes second) const {
    bool weights = false;
    for (std::uint32_t row = last + 1; row < rows_.size() && row <= last + furthest_conversion; ++row) {
      if (rows_[row].size == first) weights = true;
      if (weights && rows_[row].size == second) return true;
    }
    return false;
  }

  /// Whether every recording took the scratch that the rule says, or none.
  bool agrees(const SumRule& rule) const {
    for (std::size_t r = 0; r < recordings_.size(); ++r) {
      const std::uint32_t partner = partners_[r][rule.row];
      if (partner == no_partner) continue;
      const SumScratch* const recorded = scratch_at(recordings_[r]->requests, partner);
      const std::optional<SumScratch> said = model_.scratch_of(rule, recordings_[r]->at);
      if (said.has_value() != (recorded != nullptr) || (recorded != nullptr && *said != *recorded)) return false;
    }
    return true;
  }

  /// How many rows there are is learned from how many blocks shared the columns.
  std::optional<SumRule> by_scratch(std::uint32_t row) const {
    for (const std::uint64_t number : number_bytes) {
      std::vector<SizePoint> free, limited;
      for (std::size_t r = 0; r < recordings_.size(); ++r) {
        const std::uint32_t partner = partners_[r][row];
        if (partner == no_partner) continue;
        const Requests& requests = recordings_[r]->requests;
        const SumScratch* const scratch = scratch_at(requests, partner);
        if (scratch == nullptr) continue;
        const std::uint64_t columns = requests.rows[partner].size.count / number;
        const std::optional<std::uint64_t> rows = rows_of_scratch(columns, *scratch);
        if (!rows) continue;
        (is_limited(columns, *scratch) ? limited : free).push_back({recordings_[r]->at, Bytes{*rows}});
      }
      if (free.empty()) free = std::move(limited);
      if (free.empty()) continue;
      SumRule rule{.row = row, .number = number};
      rule.rows = SizeGrowth::through(free, false);
      if (!rule.rows && free.size() > 1) rule.rows = SizeGrowth::through(std::span(free).last(2), false);
      if (!rule.rows) rule.rows = SizeGrowth::constant(free.back().size, free.back().at.size());
      return rule;
    }
    return std::nullopt;
  }

  const Model& model_;
  const std::vector<Request>& rows_;
  Recordings recordings_;
  std::span<const Partners> partners_;
  std::set<LayerSizes> known_;  // of sums that were found
};

}  // namespace

std::vector<SumRule> learn_sums(const Model& model, Recordings recordings, std::span<const Partners> partners) {
  Finder finder(model, recordings, partners);
  std::vector<SumRule> sums;
  for (std::uint32_t row = 0; row < model.base->requests.rows.size(); ++row) {
    if (!sums.empty() && finder.converts(row, sums.back())) continue;
    if (std::optional<SumRule> found = finder.find(row)) sums.push_back(*std::move(found));
  }
  return sums;
}

std::optional<SumScratch> Model::scratch_of(const SumRule& sum, std::span<const std::uint64_t> values) const {
  const auto bytes = [&](std::uint32_t row) { return rules[rule_of[row]].exact->at(values).count; };
  const std::uint64_t columns = bytes(sum.row) / sum.number;
  if (sum.rows) return memreel::scratch_of({.rows = sum.rows->at(values).count, .columns = columns});
  const std::uint64_t inputs = bytes(sum.weights) / std::max<std::uint64_t>(bytes(sum.row), 1);
  return memreel::scratch_of(
      {.rows = bytes(sum.inputs) / std::max<std::uint64_t>(inputs * sum.number, 1), .columns = columns});
}

}  // namespace memreel
