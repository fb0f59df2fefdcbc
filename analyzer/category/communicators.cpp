#include "analyzer/category/communicators.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "formats/model/stack_text.h"

namespace memreel {
namespace {

enum class Call : std::uint8_t { none, makes_communicator, other };

/// What a stack shows about NCCL: its outermost NCCL function counts.
struct NcclCall {
  Call call = Call::none;
  StackId caller = StackId::none;
};

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

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

class Search {
 public:
  Search(const Trace& trace, std::vector<NcclCall> calls) : trace_(trace), calls_(std::move(calls)) {
    found_.number.resize(trace.allocation_events.size());
  }

  void see(std::size_t i) {
    switch (trace_.events.kind[i]) {
      case EventKind::alloc:
        return see_alloc(i);
      case EventKind::free_requested:
        return see_free(trace_.events.allocation[i]);
      case EventKind::mark:
        return see_mark(i);
      default:
        return;
    }
  }

  Communicators take() && { return std::move(found_); }

 private:
  void see_alloc(std::size_t i) {
    const Origin& origin = trace_.tables[trace_.events.origin[i]];
    const NcclCall& nccl = calls_[index(trace_.events.stack[i])];
    const bool makes_one =
        nccl.call == Call::makes_communicator || (nccl.call == Call::other && ranges_.contains(origin.thread));
    if (!makes_one) making_.erase(origin.thread);
    if (nccl.call == Call::none) return;
    const std::int32_t device = trace_.tables[origin.heap].device;
    const std::uint32_t number = makes_one ? made_on(origin.thread, nccl.caller) : only_one(device);
    if (number == 0) return;
    found_.number[index(trace_.events.allocation[i])] = number;
    ++live_[device][number];
  }

  /// The communicator being made by the thread.
  std::uint32_t made_on(ThreadId thread, StackId caller) {
    const auto making = making_.find(thread);
    if (making != making_.end() && found_.list[making->second - 1].caller == caller) return making->second;
    found_.list.push_back({.caller = caller});
    return making_[thread] = static_cast<std::uint32_t>(found_.list.size());
  }

  std::uint32_t only_one(std::int32_t device) const {
    const auto live = live_.find(device);
    return live != live_.end() && live->second.size() == 1 ? live->second.begin()->first : 0;
  }

  void see_free(AllocationId allocation) {
    if (allocation == AllocationId::none || found_.number[index(allocation)] == 0) return;
    const std::uint32_t begin = trace_.allocation_events[index(allocation)];
    auto& live = live_[trace_.tables[trace_.tables[trace_.events.origin[begin]].heap].device];
    const auto held = live.find(found_.number[index(allocation)]);
    if (held != live.end() && --held->second == 0) live.erase(held);
  }

  void see_mark(std::size_t i) {
    const std::uint64_t id = trace_.events.address_or_value[i];
    if (id >= trace_.tables.marks.size()) return;
    const Mark& mark = trace_.tables.marks[id];
    if (!makes_communicator(trace_.tables[mark.name])) return;
    const ThreadId thread = trace_.tables[trace_.events.origin[i]].thread;
    if (mark.phase == MarkPhase::begin) {
      making_.erase(thread);
      ranges_.insert(thread);
    } else if (mark.phase == MarkPhase::end) {
      ranges_.erase(thread);
    }
  }

  const Trace& trace_;
  std::vector<NcclCall> calls_;  // by StackId
  Communicators found_;
  std::map<ThreadId, std::uint32_t> making_;
  std::set<ThreadId> ranges_;  // threads in a range of a call that makes a communicator
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
