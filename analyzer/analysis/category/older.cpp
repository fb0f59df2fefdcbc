// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/category/classify.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "analyzer/analysis/category/observations.h"

namespace memreel {
namespace {

// How PyTorch's allocator sizes a segment for a request (c10/cuda/CUDACachingAllocator.h): kSmallSize, kSmallBuffer,
// kMinLargeAlloc, kLargeBuffer, kRoundLarge.
constexpr Bytes small_request = 1_MiB, small_segment = 2_MiB, least_own_segment = 10_MiB, shared_segment = 20_MiB,
                segment_rounding = 2_MiB;
/// CUDA reserves address space in units of this; a segment of more than the rest of a unit gets one of its own.
constexpr std::uint64_t address_unit = (32_MiB).count;
constexpr Bytes shares_unit = 12_MiB;
/// Linux maps from the top of the address space downwards, other systems far below this and upwards.
constexpr std::uint64_t mapped_from_top = 1ULL << 44U;

bool is_first_of_its_segment(Bytes request, Bytes segment) {
  if (request <= small_request) return segment == small_segment;
  if (request < least_own_segment) return segment == shared_segment;
  const std::uint64_t units = (request.count + segment_rounding.count - 1) / segment_rounding.count;
  return segment.count == units * segment_rounding.count;
}

/// The order in which allocations older than the recording were probably made.
class Ages {
 public:
  explicit Ages(const Trace& trace, const Observations& seen) {
    std::uint64_t last = 0;
    std::size_t up = 0, down = 0;
    for (std::size_t i = 0; i < trace.events.count(); ++i) {
      const EventKind kind = trace.events.kind(i);
      if (kind != EventKind::segment_alloc && kind != EventKind::segment_map) continue;
      const std::uint64_t address = trace.events.address(i).value;
      if (seen.activity.stacks[index(trace.events.stack(i))].preexisting) {
        segments_[address] = {trace.events.size(i), kind == EventKind::segment_map};
        continue;
      }
      const std::uint64_t unit = address / address_unit;
      if (last != 0 && unit > last) ++up;
      if (last != 0 && unit < last) ++down;
      last = unit;
    }
    downwards_ = segments_.empty() || (segments_.begin()->first >= mapped_from_top && (up < 8 || up < 2 * down));
  }

  void sort(std::vector<AllocationId>& ids, const Trace& trace) const {
    const auto age = [&](AllocationId id) {
      const std::uint32_t event = trace.events.begin_of(id);
      return key(trace.events.address(event).value, trace.events.size(event));
    };
    std::ranges::sort(ids, {}, age);
  }

 private:
  struct Segment {
    Bytes size;
    bool mapped = false;  // part of an expandable segment, which grows upwards
  };
  using Key = std::tuple<bool, bool, std::int64_t, std::uint64_t>;

  Key key(std::uint64_t address, Bytes size) const {
    const auto after = segments_.upper_bound(address);
    if (after == segments_.begin()) return {true, false, 0, address};
    const auto at = std::prev(after);
    if (at->second.mapped) return {false, false, 0, address};
    const auto unit = static_cast<std::int64_t>(address / address_unit);
    return {!is_first_of_its_segment(size, at->second.size), fills_a_gap(at), downwards_ ? -unit : unit, address};
  }

  /// Segments side by side that need a unit each lie in the place of something larger that was freed.
  bool fills_a_gap(std::map<std::uint64_t, Segment>::const_iterator at) const {
    const auto touches = [](const auto& low, const auto& high) {
      return low.second.size > shares_unit && high.second.size > shares_unit &&
             low.first + low.second.size.count == high.first;
    };
    const auto next = std::next(at);
    return downwards_ && ((at != segments_.begin() && touches(*std::prev(at), *at)) ||
                          (next != segments_.end() && touches(*at, *next)));
  }

  std::map<std::uint64_t, Segment> segments_;  // by address
  bool downwards_ = true;
};

/// Allocations that only differ by when they were made.
using Kind = std::pair<HeapId, std::uint64_t>;  // the second: bytes
using KindCounts = std::map<Kind, std::uint32_t>;

std::uint32_t count_of(const KindCounts& counts, Kind kind) {
  const auto found = counts.find(kind);
  return found == counts.end() ? 0 : found->second;
}

/// How many allocations older than the recording there are for each parameter.
struct Copies {
  std::uint32_t equal = 1;     // of the size of its gradient, itself included
  std::uint32_t other = 0;     // of another precision
  std::uint32_t multiply = 1;  // other precision: the size of the gradient times this
  std::uint32_t divide = 1;    // ... divided by this

