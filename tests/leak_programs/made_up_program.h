// SPDX-License-Identifier: Apache-2.0
// Programs that are made up: what they are written with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "formats/model/frame_kind.h"
#include "formats/model/trace.h"
#include "tests/bench/synthetic.h"
#include "tests/leak_score.h"

namespace memreel::test {

/// A trace under construction: a program that allocates, frees and ends steps.
class MadeUpProgram {
 public:
  explicit MadeUpProgram(std::uint64_t seed) : random_(seed) {
    Tables& t = trace_.tables;
    t.heaps.push_back({.name = string("torch.cuda"), .level = Level::framework});
    t.origins.push_back({.heap = HeapId{1}});
    t.marks.push_back({.name = string("step"), .phase = MarkPhase::end});
  }

  std::uint64_t below(std::uint64_t bound) { return random_.below(bound); }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + random_.below(high - low + 1); }
  bool chance(double p) { return static_cast<double>(random_.below(1U << 20U)) < p * (1U << 20U); }
  std::uint32_t steps() const { return steps_; }
  void set_marked(bool marked) { marked_ = marked; }
  std::uint32_t layers() const { return layers_; }

  /// A call site: "train.py:LINE" below a line of a package, or no stack at all for line 0.
  StackId site(std::uint32_t line) {
    if (line == 0) return StackId::none;
    StackId& stack = sites_[line];
    if (stack != StackId::none) return stack;
    Tables& t = trace_.tables;
    const auto push = [&](StringId function, StringId file, std::uint32_t number, StackId caller) {
      t.frames.push_back({.function = function, .file = file, .line = number});
      classify_frames(t, t.frames.size() - 1);
      t.stacks.push_back({.frame = FrameId{static_cast<std::uint32_t>(t.frames.size() - 1)}, .caller = caller});
      return StackId{static_cast<std::uint32_t>(t.stacks.size() - 1)};
    };
    if (main_ == StackId::none) main_ = push(string("<module>"), string("train.py"), 99, StackId::none);
    const StackId way = line < 1000 ? main_ : push(string("call"), string("python3.11/x.py"), line / 1000, main_);
    const StackId own = push(string("step"), string("train.py"), line % 1000, way);
    return stack = push(string("forward"), string("site-packages/torch/nn/linear.py"), 134, own);
  }

  AllocationId alloc(std::uint32_t line, std::uint64_t size, bool leaks = false) {
    const AllocationId id{static_cast<std::uint32_t>(trace_.events.allocation_count())};
    push({.kind = EventKind::alloc,
          .origin = OriginId{1},
          .stack = site(line),
          .allocation = id,
          .address = {0x7F00'0000'0000 + next_address_},
          .size = {size}});
    next_address_ += (size + 511) / 512 * 512;
    if (leaks) truth_[trace_.events.address(trace_.events.count() - 1).value] = size;
    return id;
  }
  /// The same line, reached on one of many ways.
  AllocationId alloc_by_way(std::uint32_t line, std::uint64_t way, std::uint64_t size, bool leaks = false) {
    return alloc(line + 1000 * (1 + static_cast<std::uint32_t>(way)), size, leaks);
  }
  void free(AllocationId id) {
    const Event made = trace_.events[trace_.events.begin_of(id)];
    for (const EventKind kind : {EventKind::free_requested, EventKind::free_completed})
      push({.kind = kind,
            .origin = made.origin,
            .stack = StackId::none,
            .allocation = id,
            .address = made.address,
            .size = made.size});
  }

  /// A batch's size: one of a few, in units that differ from program to program.
  std::uint64_t batch() { return unit_ * (8 + 4 * below(widths_)); }

  /// Weights, and later, in the first step, optimizer state and workspaces.
  void model() {
    for (std::uint32_t i = 0; i < 2 * layers_; ++i) alloc(1, unit_ * (i % 2 == 0 ? 64 : 1));
  }

