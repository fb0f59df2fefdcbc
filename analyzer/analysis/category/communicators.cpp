// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/category/communicators.h"

#include <algorithm>
#include <map>
#include <set>

#include "formats/model/stack_text.h"
#include "formats/model/tables.h"

namespace memreel {
namespace {

enum class Call : std::uint8_t { none, makes_communicator, other };

/// What a stack shows about NCCL: its outermost NCCL function counts.
struct NcclCall {
  Call call = Call::none;
  StackId caller = StackId::none;
};

bool makes_communicator(std::string_view function) {
  return function.starts_with("ncclCommInit") || function.starts_with("ncclCommSplit");
}

Call call_of(const FrameText& frame) {
  std::string_view name = frame.function;
  if (name.starts_with('p')) name.remove_prefix(1);  // NCCL's profiling entry points: pncclCommInitRank
  const bool is_nccl = name.starts_with("nccl") || base_name(frame.module_path).starts_with("libnccl");
  if (!is_nccl || name.starts_with("ncclMemAlloc")) return Call::none;
  return makes_communicator(name) ? Call::makes_communicator : Call::other;
}

std::vector<NcclCall> nccl_calls(const Tables& tables) {
  std::vector<Call> of_frame;
  for (std::uint32_t f = 0; f < tables.frames.size(); ++f) of_frame.push_back(call_of(frame_text(tables, FrameId{f})));
  std::vector<NcclCall> calls(tables.stacks.size());
  for (std::uint32_t s = 1; s < tables.stacks.size(); ++s) {
    const StackId caller = tables.stacks[s].caller;
    const Call own = of_frame[index(tables.stacks[s].frame)];
    calls[s] = calls[index(caller)];  // callers come first
    if (calls[s].call == Call::none && own != Call::none) calls[s] = {.call = own, .caller = caller};
    if (own == Call::makes_communicator) calls[s].call = own;  // NCCL's inner functions have such names, too
  }
  return calls;
}

/// The call of NCCL that a thread is in; they don't nest.
struct ThreadCalls {
  NcclRange call;          // its function is empty: none
  std::uint32_t made = 0;  // the number of the communicator that the call makes, once it has memory
  std::uint32_t groups = 0;
  std::set<std::uint64_t> in_group;  // communicators of the calls since the outermost ncclGroupStart()
  std::uint32_t last = 0;            // what a thread of NCCL's own allocated for last
};

/// With more threads in calls at the same time, what NCCL's own threads allocate for is unknown.
constexpr std::size_t most_calling = 64;

class Search {
 public:
  Search(const Trace& trace, std::vector<NcclCall> calls) : trace_(trace), calls_(std::move(calls)) {
    found_.number.resize(trace.events.allocation_count());
    for (const Mark& mark : trace.tables.marks) ranges_.push_back(nccl_range(trace.tables[mark.name]));
  }

  void see(std::size_t i) {
    switch (trace_.events.kind(i)) {
      case EventKind::alloc:
        return see_alloc(i);
      case EventKind::free_requested:
        return see_free(trace_.events.allocation(i));
      case EventKind::mark:
        return see_mark(i);
      default:
        return;
    }
  }

  Communicators take() && { return std::move(found_); }

 private:
  void see_alloc(std::size_t i) {
    const Origin& origin = trace_.tables[trace_.events.origin(i)];
    const NcclCall& nccl = calls_[index(trace_.events.stack(i))];
    const bool makes_one =
        nccl.call == Call::makes_communicator || (nccl.call == Call::other && is_making(threads_[origin.thread]));
    if (!makes_one) making_.erase(origin.thread);
    if (nccl.call == Call::none) return;
    const std::int32_t device = trace_.tables[origin.heap].device;
    const std::uint32_t number = makes_one ? made_on(origin.thread, nccl.caller) : used_on(origin.thread, device);
    if (number == 0) return;
    found_.number[index(trace_.events.allocation(i))] = number;
    if (device >= 0 && devices_[number - 1] < 0) devices_[number - 1] = device;
    ++live_[device][number];
  }

  static bool is_making(const ThreadCalls& thread) { return makes_communicator(thread.call.function); }

  /// The communicator being made by the thread, in a call that NCCL marked or not.
  std::uint32_t made_on(ThreadId id, StackId caller) {
    const auto making = making_.find(id);
    if (making != making_.end() && found_.list[making->second - 1].caller == caller) return making->second;
    ThreadCalls& thread = threads_[id];
    std::uint32_t number = is_making(thread) ? thread.made : 0;
    if (number != 0 && found_.list[number - 1].caller == StackId::none)
      found_.list[number - 1].caller = caller;  // so far only threads of NCCL's own allocated for it
    else
      number = add(caller);
    if (is_making(thread)) thread.made = number;
    return making_[id] = number;
  }

  std::uint32_t add(StackId caller) {
    found_.list.push_back({.caller = caller});
    devices_.push_back(-1);
    const auto number = static_cast<std::uint32_t>(found_.list.size());
    nameless_.insert(number);
    return number;
  }