  std::uint32_t expected(const KindCounts& gradients, Kind kind) const {
    std::uint32_t count = equal * count_of(gradients, kind);
    if (other != 0 && kind.second % multiply == 0)
      count += other * count_of(gradients, {kind.first, kind.second / multiply * divide});
    return count;
  }
};

struct Fit {
  Copies copies;
  std::uint64_t explained = 0;  // bytes of sizes whose number agrees
  std::uint64_t related = 0;    // bytes of sizes for which any number is expected
};

Fit fit_of(const KindCounts& gradients, const KindCounts& held) {
  // A single copy, Adam's, with gradients, with a moving average; master weights and state in 32 bit beside parameters
  // in 16; state in 8 bit beside parameters in 16, or 32.
  constexpr std::uint32_t most_equal = 6;
  constexpr std::array<Copies, 3> precisions{Copies{.other = 3, .multiply = 2}, Copies{.other = 2, .divide = 2},
                                             Copies{.other = 2, .divide = 4}};
  Fit best;
  const auto attempt = [&](const Copies& copies) {
    Fit fit{copies};
    for (const auto& [kind, count] : held) {
      const std::uint32_t expected = copies.expected(gradients, kind);
      if (expected != 0) fit.related += kind.second * count;
      if (expected == count) fit.explained += kind.second * count;
    }
    // Another precision has to explain more than sizes that agree by chance.
    const std::uint64_t by_chance = copies.other == 0 ? 0 : best.explained / 10;
    if (fit.explained > best.explained + by_chance) best = fit;
  };
  for (std::uint32_t equal = 1; equal <= most_equal; ++equal) attempt({.equal = equal});
  for (const Copies& precision : precisions)
    for (std::uint32_t equal = 1; equal <= 2; ++equal)
      for (std::uint32_t other = 1; other <= precision.other; ++other)
        attempt({equal, other, precision.multiply, precision.divide});
  return best;
}

class OlderBlocks {
 public:
  OlderBlocks(const Trace& trace, const Observations& seen, std::vector<Evidence>& evidence)
      : trace_(trace), has_history_(has_history(trace)), seen_(seen), evidence_(evidence) {
    for (std::uint32_t id = 0; id < evidence_.size(); ++id) {
      const Observation& of = seen_.allocations[id];
      if (!of.older || evidence_[id] != Evidence::none) continue;
      if (is_held(of) && (of.torch || is_of_torch(of)))
        held_.push_back(AllocationId{id});
      else if (of.torch)
        freed_.push_back(AllocationId{id});
    }
  }

  void conclude() {
    if (held_.empty() && freed_.empty()) return;
    if (seen_.trains()) count_gradients();
    conclude_freed();
    if (!gradients_.empty()) conclude_copies();
    conclude_workspaces();
    if (seen_.first_forward != never) conclude_throughout();
  }

 private:
  const Observation& observation(AllocationId id) const { return seen_.allocations[index(id)]; }
  Evidence& evidence(AllocationId id) { return evidence_[index(id)]; }
  Kind kind_of(const Observation& of) const {
    return {trace_.tables[trace_.events.origin(of.begin)].heap, of.size.count};
  }

  /// One instant may have no stacks at all, and compiled code shows no module.
  bool is_of_torch(const Observation& of) const {
    const Heap& heap = trace_.tables[trace_.tables[trace_.events.origin(of.begin)].heap];
    return heap.level == Level::framework && is_torch_name(trace_.tables[heap.name]);
  }

  /// Until the program ends what the recording shows: freed later only because the program ends.
  bool is_held(const Observation& of) const { return !of.is_freed() || of.end > seen_.last_work; }

  void conclude_workspaces() {
    KindCounts counts;
    for (const AllocationId id : held_)
      if (evidence(id) == Evidence::none) ++counts[kind_of(observation(id))];
    for (const AllocationId id : held_) {
      const Observation& of = observation(id);
      // One for each stream that used cuBLAS. Without a history or stacks nothing else speaks against a tensor of a
      // round size.
      const bool has_size = has_history_ && of.torch ? is_workspace_size(of.size) : of.size == odd_workspace;
      if (evidence(id) == Evidence::none && !of.is_freed() && has_size && counts[kind_of(of)] <= 2)
        evidence(id) = Evidence::workspace_size;
    }
  }

