// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/model.h"

#include <cmath>
#include <map>

#include "analyzer/predict/align.h"
#include "analyzer/predict/kernel_rules.h"

namespace memreel {
namespace {

/// What kernels add to a size to align it.
constexpr Bytes padding = 512_B;

/// The number of periods of a loop examined for how sizes grow from one to the next.
constexpr std::uint32_t most_periods = 32;

/// The number of shapes whose products are tried.
constexpr std::size_t most_shapes = 12;

/// The share by which sizes may miss a function and still count as near it.
constexpr double most_missed = 1.0 / 8;

/// For each recording, the partner of each request of the base: neighbours are most alike, so more distant recordings
/// are matched through them.
std::vector<Partners> partners_of_base(Recordings recordings, std::size_t base) {
  std::vector<Partners> partners(recordings.size());
  Partners& own = partners[base];
  own.resize(recordings[base]->requests.rows.size());
  for (std::uint32_t row = 0; row < own.size(); ++row) own[row] = row;
  const auto follow = [&](std::size_t from, std::size_t to) {
    const Recording& a = *recordings[to];
    const Recording& b = *recordings[from];
    const Partners step = align(a.requests, b.requests, growth_ratios(a.at, b.at));
    partners[to] = partners[from];
    for (std::uint32_t& row : partners[to])
      if (row != no_partner) row = step[row];
  };
  for (std::size_t i = base; i > 0; --i) follow(i, i - 1);
  for (std::size_t i = base; i + 1 < recordings.size(); ++i) follow(i, i + 1);
  return partners;
}

class Learner {
 public:
  Learner(Recordings recordings, std::size_t base, std::span<const GpuTraits> gpus)
      : recordings_(recordings), base_(base), gpus_(gpus), partners_(partners_of_base(recordings, base)) {
    model_.base = recordings[base];
    for (const Recording* recording : recordings) model_.recorded.push_back(recording->at);
  }

  Model run() {
    find_sizes();
    if (base_ > 0) {
      Partners below = partners_[base_ - 1];  // what is older repeats nothing
      const std::span older(below.data(), older_of(recordings_[base_]->requests).size());
      std::ranges::replace(older, no_partner, 0U);
      model_.repeats = find_repeats(recordings_, base_, below);
    }
    inherit_sizes();
    find_kernels();
    add_up();
    return std::move(model_);
  }

 private:
  const std::vector<Request>& rows() const { return recordings_[base_]->requests.rows; }

  std::vector<std::optional<Bytes>> sizes_of(std::uint32_t row) const {
    std::vector<std::optional<Bytes>> sizes;
    for (std::size_t r = 0; r < recordings_.size(); ++r) {
      const std::uint32_t partner = partners_[r][row];
      sizes.push_back(partner == no_partner ? std::nullopt
                                            : std::optional(recordings_[r]->requests.rows[partner].size));
    }
    return sizes;
  }

  /// Requests with equal sizes in all recordings share a rule.
  void find_sizes() {
    find_sizes({}, false);
    const std::vector<SizeGrowth> shapes = confirmed_shapes();
    const bool curves = recordings_.size() > 2 && std::ranges::any_of(model_.rules, [](const SizeRule& rule) {
                          return rule.exact && rule.exact->confirmed() && rule.exact->degree() > 1;
                        });
    if (curves || !shapes.empty()) find_sizes(shapes, curves);
  }

  /// `curves`: whether unconfirmed functions may be curved, as when some confirmed ones are.
  void find_sizes(std::span<const SizeGrowth> shapes, bool curves) {
    std::map<std::vector<std::optional<Bytes>>, std::uint32_t> known;
    model_.rules.clear();
    model_.rule_of.assign(rows().size(), 0);
    for (std::uint32_t row = 0; row < rows().size(); ++row) {
      std::vector<std::optional<Bytes>> sizes = sizes_of(row);
      const auto [at, is_new] = known.try_emplace(std::move(sizes), static_cast<std::uint32_t>(model_.rules.size()));
      if (is_new) model_.rules.push_back(rule_of(at->first, shapes, curves));
      model_.rule_of[row] = at->second;
    }
  }

