// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/plan/plan.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>
#include <utility>

#include "analyzer/replay/plan/first_fit.h"
#include "analyzer/replay/plan/local_search.h"
#include "analyzer/replay/plan/outward.h"
#include "analyzer/replay/plan/search.h"

namespace memreel::plan {
namespace {

/// The best placement so far, and its method.
class Portfolio {
 public:
  Portfolio(const Problem& problem, const Options& options)
      : problem_(problem), options_(options), enough_(std::max(problem.load, options.capacity.value_or(0_B))) {}

  bool done() const { return !method_.empty() && (best_.peak <= enough_ || options_.stop()); }

  /// Tries `place` unless the current placement is as good as wanted.
  template <class Place>
  void add(std::string_view method, const Place& place) {
    if (done()) return;
    Placement placement = place();
    if (!method_.empty() && placement.peak >= best_.peak) return;
    best_ = std::move(placement);
    method_ = method;
    options_.progress(best_.peak, problem_.load);
  }

  const Placement& best() const { return best_; }
  Bytes enough() const { return enough_; }

  Plan take(Bytes bound) && {
    return {.offsets = std::move(best_.offsets),
            .peak = best_.peak,
            .load = problem_.load,
            .largest = problem_.largest,
            .bound = bound,
            .method = method_};
  }

 private:
  const Problem& problem_;
  const Options& options_;
  Bytes enough_;
  Placement best_;
  std::string_view method_;
};

double ratio(Bytes a, Bytes b) {
  return b.count == 0 ? 0 : static_cast<double>(a.count) / static_cast<double>(b.count);
}

/// The number of gap-index runs after which the portfolio starts no further greedy order: about a tenth of a second.
constexpr std::uint64_t most_greedy_effort = 20'000'000;

/// Whether each buffer would be compared with too many others for one greedy order to take less than a tenth of a
/// second, about.
bool is_dense(const Problem& problem) {
  constexpr std::uint64_t most_pairs = 20'000'000;
  return problem.mean_alive() * problem.count() > most_pairs;
}

constexpr Effort effort_of_pair = 4;  // that ejection looks at

/// How often ejection, which looks twice at what is alive to place a buffer, gets around to each of them.
double rounds_of_ejection(const Problem& problem, std::uint64_t pairs) {
  const std::uint64_t round = 2 * problem.mean_alive() * problem.count();
  return round == 0 ? 0 : static_cast<double>(pairs) / static_cast<double>(round);
}
constexpr double worth_trying = 0.2;  // rounds

constexpr Effort effort_of_buffer = 120;  // that a sweep places

/// None of which is best for most programs. What is left over is worth more where more is alive.
constexpr std::array outward_preferences{Preference{.together = 0.3},
                                         Preference{.together = 1},
                                         Preference{.together = 0.4, .reuse = 1},
                                         Preference{.together = 0.8, .reuse = 0.8},
                                         Preference{.together = 0.2},
                                         Preference{.together = 0.6}};

/// Outward, by one of them.
Effort effort_of_preference(const Problem& problem) {
  return stacks_swept * effort_of_buffer * std::max(problem.count(), 1U);
}

/// As many of them as the effort is worth: the less ejection will find, the more.
std::span<const Preference> affordable_preferences(const Problem& problem, Effort effort) {
  const std::size_t most = !is_dense(problem) ? 2
                           : rounds_of_ejection(problem, effort / effort_of_pair / 2) >= worth_trying
                               ? 4
                               : outward_preferences.size();
  return std::span(outward_preferences).first(std::clamp<Effort>(effort / effort_of_preference(problem), 1, most));
}

/// The rows in an order that only depends on what they say.
std::vector<std::uint32_t> canonical_order(std::span<const Buffer> buffers) {
  std::vector<std::uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    const Buffer &left = buffers[a], &right = buffers[b];
    const auto by_time = std::tie(left.lower, left.upper, left.size) <=> std::tie(right.lower, right.upper, right.size);
    if (by_time != 0) return by_time < 0;
    const auto by_rest =
        std::tie(left.gaps, left.align, left.offset) <=> std::tie(right.gaps, right.align, right.offset);
    return by_rest != 0 ? by_rest < 0 : a < b;
  });
  return order;
}

