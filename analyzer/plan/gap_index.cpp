#include "analyzer/plan/gap_index.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace memreel::plan {
namespace {

constexpr Bytes no_end{std::numeric_limits<std::uint64_t>::max()};

}  // namespace

GapIndex::GapIndex(std::uint32_t section_count)
    : leaves_(std::bit_ceil(std::max(section_count, 1U))), nodes_(2 * std::size_t{leaves_}) {}

template <class Within, class Above>
void GapIndex::visit(Lifetime lifetime, const Within& within, const Above& above) {
  // From both ends towards the root: a right child at the left end, or a left child at the right end, is one of those
  // that make up the lifetime. Every parent of these is above.
  std::uint32_t left = lifetime.first + leaves_, right = lifetime.last + leaves_ + 1;
  const std::uint32_t first = left, last = right - 1;
  for (; left < right; left /= 2, right /= 2) {
    if ((left & 1U) != 0) within(nodes_[left++]);
    if ((right & 1U) != 0) within(nodes_[--right]);
  }
  for (std::uint32_t a = first / 2, b = last / 2, width = 2; a > 0; a /= 2, b /= 2, width *= 2) {
    const auto is_within = [&](std::uint32_t node) {
      const std::uint32_t begin = node * width - leaves_;
      return begin >= lifetime.first && begin + width - 1 <= lifetime.last;
    };
    if (!is_within(a)) above(nodes_[a]);
    if (b != a && !is_within(b)) above(nodes_[b]);
  }
}

Bytes GapIndex::find(Lifetime lifetime, Bytes size, Fit fit) {
  lists_.clear();
  const auto collect = [&](const Runs& runs) {
    if (!runs.list.empty()) lists_.push_back(&runs);
  };
  visit(
      lifetime, [&](const Node& node) { collect(node.touched); }, [&](const Node& node) { collect(node.covered); });
  // The fullest first: little is left of the candidates when the others are looked at.
  std::ranges::sort(lists_, std::greater{}, [](const Runs* runs) { return runs->sum; });
  gaps_.assign(1, {Bytes{}, no_end});
  for (const Runs* taken : lists_) cut_out(*taken, size);
  if (fit == Fit::lowest) return gaps_.front().begin;
  const auto width = [](const Run& gap) { return gap.end - gap.begin; };
  // The last one is the room above everything.
  const auto chosen =
      std::ranges::min_element(gaps_.begin(), gaps_.end() - (gaps_.size() > 1 ? 1 : 0), std::less{}, width);
  return chosen->begin;
}

/// Leaves of the candidates what is not in `taken` and wide enough.
void GapIndex::cut_out(const Runs& taken, Bytes size) {
  narrower_.resize(std::max(narrower_.size(), gaps_.size() + taken.list.size()));
  effort_ += gaps_.size() + std::min(taken.list.size(), 16 * gaps_.size());
  Run* out = narrower_.data();
  const Run* run = taken.list.data();
  const Run* const end = run + taken.list.size();
  const bool few_gaps = taken.list.size() > 16 * gaps_.size();
  for (const Run& gap : gaps_) {
    Bytes begin = gap.begin;
    if (few_gaps)
      run = std::partition_point(run, end, [&](const Run& r) { return r.end <= begin; });
    else
      while (run != end && run->end <= begin) ++run;
    for (; run != end && run->begin < gap.end; ++run) {
      *out = {begin, run->begin};
      out += static_cast<int>(run->begin > begin && run->begin - begin >= size);
      begin = run->end;
      if (begin >= gap.end) break;  // it may reach into the next gap
    }
    if (begin < gap.end && gap.end - begin >= size) *out++ = {begin, gap.end};
  }
  gaps_.assign(narrower_.data(), out);
}

void GapIndex::take(Lifetime lifetime, Bytes offset, Bytes size, Bytes least) {
  const Run run{offset, offset + size};
  visit(
      lifetime,
      [&](Node& node) {
        add(node.touched, run, least);
        add(node.covered, run, least);
      },
      [&](Node& node) { add(node.touched, run, least); });
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

}  // namespace memreel::plan
