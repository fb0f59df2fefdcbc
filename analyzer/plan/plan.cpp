#include "analyzer/plan/plan.h"

#include <algorithm>
#include <utility>

#include "analyzer/plan/greedy.h"
#include "analyzer/plan/improve.h"
#include "analyzer/plan/online.h"
#include "analyzer/plan/search.h"

namespace memreel::plan {
namespace {

/// The best placement so far, and its method.
class Portfolio {
 public:
  explicit Portfolio(const Problem& problem) : problem_(problem) {}

  bool done() const { return !method_.empty() && best_.peak == problem_.load; }

  /// Tries `place` unless the current placement can't be beaten.
  template <class Place>
  void add(std::string_view method, const Place& place) {
    if (done()) return;
    Placement placement = place();
    if (!method_.empty() && placement.peak >= best_.peak) return;
    best_ = std::move(placement);
    method_ = method;
  }

  const Placement& best() const { return best_; }

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
  Placement best_;
  std::string_view method_;
};

double ratio(Bytes a, Bytes b) {
  return b.count == 0 ? 0 : static_cast<double>(a.count) / static_cast<double>(b.count);
}

/// The number of gap-index runs after which the portfolio starts no further greedy order: about half a second.
constexpr std::uint64_t most_greedy_effort = 100'000'000;

}  // namespace

double Plan::over_load() const { return ratio(peak, load); }
double Plan::largest_share() const { return ratio(largest, load); }

Plan plan_by_size(std::span<const Buffer> buffers, const Options& options) {
  const Problem problem = make_problem(buffers, options.align);
  Portfolio portfolio(problem);
  std::uint64_t effort = 0;
  portfolio.add("size", [&] { return place_in_order(problem, order_by_size(problem), Fit::smallest, effort); });
  return std::move(portfolio).take(problem.load);
}

Plan plan_best(std::span<const Buffer> buffers, const Options& options) {
  const Problem problem = make_problem(buffers, options.align);
  Portfolio portfolio(problem);
  const auto online = [&](std::string_view method, Fit fit, Direction direction) {
    portfolio.add(method, [&] { return place_online(problem, buffers, fit, direction); });
  };
  online("best fit", Fit::smallest, Direction::forwards);
  online("first fit", Fit::lowest, Direction::forwards);
  online("best fit backwards", Fit::smallest, Direction::backwards);
  online("first fit backwards", Fit::lowest, Direction::backwards);

  std::uint64_t effort = 0;
  const auto greedy = [&](std::string_view method, Order (*order)(const Problem&), Fit fit) {
    if (effort >= most_greedy_effort) return;
    portfolio.add(method, [&] { return place_in_order(problem, order(problem), fit, effort); });
  };
  greedy("size", order_by_size, Fit::smallest);
  greedy("area", order_by_area, Fit::smallest);
  greedy("lifetime", order_by_lifetime, Fit::smallest);
  greedy("size, lowest gap", order_by_size, Fit::lowest);
  if (effort < most_greedy_effort)
    portfolio.add("size, highest raised",
                  [&] { return raise_the_highest(problem, order_by_size(problem), most_greedy_effort, effort); });

  Bytes bound = problem.load;
  portfolio.add("search", [&] {
    Placement placement = portfolio.best();
    bound = search_below(problem, placement, options.search_effort / std::max(problem.count(), 1U));
    return placement;
  });
  return std::move(portfolio).take(bound);
}

}  // namespace memreel::plan
