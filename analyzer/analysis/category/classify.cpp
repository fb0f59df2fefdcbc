// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/category/classify.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <tuple>

namespace memreel {
namespace {

/// A call's arguments and results live through at most this many calls: they are held until the next ones replace them.
constexpr std::uint32_t calls_of_passing = 2;

/// The evidence, or nothing while it depends on the categories of other allocations.
using Conclusion = std::optional<Evidence>;

class Classifier {
 public:
  Classifier(const Trace& trace, std::span<const Lifetime> lives, const Activity& activity)
      : trace_(trace), seen_(observe(trace, lives, activity)), evidence_(seen_.allocations.size(), Evidence::none) {}

  Categories classify(const std::function<bool()>& cancelled) && {
    const auto given_up = [&] { return cancelled && cancelled(); };
    split_lines();
    count_calls();
    count_fates();
    for (std::uint32_t id = 0; id < evidence_.size(); ++id) {
      if (id % (1U << 20U) == 0 && given_up()) return {};
      const Conclusion direct = conclude_alone(seen_.allocations[id]);
      if (direct)
        evidence_[id] = *direct;
      else
        open_.push_back(AllocationId{id});
    }
    conclude_older(trace_, seen_, evidence_);
    conclude_rebound(trace_, seen_, evidence_);
    count_sizes();
    count_alike();
    if (given_up()) return {};
    if (seen_.trains())
      conclude_training();
    else
      conclude_serving();
    if (given_up()) return {};
    conclude_like_others();
    conclude_private_pools();
    conclude_autocast(trace_, seen_, evidence_);
    Categories categories{.evidence = std::move(evidence_), .phase = {}, .activity = {}, .calls = {}};
    categories.phase.reserve(seen_.allocations.size());
    for (const Observation& of : seen_.allocations) categories.phase.push_back(of.phase);
    categories.calls = find_layer_calls(trace_, seen_.activity);
    return categories;
  }

 private:
  const Observation& observation(AllocationId id) const { return seen_.allocations[index(id)]; }
  const StackMeaning& meaning(AllocationId id) const { return seen_.meaning(observation(id)); }
  Evidence& evidence(AllocationId id) { return evidence_[index(id)]; }

  /// Parameters and buffers differ only by the line within one function. Lines move between releases, but their order
  /// does not: nn.Module._apply handles parameters, their gradients, buffers; a batch norm makes weight, bias, and
  /// three statistics; a buffer of Megatron's has parameters, if its optimizer is distributed, and gradients.
  void split_lines() {
    std::set<std::uint32_t> moves, norms;
    std::map<std::uint32_t, std::uint32_t> buffers;
    for (const Observation& of : seen_.allocations) {
      const StackMeaning& stack = seen_.meaning(of);
      if (stack.purpose == Purpose::move_module) moves.insert(stack.line);
      if (stack.purpose == Purpose::norm) norms.insert(stack.line);
      if (stack.purpose == Purpose::gradient_buffer) ++buffers[stack.line];
    }
    if (buffers.size() == 2 && buffers.begin()->second == buffers.rbegin()->second)
      parameter_buffer_line_ = buffers.begin()->first;
    if (moves.size() >= 2) first_buffer_line_ = *moves.rbegin();
    if (moves.size() >= 3) gradient_line_ = *std::next(moves.begin());
    if (norms.size() >= 3) first_statistics_line_ = *std::prev(norms.end(), 3);
  }

  Evidence of_moved(const StackMeaning& stack) const {
    if (stack.line >= first_buffer_line_) return Evidence::module_buffer;
    return stack.line == gradient_line_ ? Evidence::gradient_of_parameter : Evidence::module_parameter;
  }

  /// By stack, what becomes of the memory that the program allocates between calls and holds while it calls a model.
  void count_fates() {
    fates_.assign(seen_.activity.stacks.size(), {});
    for (const Observation& of : seen_.allocations) {
      if (of.begin == never || !of.meets_forward || of.phase != Phase::other) continue;
      Fate& fate = fates_[index(of.stack)];
      fate.only_grows = fate.only_grows && of.size > fate.last;
      fate.last = of.size;
      ++fate.made;
      if (of.is_freed()) continue;
      ++fate.kept;
      if (fate.kept_in_call != calls_before_[of.begin]) ++fate.calls;
      fate.kept_in_call = calls_before_[of.begin];
    }
  }

