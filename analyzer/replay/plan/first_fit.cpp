// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>

#include "analyzer/replay/plan/first_fit.h"
#include "analyzer/replay/policies/fit.h"

namespace memreel::plan {
namespace {

using Run = GapIndex::Run;

constexpr Bytes last_end{std::numeric_limits<std::uint64_t>::max()};

/// The number of blocks in a group.
constexpr std::uint32_t group_size = 128;

/// Maps sections to blocks.
std::vector<std::uint32_t> cut_into_blocks(const Problem& problem, std::uint32_t most_edges) {
  std::vector<std::uint32_t> edges(problem.section_count);
  for (const Lifetime& lifetime : problem.lifetimes) {
    ++edges[lifetime.first];
    ++edges[lifetime.last];
  }
  std::vector<std::uint32_t> block_of(problem.section_count);
  std::uint32_t block = 0, in_block = 0;
  for (std::uint32_t s = 0; s < problem.section_count; ++s) {
    if (in_block > 0 && in_block + edges[s] > most_edges) {
      ++block;
      in_block = 0;
    }
    block_of[s] = block;
    in_block += edges[s];
  }
  return block_of;
}

/// Walks gaps and runs in parallel and keeps the parts of gaps that no run takes and that are wide enough. Which of the
/// two comes next is nearly random, so no branch depends on it.
class Cut {
 public:
  Cut(std::span<const Run> gaps, std::span<const Run> runs, Bytes size, Run* out)
      : gap_(gaps.data()),
        gaps_end_(gap_ + gaps.size()),
        run_(runs.data()),
        runs_end_(run_ + runs.size()),
        size_(size),
        out_(out) {
    if (!gaps.empty())
      run_ = std::partition_point(run_, runs_end_, [&](const Run& run) { return run.end <= gap_->begin; });
  }

  bool is_done() const { return gap_ == gaps_end_ || run_ == runs_end_; }

  void step() {
    const Run gap = *gap_, run = *run_;
    const Bytes begin = std::max(gap.begin, taken_to_), end = std::min(gap.end, run.begin);
    *out_ = {begin, end};
    out_ += static_cast<int>(end >= begin + size_);
    const bool gap_ends_first = gap.end <= run.end;
    taken_to_ = gap_ends_first ? taken_to_ : run.end;
    gap_ += static_cast<int>(gap_ends_first);
    run_ += static_cast<int>(!gap_ends_first);
  }

  /// Processes the rest. Returns the end of what is left.
  Run* finish() {
    while (!is_done()) step();
    for (; gap_ != gaps_end_; ++gap_) {
      const Bytes begin = std::max(gap_->begin, taken_to_);
      *out_ = {begin, gap_->end};
      out_ += static_cast<int>(gap_->end > begin && gap_->end - begin >= size_);
    }
    return out_;
  }