Plan best_of_canonical(std::span<const Buffer> buffers, const Options& options) {
  const Problem problem = make_problem(buffers, options.align);
  Portfolio portfolio(problem, options);
  const auto online = [&](std::string_view method, Fit fit, Direction direction) {
    portfolio.add(method, [&] { return place_online(problem, buffers, fit, direction); });
  };
  online("best fit", Fit::smallest, Direction::forwards);
  online("first fit", Fit::lowest, Direction::forwards);
  online("best fit backwards", Fit::smallest, Direction::backwards);
  online("first fit backwards", Fit::lowest, Direction::backwards);

  const Placement arrived = portfolio.best();  // by an online fit

  // A peak of up to 1 % above the lowest possible one leaves a sweep room to choose.
  const std::span<const Preference> preferences = affordable_preferences(problem, options.effort);
  const bool searched = SearchGraph::suits(problem);
  const Effort swept = effort_of_preference(problem) * preferences.size();
  constexpr std::uint64_t sweeps = 2 * stacks_swept;  // forwards and backwards
  const bool dense = is_dense(problem);
  // Where less is alive, ejection finds more.
  const std::uint64_t again =
      dense ? std::min<std::uint64_t>(6 * std::uint64_t{problem.count()},
                                      (options.effort - std::min(swept, options.effort)) / sweeps / effort_of_buffer)
            : 0;
  const auto limits = [&](std::uint64_t share) {
    const Bytes enough = std::max(portfolio.enough(), problem.load + Bytes{problem.load.count / share});
    return SweepLimits{.enough = enough, .below = portfolio.best().peak, .again = again};
  };
  const auto outward = [&](std::span<const Preference> by, std::uint64_t share, unsigned threads) {
    portfolio.add("outward", [&] { return place_outward(problem, by, limits(share), threads); });
  };
  if (searched)  // the rest finds more from where one preference led
    for (const Preference& preference : preferences) outward({&preference, 1}, 100, 1);
  else {
    constexpr std::uint64_t share = 110;
    if (dense)
      portfolio.add("joined", [&] { return place_joined(problem, preferences, limits(share), options.threads); });
    const bool is_joined = dense && portfolio.best().peak <= limits(share).enough;
    if (!is_joined) outward(preferences, share, options.threads);
  }

  std::uint64_t effort = 0;
  const auto greedy = [&](std::string_view method, Order (*order)(const Problem&), Fit fit) {
    if (dense || effort >= most_greedy_effort) return;
    portfolio.add(method, [&] { return place_in_order(problem, order(problem), fit, effort); });
  };
  greedy("size", order_by_size, Fit::smallest);
  greedy("area", order_by_area, Fit::smallest);
  greedy("lifetime", order_by_lifetime, Fit::smallest);
  greedy("size, lowest gap", order_by_size, Fit::lowest);

  Placement packed = portfolio.best();  // by all that comes before ejection
  Bytes bound = problem.load;
  const auto eject = [&](std::uint64_t pairs, Bytes enough) {
    if (portfolio.best().peak <= enough) return;
    portfolio.add("ejection", [&] {
      return lower_the_peak(problem, arrived, packed,
                            {.effort = pairs,
                             .enough = enough,
                             .threads = options.threads,
                             .stop = options.stop,
                             .progress = [&](Bytes peak) { options.progress(peak, bound); }});
    });
  };
  if (!searched) {
    const std::uint64_t pairs = options.effort / effort_of_pair;
    const double rounds = rounds_of_ejection(problem, pairs);
    if (rounds >= worth_trying) eject(pairs, portfolio.enough());
    // From the same start, with more patience, it finds more than from the best so far, but not in few rounds.
    constexpr std::uint64_t patience = 8;
    constexpr double worth_patience = 1.5;  // rounds without it
    constexpr std::uint64_t good = 200;     // half a percent above the bound
    if (rounds >= worth_patience)
      eject(patience * pairs, std::max(portfolio.enough(), problem.load + Bytes{problem.load.count / good}));
    return std::move(portfolio).take(bound);
  }
  // What the search finds at once, or proves, it needs no improvement for; what it doesn't, ejection may.
  eject(options.effort / 64, portfolio.enough());
  portfolio.add("search", [&] {
    Placement placement = portfolio.best();
    bound = search_below(problem, placement,
                         {.effort = options.effort,
                          .capacity = options.capacity,
                          .threads = options.threads,
                          .stop = options.stop,
                          .progress = options.progress});
    return placement;
  });
  packed = portfolio.best();
  if (packed.peak > bound) eject(options.effort / 4, portfolio.enough());
  return std::move(portfolio).take(bound);
}

Bytes end_of(const Buffer& buffer, Bytes offset, Bytes align) {
  return offset + round_up(std::max(buffer.size, 1_B), align);
}

Bytes peak_of(std::span<const Buffer> buffers, std::span<const Bytes> offsets, Bytes align) {
  Bytes peak;
  for (std::size_t i = 0; i < buffers.size(); ++i) peak = std::max(peak, end_of(buffers[i], offsets[i], align));
  return peak;
}