  /// Whether the program keeps what it allocates there, as a list that grows does, or a tensor that is replaced by a
  /// larger one: that is no input, which the next one replaces.
  bool accumulates(StackId stack) const {
    const Fate& fate = fates_[index(stack)];
    return (fate.calls > calls_of_passing && 2 * fate.kept > fate.made) || (fate.only_grows && fate.made >= 8);
  }

  /// Concludes from the allocation's own frames, phases and lifetime.
  Conclusion conclude_alone(const Observation& of) const {
    if (of.begin == never) return Evidence::none;
    if (const Evidence by_profiler = of_profiler(of); by_profiler != Evidence::none) return by_profiler;
    const StackMeaning& stack = seen_.meaning(of);
    if (stack.purpose == Purpose::move_module) return of_moved(stack);
    if (!of.torch) return outside_of_torch(stack);
    if (const Conclusion by_purpose = conclude_by_purpose(of, stack)) return by_purpose;
    if (of.older) return Evidence::none;  // conclude_older()
    if (stack.purpose != Purpose::none && stack.purpose != Purpose::compute) return std::nullopt;
    switch (of.phase) {
      case Phase::forward:
        return conclude_forward(of);
      case Phase::backward:
        return conclude_backward(of, stack);
      case Phase::optimizer:
        return of.outlives_its_pass() ? Conclusion{} : Evidence::freed_in_pass;
      case Phase::other:
        break;
    }
    return conclude_other(of);
  }

  /// PyTorch's profiler follows the flow of data between operators, which shows more than frames and lifetimes do.
  Evidence of_profiler(const Observation& of) const {
    if (trace_.header.source != profiled_source) return Evidence::none;
    return evidence_of_profiler(trace_.tables[trace_.tables[trace_.events.origin(of.begin)].metadata]);
  }

  static Evidence outside_of_torch(const StackMeaning& stack) {
    if (stack.purpose == Purpose::collective) return Evidence::driver_library;
    return stack.purpose == Purpose::workspace ? Evidence::workspace_code : Evidence::none;
  }

  Conclusion conclude_by_purpose(const Observation& of, const StackMeaning& stack) const {
    const bool is_kept = of.outlives_its_pass() || of.begin >= seen_.last_forward;
    switch (stack.purpose) {
      case Purpose::optimizer:
        return of.outlives_its_pass() ? Evidence::optimizer_keeps : Evidence::freed_in_pass;
      case Purpose::optimizer_state:
        return is_kept ? Evidence::optimizer_keeps : Evidence::freed_in_pass;
      case Purpose::zero_grad:
        return of.is_freed() ? Evidence::freed_in_pass : Conclusion{};
      case Purpose::gradient_buffer:
        return stack.line == parameter_buffer_line_ ? Evidence::loaded_weights : Evidence::gradient_buffer;
      case Purpose::weights:
        return is_kept ? Evidence::loaded_weights : Evidence::freed_in_pass;
      case Purpose::norm:
        return stack.line >= first_statistics_line_ ? Evidence::norm_statistics : Evidence::loaded_weights;
      case Purpose::copy:
        return is_kept ? Evidence::module_copy : Evidence::freed_in_pass;
      case Purpose::kv_cache:
        return of.freed_by_backward ? Evidence::freed_by_backward : Evidence::cache_code;
      case Purpose::gathered:
        return Evidence::gathered_shards;
      case Purpose::collective:
        return of.phase == Phase::backward && of.outlives_its_pass() ? Evidence::reduced_shard
                                                                     : Evidence::collective_code;
      case Purpose::workspace:
        return Evidence::workspace_code;
      case Purpose::scattered:
        // A gather passes gradients back in the same way.
        return of.phase == Phase::backward ? conclude_backward(of, stack) : Evidence::loads_data;
      case Purpose::data:
        return of.meets_forward || !of.is_freed() ? Evidence::loads_data : Evidence::freed_in_pass;
      default:
        return std::nullopt;
    }
  }

  Conclusion conclude_forward(const Observation& of) const {
    if (of.freed_by_backward) return Evidence::freed_by_backward;
    if (of.graph == Graph::released) return backward_between(of) ? Evidence::held_past_backward : Evidence::kept_graph;
    if (!of.is_freed() || !seen_.trains()) return std::nullopt;
    return backward_between(of) ? Evidence::held_past_backward : Evidence::freed_in_pass;
  }