  /// Forward, backward and update of one batch; `kept` are the activations, which the caller frees or keeps.
  std::vector<AllocationId> forward(std::uint64_t size, bool leaks = false) {
    std::vector<AllocationId> kept;
    kept.push_back(alloc(10, size, leaks));
    for (std::uint32_t layer = 0; layer < layers_; ++layer) {
      const AllocationId scratch = alloc(11, size / 2 + 64);
      kept.push_back(alloc(11, size * 4, leaks));  // every layer goes through the same lines
      kept.push_back(alloc(12, size, leaks));
      kept.push_back(alloc(12, 128, leaks));
      free(scratch);
    }
    if (!std::exchange(has_workspace_, true)) {
      alloc(11, 32U << 20U);
      alloc(0, 32U << 20U);
    }
    kept.push_back(alloc(13, 4, leaks));
    return kept;
  }
  void backward() {
    std::vector<AllocationId> gradients;
    for (std::uint32_t i = 0; i < 2 * layers_; ++i) {
      const AllocationId scratch = alloc(0, unit_ * 8);
      gradients.push_back(alloc(0, unit_ * (i % 2 == 0 ? 64 : 1)));
      free(scratch);
    }
    if (!std::exchange(has_state_, true))
      for (std::uint32_t i = 0; i < 4 * layers_; ++i) alloc(20, unit_ * (i % 2 == 0 ? 64 : 1));
    for (const AllocationId id : gradients) free(id);
  }
  void train(std::uint64_t size) {
    const std::vector<AllocationId> kept = forward(size);
    backward();
    for (const AllocationId id : kept) free(id);
  }
  void train() { train(batch()); }

  void end_step() {
    if (marked_) push({.kind = EventKind::mark, .origin = OriginId{1}, .value = 1});
  }

  /// Runs `step` for every step, with the model's own work before it.
  void run(const std::function<void(std::uint32_t)>& step, bool trains = true) {
    model();
    for (std::uint32_t i = 0; i < steps_; ++i) {
      if (trains) train();
      step(i);
      end_step();
    }
  }

  const Trace& trace() const { return trace_; }
  const LeakTruth& truth() const { return truth_; }

 private:
  StringId string(const std::string& text) {
    auto& strings = trace_.tables.strings;
    const auto found = std::find(strings.begin(), strings.end(), text);
    if (found != strings.end()) return StringId{static_cast<std::uint32_t>(found - strings.begin())};
    strings.push_back(text);
    return StringId{static_cast<std::uint32_t>(strings.size() - 1)};
  }
  void push(Event event) {
    event.time = Nanoseconds{1000 * static_cast<std::int64_t>(trace_.events.count())};
    trace_.events.push_back(event);
  }

  synthetic::Random random_;
  Trace trace_;
  LeakTruth truth_;
  std::map<std::uint32_t, StackId> sites_;
  StackId main_ = StackId::none;
  std::uint64_t next_address_ = 0;
  // Drawn in this order.
  bool marked_ = below(3) != 0;
  std::uint32_t steps_ = static_cast<std::uint32_t>(between(40, 130));
  std::uint32_t widths_ = static_cast<std::uint32_t>(between(1, 6));
  std::uint32_t layers_ = static_cast<std::uint32_t>(between(1, 5));
  std::uint64_t unit_ = std::uint64_t{512} << below(8);
  bool has_workspace_ = false, has_state_ = false;
};

struct KindOfProgram {
  std::string name;
  bool leaks;
  void (*run)(MadeUpProgram&);
};

/// Something kept for a while: allocations that a program lets go of in its own time.
using Kept = std::deque<AllocationId>;

inline void free_front(MadeUpProgram& p, Kept& kept, std::size_t left) {
  while (kept.size() > left) {
    p.free(kept.front());
    kept.pop_front();
  }
}
inline void free_any(MadeUpProgram& p, Kept& kept) {
  std::swap(kept[p.below(kept.size())], kept.back());
  p.free(kept.back());
  kept.pop_back();
}

}  // namespace memreel::test