  /// The most allocations of each kind that backward passes made and that were live at the same time after them; where
  /// none outlive it, because they are added to older gradients, the most that one pass made.
  void count_gradients() {
    KindCounts made, live;
    std::map<std::pair<std::uint32_t, Kind>, std::uint32_t> of_pass;
    std::vector<std::tuple<std::uint32_t, bool, Kind>> changes;  // event, begins, kind
    for (const Observation& of : seen_.allocations) {
      if (of.begin == never || of.older || !of.torch || of.phase != Phase::backward) continue;
      const Kind kind = kind_of(of);
      made[kind] = std::max(made[kind], ++of_pass[{of.made_in, kind}]);
      if (!of.outlives_its_pass() && !of.freed_by_zero_grad) continue;
      changes.emplace_back(of.begin, true, kind);
      if (of.is_freed()) changes.emplace_back(of.end, false, kind);
    }
    std::ranges::sort(changes);
    KindCounts left;
    for (const auto& [event, begins, kind] : changes) {
      if (!begins) {
        --live[kind];
        continue;
      }
      left[kind] = std::max(left[kind], ++live[kind]);
    }
    KindCounts held;
    for (std::uint32_t id = 0; id < evidence_.size(); ++id)
      if (const Observation& of = seen_.allocations[id]; of.older && of.torch && is_held(of)) ++held[kind_of(of)];
    const std::uint64_t bytes =
        std::accumulate(held.begin(), held.end(), std::uint64_t{0},
                        [](auto sum, const auto& k) { return sum + k.first.second * k.second; });
    const Fit by_left = fit_of(left, held), by_made = fit_of(made, held);
    adds_to_older_ = by_made.copies.equal >= 2 && by_made.copies.other == 0 && 2 * by_made.explained > bytes &&
                     by_made.explained > by_left.explained + bytes / 4;
    gradients_ = std::move(adds_to_older_ ? made : left);
    fit_ = adds_to_older_ ? by_made : by_left;
    if (2 * fit_.explained < fit_.related) gradients_.clear();
  }

  /// What was freed while the recording ran: who freed it, and with what, tells what it was.
  void conclude_freed() {
    std::set<Kind> activations, remade;
    std::set<StackId> drops_inputs;
    for (std::uint32_t id = 0; id < evidence_.size(); ++id) {
      const Observation& of = seen_.allocations[id];
      if (of.begin == never || of.older) continue;
      if (of.phase == Phase::forward && (of.freed_by_backward || of.graph != Graph::none))
        activations.insert(kind_of(of));
      if (evidence_[id] == Evidence::optimizer_keeps) remade.insert(kind_of(of));
      if (category_of(evidence_[id]) == Category::input && of.is_freed())
        drops_inputs.insert(trace_.events.stack(of.end));
    }
    const auto is_gradient = [&](AllocationId id) { return gradients_.contains(kind_of(observation(id))); };
    for (const AllocationId id : freed_) {
      const Observation& of = observation(id);
      const StackMeaning& free = seen_.activity.stacks[index(trace_.events.stack(of.end))];
      if (of.freed_by_zero_grad)
        evidence(id) = Evidence::gradient_before_recording;
      else if (remade.contains(kind_of(of)) && free.purpose == Purpose::optimizer)
        evidence(id) = Evidence::state_before_recording;
      else if (is_gradient(id) && !(of.freed_by_backward && activations.contains(kind_of(of))))
        evidence(id) = Evidence::gradient_before_recording;
      else if (of.freed_by_backward)
        evidence(id) = Evidence::graph_before_recording;
      else if (const StackId stack = trace_.events.stack(of.end);
               stack != StackId::none && drops_inputs.contains(stack) && !activations.contains(kind_of(of)))
        evidence(id) = Evidence::input_before_recording;
    }
    for (const std::vector<AllocationId>& release : seen_.older_releases) {
      Bytes all, alike;
      for (const AllocationId id : release) {
        all += observation(id).size;
        if (activations.contains(kind_of(observation(id)))) alike += observation(id).size;
      }
      if (alike + alike < all) continue;
      for (const AllocationId id : release)
        if (evidence(id) == Evidence::none) evidence(id) = Evidence::graph_before_recording;
    }
  }