  Conclusion conclude_backward(const Observation& of, const StackMeaning& stack) const {
    const bool ends_in_it = of.is_freed() && of.freed_in == of.made_in &&
                            (of.freed_by_backward || !seen_.activity.phases.frees_have_stacks);
    if (ends_in_it && (stack.in_module || stack.phase == Phase::forward))  // checkpointing repeats a forward pass
      return of.freed_in_module ? Evidence::freed_in_pass : Evidence::recomputed_for_backward;
    if (ends_in_it) return Evidence::freed_in_pass;
    if (of.freed_by_zero_grad) return Evidence::cleared_by_zero_grad;
    return std::nullopt;
  }

  Conclusion conclude_other(const Observation& of) const {
    if (seen_.is_kept_from_setup(of)) return std::nullopt;
    if (of.meets_forward && of.freed_by_backward && seen_.trains()) return Evidence::held_until_backward;
    if (accumulates(of.stack)) return Evidence::none;
    if (of.meets_forward && seen_.trains()) return Evidence::feeds_forward;
    if (of.meets_forward) return std::nullopt;
    if (of.freed_by_backward) return Evidence::freed_by_backward;
    if (seen_.first_forward != never && !of.outlives_its_pass()) return Evidence::freed_in_pass;
    return std::nullopt;
  }

  bool backward_between(const Observation& of) const {
    const std::span passes = std::span(seen_.activity.phases.of_pass).subspan(of.made_in, of.freed_in - of.made_in + 1);
    return std::ranges::find(passes, Phase::backward) != passes.end();
  }

  void count_sizes() {
    for (std::uint32_t id = 0; id < evidence_.size(); ++id) {
      const Observation& of = seen_.allocations[id];
      switch (evidence_[id]) {
        case Evidence::module_parameter:
        case Evidence::loaded_weights:
        case Evidence::parameter_before_recording:
        case Evidence::held_throughout:
          parameter_sizes_.add(of.size);
          last_parameter_ = of.begin;
          break;
        case Evidence::rebound_parameter:
          if (of.begin < seen_.first_forward) parameter_sizes_.add(of.size);
          break;
        case Evidence::cleared_by_zero_grad:
          gradient_sizes_.add(of.size);
          break;
        case Evidence::feeds_forward:
        case Evidence::held_until_backward:
        case Evidence::loads_data:
          largest_input_ = std::max(largest_input_.value_or(0_B), of.size);
          break;
        default:
          break;
      }
    }
    for (const AllocationId id : open_)
      if (observation(id).phase == Phase::backward && !is_in_last_pass(observation(id)))
        gradient_sizes_.add(observation(id).size);
  }

  bool is_in_last_pass(const Observation& of) const { return of.made_in == seen_.last_pass(); }

  static bool has_size_of_workspace(const Observation& of) { return !of.is_freed() && is_workspace_size(of.size); }

  using Alike = std::tuple<StackId, OriginId, Bytes>;

  Alike alike(const Observation& of) const { return {of.stack, trace_.events.origin(of.begin), of.size}; }

  void count_alike() {
    for (const AllocationId id : open_)
      if (has_size_of_workspace(observation(id))) ++alike_[alike(observation(id))];
  }

  /// A handle keeps one for each stream: what a stack drops repeatedly is something else of that size.
  bool is_workspace(const Observation& of) const {
    const auto found = alike_.find(alike(of));
    return has_size_of_workspace(of) && found != alike_.end() && found->second == 1;
  }

  // A program that trains: parameters before gradients, gradients before everything else.
  void conclude_training() {
    conclude_setup();
    count_kept();
    for (const AllocationId id : open_) {
      const Observation& of = observation(id);
      if (evidence(id) != Evidence::none) continue;
      if (of.phase == Phase::backward)
        evidence(id) = of_survivor(of);
      else if (of.phase == Phase::forward && is_workspace(of))
        evidence(id) = Evidence::workspace_size;
      else if (of.graph == Graph::at_end)
        evidence(id) = Evidence::forward_at_end;
      else if (of.phase == Phase::forward && is_held_by_program(of.stack))
        evidence(id) = Evidence::held_past_backward;
      else if (of.phase != Phase::forward && of.made_in > 0 && of.outlives_its_pass() &&
               parameter_sizes_.has(of.size) && !accumulates(of.stack))
        evidence(id) = Evidence::carried_like_parameters;
    }
    conclude_buckets();
  }