/// All offsets as aligned as the strictest buffer needs. The peak and the bound are those of sizes that are not.
Plan best_of_aligned(std::span<const Buffer> buffers, Options options, Bytes strictest) {
  const Bytes align = std::exchange(options.align, strictest);
  Plan plan = best_of_canonical(buffers, options);
  Bytes rounding;
  bool alike = true;
  for (const Buffer& buffer : buffers) {
    rounding = std::max(rounding, end_of(buffer, {}, strictest) - end_of(buffer, {}, align));
    alike = alike && std::max(buffer.align, align) == strictest;
  }
  const Problem problem = make_problem(buffers, align);
  // What has been proven of multiples of the strictest alignment is not true of others.
  plan.bound = alike ? std::max(problem.load, plan.bound - rounding) : problem.load;
  plan.load = problem.load;
  plan.largest = problem.largest;
  plan.peak = peak_of(buffers, plan.offsets, align);
  return plan;
}

/// Each buffer as aligned as it needs, or where it has to lie: the best of several orders, and of `plan` if it has one.
Plan best_of_orders(std::span<const Buffer> buffers, const Options& options, std::optional<Plan> plan) {
  const Problem problem = make_problem(buffers, options.align);
  Bytes end;  // of what has to lie somewhere
  for (const Buffer& buffer : buffers)
    if (buffer.offset) end = std::max(end, end_of(buffer, *buffer.offset, options.align));
  Plan best = plan ? *std::move(plan)
                   : Plan{.offsets = {},
                          .peak = Bytes{~std::uint64_t{0}},
                          .load = problem.load,
                          .largest = problem.largest,
                          .bound = std::max(problem.load, end),
                          .method = {}};
  std::uint64_t effort = 0;
  const auto place = [&](std::string_view method, Order (*order)(const Problem&), Fit fit) {
    if (!best.offsets.empty() && (best.proved() || options.stop())) return;
    std::vector<Bytes> offsets = place_in_order(problem, order(problem), fit, effort, buffers).offsets;
    const Bytes peak = peak_of(buffers, offsets, options.align);
    if (peak >= best.peak) return;
    best.offsets = std::move(offsets);
    best.peak = peak;
    best.method = std::ranges::all_of(buffers, &Buffer::is_fixed) ? "given" : method;
    options.progress(best.peak, best.bound);
  };
  place("size", order_by_size, Fit::smallest);
  place("area", order_by_area, Fit::smallest);
  place("lifetime", order_by_lifetime, Fit::smallest);
  place("size, lowest gap", order_by_size, Fit::lowest);
  return best;
}

/// In the order of their requests.
Plan best_of_sorted(std::span<const Buffer> buffers, const Options& options) {
  Bytes least{~std::uint64_t{0}}, strictest = options.align;
  for (const Buffer& buffer : buffers) {
    least = std::min(least, std::max(buffer.align, options.align));
    strictest = std::max(strictest, buffer.align);
  }
  if (std::ranges::any_of(buffers, &Buffer::is_fixed)) return best_of_orders(buffers, options, std::nullopt);
  if (strictest == options.align) return best_of_canonical(buffers, options);
  Plan plan = best_of_aligned(buffers, options, strictest);
  return least == strictest ? plan : best_of_orders(buffers, options, std::move(plan));
}

}  // namespace

double Plan::over_load() const { return ratio(peak, load); }
double Plan::largest_share() const { return ratio(largest, load); }
double Plan::gap() const { return bound == 0_B ? 0 : ratio(peak - bound, bound); }

Plan plan_by_size(std::span<const Buffer> buffers, const Options& options) {
  const Problem problem = make_problem(buffers, options.align);
  Portfolio portfolio(problem, options);
  std::uint64_t effort = 0;
  portfolio.add("size", [&] { return place_in_order(problem, order_by_size(problem), Fit::smallest, effort); });
  return std::move(portfolio).take(problem.load);
}

Plan plan_best(std::span<const Buffer> buffers, const Options& options) {
  const std::vector<std::uint32_t> order = canonical_order(buffers);
  std::vector<Buffer> sorted;
  sorted.reserve(buffers.size());
  for (const std::uint32_t b : order) sorted.push_back(buffers[b]);
  Plan plan = best_of_sorted(sorted, options);
  std::vector<Bytes> offsets(plan.offsets.size());
  for (std::size_t i = 0; i < offsets.size(); ++i) offsets[order[i]] = plan.offsets[i];
  plan.offsets = std::move(offsets);
  return plan;
}

}  // namespace memreel::plan