 private:
  const Run *gap_, *gaps_end_, *run_, *runs_end_;
  Bytes size_;
  Run* out_;
  Bytes taken_to_;  // by the previous run
};

}  // namespace

GapIndex::GapIndex(const Problem& problem, std::uint32_t most_edges) : block_of_(cut_into_blocks(problem, most_edges)) {
  for (std::uint32_t s = 0; s < problem.section_count; ++s) {
    const bool is_new = block_of_[s] == blocks_.size();
    if (is_new) blocks_.emplace_back();
    blocks_.back().is_one_section = is_new;
  }
  groups_.resize(blocks_.size() / group_size + 1);
  leaves_ = std::bit_ceil(static_cast<std::uint32_t>(blocks_.size()));
  arrivals_.resize(2 * std::size_t{leaves_});
}

Bytes GapIndex::find(Lifetime lifetime, Bytes size, Fit fit) {
  lists_.clear();
  const std::uint32_t first = block_of_[lifetime.first], last = block_of_[lifetime.last];
  collect(blocks_[first].through);
  collect(groups_[first / group_size]);
  collect_partial(blocks_[first], lifetime, first_partial_);
  if (last != first) collect_partial(blocks_[last], lifetime, last_partial_);
  // From both ends towards the root: a right child at the left end, or a left child at the right end.
  for (std::uint32_t left = leaves_ + first + 1, right = leaves_ + last; left < right; left /= 2, right /= 2) {
    if ((left & 1U) != 0) collect(arrivals_[left++]);
    if ((right & 1U) != 0) collect(arrivals_[--right]);
  }
  // The fullest first, so that few candidates are left for the others.
  std::ranges::sort(lists_, std::greater{}, [](const Runs* runs) { return runs->sum; });
  gaps_between(lists_.empty() ? std::span<const Run>{} : lists_.front()->list, size);
  for (std::size_t i = 1; i < lists_.size(); ++i) cut_out(*lists_[i], size);
  if (fit == Fit::lowest) return gaps_.front().begin;
  const auto width = [](const Run& gap) { return gap.end - gap.begin; };
  // The last one is the room above everything.
  const auto chosen =
      std::ranges::min_element(gaps_.begin(), gaps_.end() - (gaps_.size() > 1 ? 1 : 0), std::less{}, width);
  return chosen->begin;
}

void GapIndex::collect(const Runs& runs) {
  if (!runs.list.empty()) lists_.push_back(&runs);
}

/// Collects what arrives or departs in the block and overlaps the lifetime. `merged` is scratch space.
void GapIndex::collect_partial(const Block& block, Lifetime lifetime, Runs& merged) {
  if (block.is_one_section) return collect(block.edges);
  effort_ += block.partial.size() / 4;
  // About every other piece overlaps, which is unpredictable, so no branch depends on it. The first run may be empty.
  merged.list.resize(block.partial.size() + 1);
  Run run;
  Run* out = merged.list.data();
  *out = run;
  for (const Piece& piece : block.partial) {
    const bool shares = piece.lifetime.overlaps(lifetime), touches = piece.run.begin <= run.end;
    run.begin = shares && !touches ? piece.run.begin : run.begin;
    run.end = shares ? std::max(run.end, piece.run.end) : run.end;
    out += static_cast<int>(shares && !touches);
    *out = run;
  }
  merged.list.resize(static_cast<std::size_t>(out - merged.list.data()) + 1);
  merged.sum = {};
  for (const Run& each : merged.list) merged.sum += each.end - each.begin;
  collect(merged);
}

/// Makes the wide enough gaps between runs the candidates.
void GapIndex::gaps_between(std::span<const Run> runs, Bytes size) {
  effort_ += runs.size();
  gaps_.resize(runs.size() + 1);
  Run* out = gaps_.data();
  Bytes taken_to;
  for (const Run& run : runs) {
    *out = {taken_to, run.begin};
    out += static_cast<int>(run.begin >= taken_to + size);
    taken_to = run.end;
  }
  *out++ = {taken_to, last_end};
  gaps_.resize(static_cast<std::size_t>(out - gaps_.data()));
}

/// Keeps the parts of the candidates that are not in `taken` and are wide enough.
void GapIndex::cut_out(const Runs& taken, Bytes size) {
  const std::span<const Run> gaps = gaps_, runs = taken.list;
  effort_ += gaps.size() + std::min(runs.size(), 16 * gaps.size());
  narrower_.resize(std::max(narrower_.size(), gaps.size() + 2 * runs.size() + 2));
  Run* end = narrower_.data();
  if (runs.size() > 16 * gaps.size()) {
    for (std::size_t i = 0; i < gaps.size(); ++i) end = Cut(gaps.subspan(i, 1), runs, size, end).finish();
    gaps_.assign(narrower_.data(), end);
    return;
  }
  // Each step depends on the previous one. Processing two halves in parallel halves the wait.
  const std::size_t half = gaps.size() / 2;
  Run* const upper_begin = narrower_.data() + half + runs.size() + 1;
  Cut lower(gaps.first(half), runs, size, narrower_.data()), upper(gaps.subspan(half), runs, size, upper_begin);
  while (!lower.is_done() && !upper.is_done()) {
    lower.step();
    upper.step();
  }
  end = std::copy(upper_begin, upper.finish(), lower.finish());
  gaps_.assign(narrower_.data(), end);
}

void GapIndex::take(Lifetime lifetime, Bytes offset, Bytes size, Bytes least) {
  const Run run{offset, offset + size};
  const std::uint32_t first = block_of_[lifetime.first], last = block_of_[lifetime.last];
  add_partial(first, lifetime, run, least);
  if (last != first) add_partial(last, lifetime, run, least);
  for (std::uint32_t node = leaves_ + first; node > 0; node /= 2) add(arrivals_[node], run, least);
  std::uint32_t begin = first + 1, end = std::max(last, begin);  // the blocks between
  while (begin < end && begin % group_size != 0) add(blocks_[begin++].through, run, least);
  while (begin < end && end % group_size != 0) add(blocks_[--end].through, run, least);
  for (; begin < end; begin += group_size) add(groups_[begin / group_size], run, least);
}

void GapIndex::add_partial(std::uint32_t block, Lifetime lifetime, Run run, Bytes least) {
  if (blocks_[block].is_one_section) return add(blocks_[block].edges, run, least);
  std::vector<Piece>& pieces = blocks_[block].partial;
  const auto begin = [](const Piece& piece) { return piece.run.begin; };
  pieces.insert(std::ranges::upper_bound(pieces, run.begin, std::less{}, begin), {run, lifetime});
}

/// Adds `run` and closes the gaps below `least` next to it.
void GapIndex::add(Runs& runs, Run run, Bytes least) {
  const auto near = [&](Bytes end, Bytes begin) { return end >= begin || begin - end < least; };
  std::vector<Run>& list = runs.list;
  const auto first =
      std::partition_point(list.begin(), list.end(), [&](const Run& r) { return !near(r.end, run.begin); });
  if (first == list.end() || !near(run.end, first->begin)) {
    list.insert(first, run);
    runs.sum += run.end - run.begin;
    return;
  }
  auto last = first + 1;
  while (last != list.end() && near(run.end, last->begin)) ++last;
  for (auto merged = first; merged != last; ++merged) runs.sum -= merged->end - merged->begin;
  first->begin = std::min(first->begin, run.begin);
  first->end = std::max(run.end, (last - 1)->end);
  runs.sum += first->end - first->begin;
  list.erase(first + 1, last);
}

namespace {

/// Ascending by `key` of a row, ties by row.
template <class Key>
Order ordered_by(const Problem& problem, const Key& key) {
  Order order(problem.count());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, std::less{}, key);
  return order;
}

constexpr std::uint64_t descending(std::uint64_t value) { return ~value; }

}  // namespace