  /// Allocations made before the first forward pass and kept, whose frames show no purpose.
  void conclude_setup() {
    std::map<StackId, std::vector<AllocationId>> by_stack;
    for (const AllocationId id : open_)
      if (observation(id).phase == Phase::other && seen_.is_kept_from_setup(observation(id)))
        by_stack[observation(id).stack].push_back(id);
    const bool knows_parameters = !parameter_sizes_.empty();
    // At least a quarter of the number of parameters: a batch may have the size of one by chance.
    const std::uint32_t known = parameter_sizes_.total();
    for (const auto& [stack, ids] : by_stack) {
      const bool constructor = seen_.activity.stacks[index(stack)].purpose == Purpose::constructor;
      const bool copies = !constructor && 4 * ids.size() >= known && ids.size() >= 2 && are_copies(ids);
      for (const AllocationId id : ids) {
        const bool has_gradient = gradient_sizes_.has(observation(id).size);
        if (copies)
          evidence(id) = Evidence::sizes_of_parameters;
        else if ((constructor || !knows_parameters) && has_gradient)
          evidence(id) = Evidence::gets_gradient;
        else if (constructor && is_among_parameters(observation(id)))
          evidence(id) = Evidence::constructed;
        else if (!largest_input_ && observation(id).meets_forward && !accumulates(stack))
          evidence(id) = Evidence::steps_read_it;
      }
    }
    for (const AllocationId id : open_)
      if (category_of(evidence(id)) == Category::parameter) parameter_sizes_.add(observation(id).size);
  }

  /// Whether they have sizes of the parameters, in this precision or another, and each size as often as the parameters
  /// have it, or a few times as often. Data has one size.
  bool are_copies(const std::vector<AllocationId>& ids) const {
    constexpr std::uint32_t most_copies = 4;
    SizeCounts sizes;
    for (const AllocationId id : ids) sizes.add(observation(id).size);
    std::set<std::uint32_t> copies;
    return std::ranges::all_of(ids, [&](AllocationId id) {
      const Bytes size = observation(id).size;
      for (const Bytes of_parameter : {size, size + size, Bytes{size.count / 2U}}) {
        const std::uint32_t count = parameter_sizes_.count(of_parameter);
        if (count == 0) continue;
        if (sizes.count(size) % count != 0 || sizes.count(size) > most_copies * count) return false;
        copies.insert(sizes.count(size) / count);
        return copies.size() == 1;
      }
      return false;
    });
  }

  /// Whether a constructor ran while the modules were made, not after them.
  bool is_among_parameters(const Observation& of) const {
    return last_parameter_ == never || of.begin < last_parameter_;
  }

  Evidence of_survivor(const Observation& of) const {
    if (parameter_sizes_.has(of.size)) return Evidence::gradient_of_parameter;
    if (is_workspace(of)) return Evidence::workspace_size;
    return parameter_sizes_.empty() && !is_in_last_pass(of) ? Evidence::survives_backward : Evidence::none;
  }

  /// Counts what each stack made that a backward pass did not free, and the passes in which it did.
  void count_kept() {
    kept_.assign(seen_.activity.stacks.size(), {});
    for (const AllocationId id : open_) {
      const Observation& of = observation(id);
      if (of.phase != Phase::forward || !backward_between(of)) continue;
      Kept& kept = kept_[index(of.stack)];
      ++kept.allocations;
      if (kept.last != of.made_in) ++kept.passes;
      kept.last = of.made_in;
    }
  }

  /// What is made once and kept may be a table cached by a module; what every pass or layer adds is held by the
  /// program.
  bool is_held_by_program(StackId stack) const {
    return kept_[index(stack)].passes >= 3 || kept_[index(stack)].allocations >= 16;
  }

  void conclude_buckets() {
    const bool has_gradients = std::ranges::any_of(
        evidence_, [](Evidence e) { return category_of(e) == Category::gradient && e != Evidence::gradient_buffer; });
    if (has_gradients) return;
    for (std::uint32_t id = 0; id < evidence_.size(); ++id)
      if (evidence_[id] == Evidence::collective_code && seen_.allocations[id].outlives_its_pass())
        evidence_[id] = Evidence::bucket_is_gradient;
  }