  /// The shapes of sizes confirmed by more recordings than define them, most frequent first.
  std::vector<SizeGrowth> confirmed_shapes() const {
    std::vector<std::uint32_t> requests(model_.rules.size());
    for (const std::uint32_t rule : model_.rule_of) ++requests[rule];
    std::vector<std::pair<SizeGrowth, std::uint32_t>> shapes;
    for (std::size_t rule = 0; rule < model_.rules.size(); ++rule) {
      const std::optional<SizeGrowth>& growth = model_.rules[rule].exact;
      if (!growth || !growth->confirmed() || growth->terms() < 2) continue;
      const SizeGrowth shape = growth->shape();
      const auto known = std::ranges::find(shapes, shape, &std::pair<SizeGrowth, std::uint32_t>::first);
      if (known != shapes.end())
        known->second += requests[rule];
      else
        shapes.emplace_back(shape, requests[rule]);
    }
    std::ranges::stable_sort(shapes, std::greater{}, &std::pair<SizeGrowth, std::uint32_t>::second);
    std::vector<SizeGrowth> most;
    for (const auto& [shape, count] : shapes)
      if (most.size() < most_shapes) most.push_back(shape);
    return most;
  }

  SizeRule rule_of(const std::vector<std::optional<Bytes>>& sizes, std::span<const SizeGrowth> shapes,
                   bool curves) const {
    SizeRule rule{.base = base_, .sizes = sizes};
    std::vector<SizePoint> points;
    for (std::size_t r = 0; r < sizes.size(); ++r)
      if (sizes[r]) points.push_back({.at = recordings_[r]->at, .size = *sizes[r]});
    rule.exact = SizeGrowth::through(points, false);
    if (!rule.exact && points.size() > 2) rule.exact = SizeGrowth::product_through(points, shapes);
    if (!rule.exact && curves) rule.exact = SizeGrowth::through(points, true);
    if (rule.exact) return rule;
    rule.likely = likely_growth(points, curves ? 2 : 1);
    if (points.size() > 2 && rule.likely) rule.missed = misses(*rule.likely, points);
    return rule;
  }

  /// For sizes that no function passes through, such as those of workspaces: a library pads them a little, and
  /// sometimes takes another algorithm. The larger recordings count more.
  static std::optional<SizeGrowth> likely_growth(std::span<const SizePoint> points, int highest_power) {
    if (points.size() < 2) return std::nullopt;
    if (points.size() > 2)
      if (std::optional<SizeGrowth> all = SizeGrowth::through(points, false, padding); all && all->confirmed())
        return all;
    for (std::size_t last = points.size() - 1; last > 0; --last) {
      std::optional<SizeGrowth> growth = SizeGrowth::through(points.subspan(last - 1, 2), false, padding);
      if (growth && growth->confirmed()) return growth;
    }
    std::optional<SizeGrowth> line = SizeGrowth::through(points.last(2), false);
    const double factor = std::pow(scale(points.back().at, points[points.size() - 2].at), highest_power);
    const double grown =
        static_cast<double>(points.back().size.count) / static_cast<double>(points[points.size() - 2].size.count);
    return line && grown <= factor ? line : std::nullopt;
  }

  /// The largest share by which a function misses the sizes; 1 if too large for them to follow it.
  static double misses(const SizeGrowth& growth, std::span<const SizePoint> points) {
    double most = 0;
    for (const SizePoint& point : points) {
      const auto size = static_cast<double>(std::max(point.size, 1_B).count);
      most = std::max(most, std::abs(static_cast<double>(growth.at(point.at).count) / size - 1));
    }
    return most <= most_missed ? most : 1;
  }