  /// The communicator that NCCL allocates for in a call that makes none.
  std::uint32_t used_on(ThreadId id, std::int32_t device) {
    ThreadCalls& thread = threads_[id];
    std::set<std::uint32_t> under_way = of_calls(thread, device);
    if (!under_way.empty()) return under_way.size() == 1 ? *under_way.begin() : 0;
    if (calling_.size() <= most_calling)
      for (const ThreadId other : calling_) under_way.merge(of_calls(threads_[other], device));
    if (under_way.size() == 1) return thread.last = *under_way.begin();
    if (thread.last != 0 && (under_way.empty() || under_way.contains(thread.last))) return thread.last;
    return under_way.empty() ? only_one(device) : 0;
  }

  /// The communicators that a thread's calls are for, as far as NCCL says.
  std::set<std::uint32_t> of_calls(ThreadCalls& thread, std::int32_t device) {
    if (is_making(thread)) {
      if (thread.made == 0) thread.made = add(StackId::none);
      return {thread.made};
    }
    if (thread.call.communicator != 0) return {named(thread.call.communicator, device)};
    std::set<std::uint32_t> numbers;
    if (thread.call.function.starts_with("ncclGroup"))
      for (const std::uint64_t name : thread.in_group) numbers.insert(named(name, device));
    return numbers;
  }

  /// The communicator that NCCL calls `name`: the one that said so when it was made, or the only one that has not.
  std::uint32_t named(std::uint64_t name, std::int32_t device) {
    const auto on_device = [&](std::uint32_t number) {
      return device < 0 || devices_[number - 1] < 0 || devices_[number - 1] == device;
    };
    const auto [first, last] = by_name_.equal_range(name);
    for (auto known = first; known != last; ++known)
      if (on_device(known->second)) return known->second;
    const auto nameless = std::ranges::find_if(nameless_, on_device);
    const bool one =
        nameless != nameless_.end() && std::find_if(std::next(nameless), nameless_.end(), on_device) == nameless_.end();
    const std::uint32_t number = one ? *nameless : add(StackId::none);
    set_name(number, name);
    return number;
  }

  void set_name(std::uint32_t number, std::uint64_t name) {
    if (nameless_.erase(number) > 0) by_name_.emplace(name, number);
  }

  std::uint32_t only_one(std::int32_t device) const {
    const auto live = live_.find(device);
    return live != live_.end() && live->second.size() == 1 ? live->second.begin()->first : 0;
  }

  void see_free(AllocationId allocation) {
    if (allocation == AllocationId::none || found_.number[index(allocation)] == 0) return;
    const std::uint32_t begin = trace_.events.begin_of(allocation);
    auto& live = live_[trace_.tables[trace_.tables[trace_.events.origin(begin)].heap].device];
    const auto held = live.find(found_.number[index(allocation)]);
    if (held != live.end() && --held->second == 0) live.erase(held);
  }

  void see_mark(std::size_t i) {
    const std::uint64_t id = trace_.events.address_or_value(i);
    if (id >= ranges_.size() || !ranges_[id].function.starts_with("nccl")) return;
    const NcclRange& range = ranges_[id];
    const ThreadId id_of_thread = trace_.tables[trace_.events.origin(i)].thread;
    ThreadCalls& thread = threads_[id_of_thread];
    switch (trace_.tables.marks[id].phase) {
      case MarkPhase::begin:
        making_.erase(id_of_thread);
        calling_.insert(id_of_thread);
        return begins(thread, range);
      case MarkPhase::end:
        calling_.erase(id_of_thread);
        return ends(thread, range);
      case MarkPhase::instant:
        if (is_making(thread) && thread.made != 0) set_name(thread.made, range.communicator);
        return;
    }
  }

  static void begins(ThreadCalls& thread, const NcclRange& range) {
    thread.call = range;
    thread.made = 0;
    if (range.function == "ncclGroupStart") ++thread.groups;
    if (thread.groups > 0 && range.communicator != 0) thread.in_group.insert(range.communicator);
  }

  static void ends(ThreadCalls& thread, const NcclRange& range) {
    thread.call = {};
    if (range.function == "ncclGroupEnd" && thread.groups > 0 && --thread.groups == 0) thread.in_group.clear();
  }

  const Trace& trace_;
  std::vector<NcclCall> calls_;    // by StackId
  std::vector<NcclRange> ranges_;  // by MarkId
  Communicators found_;
  std::vector<std::int32_t> devices_;                    // by number - 1; -1: unknown
  std::multimap<std::uint64_t, std::uint32_t> by_name_;  // numbers by what NCCL calls them
  std::set<std::uint32_t> nameless_;                     // numbers of the others
  std::map<ThreadId, std::uint32_t> making_;
  std::map<ThreadId, ThreadCalls> threads_;
  std::set<ThreadId> calling_;                                           // in a call of NCCL
  std::map<std::int32_t, std::map<std::uint32_t, std::uint32_t>> live_;  // allocations by device and communicator
};

}  // namespace

Communicators find_communicators(const Trace& trace) {
  std::vector<NcclCall> calls = nccl_calls(trace.tables);
  if (std::ranges::none_of(calls, [](const NcclCall& c) { return c.call != Call::none; })) return {};
  Search search(trace, std::move(calls));
  for (std::size_t i = 0; i < trace.events.count(); ++i) search.see(i);
  return std::move(search).take();
}

}  // namespace memreel