  // A program that only calls a model. Calls are distinguished by what the program allocates between them.
  void conclude_serving() {
    Sites sites(seen_.activity.stacks.size());
    for (const AllocationId id : open_) {
      const Observation& of = observation(id);
      if (of.phase == Phase::forward) {
        sites.add(of.stack, id);
      } else if (of.phase == Phase::other && of.meets_forward && calls_in_life(of) <= calls_of_passing) {
        if (is_constructed(id)) continue;  // of_held_outside(); the recording has few calls
        evidence(id) = Evidence::feeds_forward;
        largest_input_ = std::max(largest_input_.value_or(0_B), of.size);
      }
    }
    for (const AllocationId id : open_)
      if (observation(id).phase == Phase::other && evidence(id) == Evidence::none) evidence(id) = of_held_outside(id);
    for (const std::vector<AllocationId>& site : sites.of_stack()) conclude_site(site);
  }

  /// By a module, as far as can be told, and kept.
  bool is_constructed(AllocationId id) const {
    const Observation& of = observation(id);
    return meaning(id).purpose == Purpose::constructor && !of.is_freed() && is_among_parameters(of);
  }

  Evidence of_held_outside(AllocationId id) const {
    const Observation& of = observation(id);
    if (!of.meets_forward) return of.outlives_its_pass() ? Evidence::none : Evidence::freed_in_pass;
    if (is_constructed(id)) return Evidence::constructed;
    return of.size > largest_input_.value_or(0_B) && names_cache(of.stack) ? Evidence::rest_of_serving : Evidence::none;
  }

  /// Whether a function of Python on the stack, or its file, is named as caches and their pages are.
  bool names_cache(StackId stack) const {
    constexpr std::array<std::string_view, 5> names{"cache", "Cache", "page", "Page", "kv"};
    for (; stack != StackId::none; stack = trace_.tables[stack].caller) {
      const FrameText frame = frame_text(trace_.tables, trace_.tables[stack].frame);
      for (const std::string_view text : {frame.function, base_name(frame.file)})
        if (frame.kind == FrameKind::python && std::ranges::any_of(names, [&](std::string_view name) {
              return text.find(name) != std::string_view::npos;
            }))
          return true;
    }
    return false;
  }

  void count_calls() {
    const Events& events = trace_.events;
    calls_before_.reserve(events.count() + 1);
    std::uint32_t calls = 0;
    bool inside = false;
    for (std::size_t i = 0; i < events.count(); ++i) {
      calls_before_.push_back(calls);
      const StackMeaning& stack = seen_.activity.stacks[index(events.stack(i))];
      if (events.kind(i) != EventKind::alloc || !stack.has_python) continue;
      if (stack.in_module && !inside) ++calls;
      inside = stack.in_module;
    }
    calls_before_.push_back(calls);
  }

  /// The number of model calls that begin during the allocation's life.
  std::uint32_t calls_in_life(const Observation& of) const {
    const std::size_t end = of.is_freed() ? of.end : trace_.events.count();
    return calls_before_[end] - calls_before_[of.begin + 1];
  }

  /// Whether model calls leave more and more memory that no later call replaces: not a cache, but results kept by the
  /// program, or a leak.
  bool accumulates(const std::vector<AllocationId>& site) const {
    std::set<std::uint32_t> keeping;  // calls that keep something
    std::size_t kept = 0;
    std::size_t replaced = 0;
    for (const AllocationId id : site) {
      const Observation& of = observation(id);
      if (of.is_freed()) {
        if (of.freed_in_module && calls_in_life(of) > 0) ++replaced;
        continue;
      }
      ++kept;
      keeping.insert(calls_before_[of.begin]);
    }
    return kept > replaced && keeping.size() > calls_of_passing && 2 * keeping.size() > calls_before_.back();
  }

  /// What one call passes to the next is replaced inside it, or stays for many calls: a result is soon freed outside.
  void conclude_site(const std::vector<AllocationId>& site) {
    std::size_t carried = 0;
    std::size_t passing = 0;
    for (const AllocationId id : site) {
      const Observation& of = observation(id);
      const std::uint32_t calls = calls_in_life(of);
      if (calls == 0 && of.is_freed()) ++passing;
      if (calls > calls_of_passing || (calls > 0 && of.is_freed() && of.freed_in_module)) ++carried;
    }
    const bool carries = carried > 0 && carried >= passing && !accumulates(site);
    for (const AllocationId id : site) {
      const Observation& of = observation(id);
      if (is_workspace(of))
        evidence(id) = Evidence::workspace_size;
      else if (of.graph == Graph::at_end)
        evidence(id) = Evidence::forward_at_end;
      else if (carries && (calls_in_life(of) > 0 || !of.is_freed()))
        evidence(id) = Evidence::carried_between_calls;
      else if (of.is_freed())
        evidence(id) = Evidence::freed_in_pass;
    }
  }