  /// A request that only the base has grows like the last similar request before it: of the same site and size.
  void inherit_sizes() {
    std::map<std::pair<std::uint32_t, Bytes>, std::uint32_t> like;
    for (std::uint32_t row = 0; row < rows().size(); ++row) {
      const auto key = std::pair(rows()[row].site, rows()[row].size);
      if (model_.rules[model_.rule_of[row]].exact)
        like[key] = model_.rule_of[row];
      else if (const auto found = like.find(key); found != like.end())
        model_.rule_of[row] = found->second;
    }
    for (const Repeat& repeat : model_.repeats)
      for (std::uint32_t row = repeat.first; row < repeat.first + repeat.count; ++row)
        if (!model_.rules[model_.rule_of[row]].exact) {
          SizeRule fixed = model_.rules[model_.rule_of[row]];
          fixed.exact = SizeGrowth::constant(*fixed.sizes[base_], recordings_[base_]->at.size());
          model_.rule_of[row] = static_cast<std::uint32_t>(model_.rules.size());
          model_.rules.push_back(std::move(fixed));
        }
  }

  /// Takes the first GPU that explains all kernels, or else the one that explains the most.
  void find_kernels() {
    const LearnedSizes sizes{.model = model_, .recordings = recordings_, .partners = partners_};
    std::optional<LearnedKernels> most;
    for (const GpuTraits& gpu : gpus_) {
      LearnedKernels learned = learn_kernels(sizes, gpu);
      const bool all = learned.explained >= recordings_[base_]->requests.kernels.size();
      if (!most || learned.explained > most->explained) {
        model_.recorded_on = gpu;
        most = std::move(learned);
      }
      if (all) break;
    }
    model_.kernels = std::move(most->rules);
    model_.gpu_seen = most->of_gpu > 0;
    model_.predicted_for = model_.recorded_on;
  }

  void add_up() {
    auto repeat = model_.repeats.begin();
    for (std::uint32_t row = 0; row < rows().size(); ++row) {
      while (repeat != model_.repeats.end() && row >= repeat->first + repeat->count) ++repeat;
      const bool repeated = repeat != model_.repeats.end() && row >= repeat->first;
      bool paired = repeated;
      for (std::size_t r = 0; r < recordings_.size() && !paired; ++r)
        paired = r != base_ && partners_[r][row] != no_partner;
      model_.requested += rows()[row].size;
      if (paired) model_.aligned += rows()[row].size;
      const std::optional<SizeGrowth>& growth = model_.rules[model_.rule_of[row]].exact;
      if (growth) model_.exact += rows()[row].size;
      if (growth && !growth->is_constant() && !growth->confirmed()) model_.unconfirmed += rows()[row].size;
    }
  }

  Recordings recordings_;
  std::size_t base_;
  std::span<const GpuTraits> gpus_;
  std::vector<Partners> partners_;
  Model model_;
};

}  // namespace

Bytes SizeRule::at(const Target& target, Assumption::Size assumed, bool widely) const {
  if (exact) return exact->at(target.values);
  const auto grown = [&](Bytes size, double by) {
    return Bytes{static_cast<std::uint64_t>(static_cast<double>(size.count) * by)};
  };
  if (!widely && missed < 1) {
    if (assumed == Assumption::Size::least) return grown(likely->at(target.values), 1 - missed);
    if (assumed == Assumption::Size::most) return grown(likely->at(target.values), 1 + missed);
  }
  const Bytes as_the_rest = grown(*sizes[base], target.factor);
  if (assumed == Assumption::Size::likely) return likely ? likely->at(target.values) : as_the_rest;
  Bytes least = as_the_rest, most = as_the_rest;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    if (!sizes[r]) continue;
    least = std::min(least, *sizes[r]);
    most = std::max(most, r < target.above ? grown(*sizes[r], std::max(target.factor, 1.0)) : *sizes[r]);
  }
  return assumed == Assumption::Size::least ? least : most;
}

