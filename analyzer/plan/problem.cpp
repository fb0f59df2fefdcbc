#include "analyzer/plan/problem.h"

#include <algorithm>

namespace memreel::plan {
namespace {

struct Change {
  std::uint64_t time = 0;
  std::uint32_t buffer = 0;
  bool begins = false;

  /// What ends at an instant makes room for what begins there.
  friend bool operator<(const Change& a, const Change& b) {
    if (a.time != b.time) return a.time < b.time;
    return a.begins != b.begins ? !a.begins : a.buffer < b.buffer;
  }
};

std::vector<Change> changes(std::span<const Buffer> buffers) {
  std::vector<Change> list;
  list.reserve(2 * buffers.size());
  for (std::uint32_t b = 0; b < buffers.size(); ++b) {
    list.push_back({.time = buffers[b].lower, .buffer = b, .begins = true});
    list.push_back({.time = std::max(buffers[b].upper, buffers[b].lower + 1), .buffer = b});
  }
  std::ranges::sort(list, std::less{});
  return list;
}

}  // namespace

Problem make_problem(std::span<const Buffer> buffers, Bytes align) {
  Problem problem;
  problem.lifetimes.resize(buffers.size());
  problem.sizes.reserve(buffers.size());
  for (const Buffer& buffer : buffers) {
    problem.sizes.push_back(round_up(std::max(buffer.size, 1_B), align));
    problem.largest = std::max(problem.largest, problem.sizes.back());
  }
  Bytes live;
  bool freed = false;
  std::uint32_t section = 0;
  for (const Change& change : changes(buffers)) {
    Lifetime& lifetime = problem.lifetimes[change.buffer];
    if (change.begins) {
      if (freed) ++section;
      freed = false;
      lifetime.first = section;
      live += problem.sizes[change.buffer];
      problem.load = std::max(problem.load, live);
    } else {
      freed = true;
      lifetime.last = section;
      live -= problem.sizes[change.buffer];
    }
  }
  problem.section_count = buffers.empty() ? 0 : section + 1;
  return problem;
}

}  // namespace memreel::plan