  /// What is live when the recording ends has no end to judge by: other allocations of its site decide, if they agree.
  void conclude_like_others() {
    struct Votes {
      std::array<std::uint32_t, category_count> count{};
      std::array<Evidence, category_count> evidence{};
    };
    std::map<StackId, Votes> votes;
    for (const AllocationId id : open_)
      if (evidence(id) == Evidence::none && observation(id).torch && !observation(id).is_freed() &&
          observation(id).begin > seen_.first_forward && meaning(id).has_python)
        votes.try_emplace(observation(id).stack);
    if (votes.empty()) return;
    for (std::uint32_t id = 0; id < evidence_.size(); ++id) {
      if (evidence_[id] == Evidence::none) continue;
      const auto found = votes.find(seen_.allocations[id].stack);
      if (found == votes.end()) continue;
      const auto category = static_cast<std::size_t>(category_of(evidence_[id]));
      ++found->second.count[category];
      found->second.evidence[category] = evidence_[id];
    }
    for (const AllocationId id : open_) {
      const auto found = votes.find(observation(id).stack);
      if (evidence(id) != Evidence::none || observation(id).is_freed() || found == votes.end()) continue;
      const auto& count = found->second.count;
      const auto most = static_cast<std::size_t>(std::ranges::max_element(count) - count.begin());
      // What is freed in the pass that made it says nothing about what others leave.
      if (most == static_cast<std::size_t>(Category::temporary)) continue;
      if (calls_in_life(observation(id)) > calls_of_passing && count[most] == 0) continue;
      if (count[most] > 0)
        evidence(id) = found->second.evidence[most];
      else if (is_in_last_pass(observation(id)) && observation(id).phase == Phase::forward && seen_.trains())
        evidence(id) = Evidence::forward_at_end;
    }
  }

  void conclude_private_pools() {
    const bool captures =
        std::ranges::any_of(seen_.activity.stacks, [](const StackMeaning& s) { return s.purpose == Purpose::capture; });
    if (!captures) return;
    for (const AllocationId id : open_)
      if (evidence(id) == Evidence::none && observation(id).private_pool) evidence(id) = Evidence::private_pool;
  }

  const Trace& trace_;
  Observations seen_;
  std::vector<Evidence> evidence_;  // by AllocationId
  std::vector<AllocationId> open_;  // without an answer from conclude_alone()
  struct Kept {
    std::uint32_t last = 0;  // pass
    std::uint32_t passes = 0;
    std::uint32_t allocations = 0;
  };
  std::vector<Kept> kept_;  // by StackId
  struct Fate {
    std::uint32_t made = 0, kept = 0;
    std::uint32_t calls = 0, kept_in_call = never;  // before which some was made and kept
    Bytes last;
    bool only_grows = true;
  };
  std::vector<Fate> fates_;               // by StackId
  std::map<Alike, std::uint32_t> alike_;  // kept allocations of the size of a workspace
  SizeCounts parameter_sizes_, gradient_sizes_;
  std::optional<Bytes> largest_input_;
  std::vector<std::uint32_t> calls_before_;  // module calls begun before each event
  std::uint32_t last_parameter_ = never;     // the event that made it
  std::uint32_t first_buffer_line_ = never, gradient_line_ = never, first_statistics_line_ = never,
                parameter_buffer_line_ = never;
};

}  // namespace

Categories classify(const Trace& trace, const std::function<bool()>& cancelled) {
  return classify(trace, lifetimes(trace), std::make_shared<const Activity>(find_activity(trace)), cancelled);
}

Categories classify(const Trace& trace, std::span<const Lifetime> lives, std::shared_ptr<const Activity> activity,
                    const std::function<bool()>& cancelled) {
  Categories categories = Classifier(trace, lives, *activity).classify(cancelled);
  categories.activity = std::move(activity);
  return categories;
}

}  // namespace memreel