Order order_by_size(const Problem& problem) {
  return ordered_by(problem, [&](std::uint32_t b) {
    const Lifetime& lifetime = problem.lifetimes[b];
    return std::tuple{descending(problem.sizes[b].count), descending(lifetime.length()), lifetime.first};
  });
}

Order order_by_area(const Problem& problem) {
  return ordered_by(problem, [&](std::uint32_t b) {
    const Lifetime& lifetime = problem.lifetimes[b];
    const auto area = static_cast<double>(problem.sizes[b].count) * lifetime.length();
    return std::tuple{-area, lifetime.first};
  });
}

Order order_by_lifetime(const Problem& problem) {
  return ordered_by(problem, [&](std::uint32_t b) {
    const Lifetime& lifetime = problem.lifetimes[b];
    return std::tuple{descending(lifetime.length()), descending(problem.sizes[b].count), lifetime.first};
  });
}

Placement place_in_order(const Problem& problem, std::span<const std::uint32_t> order, Fit fit, std::uint64_t& effort,
                         std::span<const Buffer> buffers) {
  std::vector<Bytes> least(order.size() + 1, Bytes{~std::uint64_t{0}});  // of the sizes from here on
  for (std::size_t i = order.size(); i-- > 0;) least[i] = std::min(least[i + 1], problem.sizes[order[i]]);
  Placement placement{.offsets = std::vector<Bytes>(problem.count()), .peak = {}};
  GapIndex index(problem);
  const auto take = [&](std::uint32_t b, Bytes offset, Bytes least_later) {
    index.take(problem.lifetimes[b], offset, problem.sizes[b], least_later);
    placement.offsets[b] = offset;
    placement.peak = std::max(placement.peak, offset + problem.sizes[b]);
  };
  for (std::uint32_t b = 0; b < buffers.size(); ++b)
    if (buffers[b].is_fixed()) take(b, *buffers[b].offset, least.front());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint32_t b = order[i];
    const Bytes align = buffers.empty() ? 1_B : buffers[b].align;
    if (!buffers.empty() && buffers[b].is_fixed()) continue;
    // A gap that is this much larger fits wherever it begins.
    const Bytes offset = index.find(problem.lifetimes[b], problem.sizes[b] + (align - 1_B), fit);
    take(b, round_up(offset, align), least[i + 1]);
  }
  effort += index.effort() + order.size();
  return placement;
}