const Repeat* Model::repeat_of(std::uint32_t row) const { return memreel::repeat_of(repeats, row); }

Target Model::target(std::span<const std::uint64_t> values) const {
  const auto above = std::ranges::find_if(recorded, [&](const Values& at) { return scale(at, values) > 1; });
  std::vector<std::uint64_t> requests(rules.size());
  for (const std::uint32_t rule : rule_of) ++requests[rule];
  double now = 0, then = 0;
  for (std::size_t rule = 0; rule < rules.size(); ++rule) {
    const std::optional<SizeGrowth>& growth = rules[rule].exact;
    if (!growth || growth->is_constant()) continue;
    now += static_cast<double>(requests[rule]) * static_cast<double>(growth->at(values).count);
    then += static_cast<double>(requests[rule]) * static_cast<double>(growth->at(base->at).count);
  }
  return {.values = values,
          .factor = now > 0 && then > 0 ? now / then : scale(values, base->at),
          .above = static_cast<std::size_t>(above - recorded.begin())};
}

Bytes Model::size_of(std::uint32_t row, std::uint32_t copy, const Target& target, const Assumption& assumption) const {
  const Bytes size = original_size(row, target, assumption);
  if (copy == 0) return size;
  const std::uint32_t period = repeat_of(row)->period;
  const std::vector<Request>& rows = base->requests.rows;
  const auto bytes = [&](std::uint32_t of) {
    return static_cast<std::int64_t>(original_size(of, target, assumption).count);
  };
  // Walks back through the earlier periods. Only a rise that came twice is assumed to recur: sizes of one line of code
  // may differ for other reasons, as those of an optimizer's state do.
  struct Rise {
    std::uint32_t periods = 0;  // how far back
    std::int64_t bytes = 0;
  };
  std::optional<Rise> last;
  std::int64_t after = bytes(row);
  for (std::uint32_t k = 1; k <= most_periods && row >= k * period; ++k) {
    const std::uint32_t earlier = row - k * period;
    if (rows[earlier].site != rows[row].site) break;
    const std::int64_t before = bytes(earlier);
    const Rise rise{k, after - before};
    after = before;
    if (rise.bytes == 0) continue;
    if (!last) {
      last = rise;
      continue;
    }
    if (rise.bytes != last->bytes) break;
    const std::uint32_t stride = rise.periods - last->periods;
    const std::int64_t grown = bytes(row) + rise.bytes * ((last->periods - 1 + copy) / stride);
    return grown < 0 ? size : Bytes{static_cast<std::uint64_t>(grown)};
  }
  return size;
}

double scale(std::span<const std::uint64_t> to, std::span<const std::uint64_t> from) {
  double product = 1;
  for (std::size_t p = 0; p < to.size(); ++p) product *= static_cast<double>(to[p]) / static_cast<double>(from[p]);
  return product;
}

Assumption::Size Assumption::of(std::uint32_t rule) const {
  if (draw == 0) return all;
  std::uint64_t hash = (draw * 0x1'0000'0000ULL + rule) * 0x9E37'79B9'7F4A'7C15ULL;  // SplitMix64
  hash = (hash ^ (hash >> 30U)) * 0xBF58'476D'1CE4'E5B9ULL;
  hash = (hash ^ (hash >> 27U)) * 0x94D0'49BB'1331'11EBULL;
  return static_cast<Size>((hash >> 33U) % 3);
}

Model learn(Recordings recordings, std::size_t base, std::span<const GpuTraits> gpus) {
  return Learner(recordings, base, gpus).run();
}

double Model::requests(std::span<const std::uint64_t> values) const {
  auto requests = static_cast<double>(base->requests.rows.size());
  for (const Repeat& repeat : repeats)
    requests += static_cast<double>(repeat.periods(values, base->at)) * repeat.period;
  return std::max(requests, 0.0);
}

}  // namespace memreel