  /// The first copies are the parameters. Gradients that the recording adds to came with the first backward pass;
  /// moving averages and master weights before the first step; no optimizer keeps more than two of each.
  void conclude_copies() {
    const bool makes_state = std::ranges::find(evidence_, Evidence::optimizer_keeps) != evidence_.end();
    constexpr std::uint32_t most_state = 2;
    std::map<Kind, std::array<std::uint32_t, category_count>> known;
    for (std::uint32_t id = 0; id < evidence_.size(); ++id) {
      const Observation& of = seen_.allocations[id];
      if (of.begin != never && of.torch && evidence_[id] != Evidence::none)
        ++known[kind_of(of)][static_cast<std::size_t>(category_of(evidence_[id]))];
    }
    std::map<Kind, std::vector<AllocationId>> by_kind;
    for (const AllocationId id : held_)
      if (evidence(id) == Evidence::none) by_kind[kind_of(observation(id))].push_back(id);
    const Ages ages(trace_, seen_);
    const Copies& copies = fit_.copies;
    const std::uint32_t gradients = adds_to_older_ && copies.equal >= 2 ? 1 : 0;
    const std::uint32_t equal = copies.equal - 1 - gradients;
    const std::uint32_t state = makes_state ? 0 : std::min(equal, most_state);
    const std::uint32_t other_state = makes_state ? 0 : std::min(copies.other, most_state);
    for (auto& [kind, ids] : by_kind) {
      ages.sort(ids, trace_);
      const std::uint32_t parameters = count_of(gradients_, kind);
      const std::uint32_t others =
          copies.other == 0 ? 0 : count_of(gradients_, {kind.first, kind.second / copies.multiply * copies.divide});
      const std::array<std::pair<Evidence, std::uint32_t>, 4> roles{
          std::pair{Evidence::parameter_before_recording, parameters},
          std::pair{Evidence::copy_before_recording,
                    (equal - state) * parameters + (copies.other - other_state) * others},
          std::pair{Evidence::gradient_before_recording, gradients * parameters},
          std::pair{Evidence::state_before_recording, state * parameters + other_state * others}};
      auto next = ids.begin();
      for (const auto& [role, count] : roles) {
        const std::uint32_t have = known[kind][static_cast<std::size_t>(category_of(role))];
        for (std::uint32_t i = have; i < count && next != ids.end(); ++i) evidence(*next++) = role;
      }
    }
  }

  /// What no backward pass explains and nothing frees: the weights of a model that is only called, or frozen. Their
  /// sizes repeat from layer to layer. A single size that repeats, or one block larger than all that repeat, may as
  /// well be a cache.
  void conclude_throughout() {
    std::map<Kind, std::vector<AllocationId>> by_kind;
    for (const AllocationId id : held_)
      if (evidence(id) == Evidence::none && seen_.meaning(observation(id)).phase == Phase::other)
        by_kind[kind_of(observation(id))].push_back(id);
    constexpr std::size_t repeats = 3;
    std::uint64_t repeated = 0;
    std::uint32_t sizes = 0;
    for (const auto& [kind, ids] : by_kind) {
      if (ids.size() < repeats) continue;
      repeated += kind.second * ids.size();
      ++sizes;
    }
    if (sizes < 2) return;
    const std::size_t copies = seen_.trains() ? 1 : copies_of_all(by_kind, repeated);
    const Ages ages(trace_, seen_);
    for (auto& [kind, ids] : by_kind) {
      if (kind.second > repeated) continue;
      ages.sort(ids, trace_);
      const std::size_t each = std::max<std::size_t>(1, ids.size() / copies);
      for (std::size_t i = 0; i < ids.size(); ++i) evidence(ids[i]) = of_copy(i / each, copies);
    }
  }

  /// A recording that begins after training holds every parameter several times: then so does each size.
  static std::size_t copies_of_all(const std::map<Kind, std::vector<AllocationId>>& by_kind, std::uint64_t repeated) {
    std::size_t divisor = 0;
    for (const auto& [kind, ids] : by_kind)
      if (ids.size() >= 8 || kind.second * ids.size() * 100 >= repeated) divisor = std::gcd(divisor, ids.size());
    return divisor == 3 || divisor == 4 ? divisor : 1;  // an embedding and a head of its size are two as well
  }

  static Evidence of_copy(std::size_t copy, std::size_t copies) {
    if (copy == 0 || copies == 1) return Evidence::held_throughout;
    return copies == 4 && copy == 1 ? Evidence::gradient_before_recording : Evidence::state_before_recording;
  }

  const Trace& trace_;
  bool has_history_;
  const Observations& seen_;
  std::vector<Evidence>& evidence_;  // by AllocationId
  std::vector<AllocationId> held_, freed_;
  KindCounts gradients_;  // the number of parameters of each kind
  Fit fit_;
  bool adds_to_older_ = false;  // backward passes leave nothing: they add to gradients older than the recording
};

}  // namespace

void conclude_older(const Trace& trace, const Observations& seen, std::vector<Evidence>& evidence) {
  OlderBlocks(trace, seen, evidence).conclude();
}

}  // namespace memreel