namespace {

/// The buffers ordered by one of their two ends.
template <class Key>
std::vector<std::uint32_t> ordered_by(std::uint32_t count, const Key& key) {
  std::vector<std::uint32_t> order(count);
  for (std::uint32_t b = 0; b < count; ++b) order[b] = b;
  std::ranges::stable_sort(order, std::less{}, key);
  return order;
}

constexpr Bytes least_unit = 256_B;  // required by the policies

/// The factor that makes every size a multiple of it; 1 unless offsets are aligned more finely than in any allocator.
std::uint64_t scale_of(const Problem& problem) {
  std::uint64_t common = least_unit.count;
  for (const Bytes size : problem.sizes) common = std::gcd(common, size.count);
  return least_unit.count / common;
}

template <class Policy>
Placement place_with(const Problem& problem, std::span<const Buffer> buffers, Direction direction) {
  const bool forwards = direction == Direction::forwards;
  const auto begin = [&](std::uint32_t b) { return forwards ? buffers[b].lower : ~buffers[b].upper; };
  const auto end = [&](std::uint32_t b) { return forwards ? buffers[b].upper : ~buffers[b].lower; };
  const std::vector<std::uint32_t> begins = ordered_by(problem.count(), begin), ends = ordered_by(problem.count(), end);

  Prepared heap;
  heap.slot_count = problem.count();
  SimulatedDevice device({}, {});
  Policy policy(heap, GrowingRangeSettings{.align = least_unit, .page = least_unit}, device);
  const std::uint64_t scale = scale_of(problem);
  Placement placement{.offsets = std::vector<Bytes>(problem.count()), .peak = {}};
  std::size_t ended = 0;
  for (const std::uint32_t b : begins) {
    for (; end(ends[ended]) <= begin(b); ++ended) policy.free(ends[ended], {});
    if (!policy.allocate(b, problem.sizes[b] * scale, 0)) return {.offsets = {}, .peak = Bytes{~std::uint64_t{0}}};
    placement.offsets[b] = {policy.extent_of(b).address.value / scale};
    placement.peak = std::max(placement.peak, placement.offsets[b] + problem.sizes[b]);
  }
  return placement;
}

}  // namespace

Placement place_online(const Problem& problem, std::span<const Buffer> buffers, Fit fit, Direction direction) {
  return fit == Fit::smallest ? place_with<FitBest>(problem, buffers, direction)
                              : place_with<FitFirst>(problem, buffers, direction);
}

}  // namespace memreel::plan
