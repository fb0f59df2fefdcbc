// SPDX-License-Identifier: Apache-2.0
// Synthetic histories for benchmarks and property tests: the same options give the same trace on every platform.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "formats/model/trace.h"

namespace memreel::synthetic {

/// splitmix64: a 64-bit generator whose entire state is its seed. (<random>'s distributions differ between standard
/// libraries.)
class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) : state_(seed) {}

  constexpr std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EB;
    return z ^ (z >> 31U);
  }
  /// 0 .. bound - 1; `bound` > 0.
  constexpr std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  constexpr bool chance(std::uint64_t one_in) { return below(one_in) == 0; }
  /// min .. max, with every power of two equally likely.
  constexpr std::uint64_t log_uniform(std::uint64_t min, std::uint64_t max) {
    const auto low = static_cast<std::uint64_t>(std::bit_width(min) - 1);
    const auto high = static_cast<std::uint64_t>(std::bit_width(max) - 1);
    const std::uint64_t base = std::uint64_t{1} << (low + below(high - low + 1));
    return std::clamp(base + below(base), min, max);
  }

 private:
  std::uint64_t state_;
};

/// Sizes between `min` and `max`, log-uniform; `weight` is relative to the other ranges of the mix.
struct SizeRange {
  Bytes min, max;
  std::uint64_t weight = 1;
};

}  // namespace memreel::synthetic

namespace memreel {

struct SyntheticOptions {
  std::uint64_t events = 1'000'000;  // approximate: steps are not truncated
  std::uint32_t live = 5'000;        // live allocations in the steady state (iterative: at the peak of a step)
  std::vector<synthetic::SizeRange> sizes{{1_B, 1_MiB, 70}, {1_MiB, 16_MiB, 25}, {16_MiB, 64_MiB, 5}};
  std::uint32_t streams = 1;
  std::uint32_t steps = 0;    // 0: a random history; otherwise that many identical steps, like a training loop
  std::uint32_t stacks = 64;  // distinct call sites
  std::uint64_t seed = 1;
};

/// One framework heap on device 0 with segments of 20 MiB; alloc, free_requested and free_completed events, and a mark
/// at the beginning of every step. Live addresses never overlap; freed addresses are reused last in, first out, by
/// size.
class SyntheticBuilder {
 public:
  explicit SyntheticBuilder(const SyntheticOptions& options) : options_(options), random_(options.seed) {
    build_tables();
  }

  Trace build() && {
    if (options_.steps == 0)
      random_history();
    else
      iterative_history();
    return std::move(trace_);
  }

 private:
  struct Request {
    Bytes size;
    std::uint32_t stream = 0;
    StackId stack = StackId::none;
  };
  struct Live {
    Request request;
    AllocationId allocation = AllocationId::none;
    Address address;
  };

  void build_tables() {
    Tables& t = trace_.tables;
    trace_.header = {.producer = "synthetic", .source = "synthetic", .source_name = "", .host = "", .process = 0};
    t.strings.insert(t.strings.end(), {"torch.cuda", "main.py", "step"});
    t.heaps.push_back({.name = StringId{1}, .level = Level::framework});
    t.marks.push_back({.name = StringId{3}, .phase = MarkPhase::begin});
    for (std::uint32_t i = 0; i < options_.streams; ++i) {
      if (i > 0) t.streams.push_back({.handle = 0x5500'0000'0000 + i * std::uint64_t{64}});
      t.origins.push_back({.heap = HeapId{1}, .stream = StreamId{i}});
    }
    for (std::uint32_t i = 1; i <= options_.stacks; ++i) {
      t.strings.push_back("function_" + std::to_string(i));
      t.frames.push_back({.function = StringId{3 + i}, .file = StringId{2}, .line = i * 7});
      t.stacks.push_back({.frame = FrameId{i}, .caller = StackId{i / 2}});
    }
  }

  Request request() {
    std::uint64_t total = 0;
    for (const auto& range : options_.sizes) total += range.weight;
    std::uint64_t pick = random_.below(total);
    for (const auto& range : options_.sizes) {
      if (pick < range.weight)
        return {.size = {random_.log_uniform(range.min.count, range.max.count)},
                .stream = static_cast<std::uint32_t>(random_.below(options_.streams)),
                .stack = StackId{1 + static_cast<std::uint32_t>(random_.below(options_.stacks))}};
      pick -= range.weight;
    }
    return {};
  }

  void push(EventKind kind, const Live& on) {
    // Host time between two allocator calls: microseconds, as frameworks record it.
    time_ += std::chrono::microseconds(1 + random_.below(20));
    trace_.events.push_back({.kind = kind,
                             .origin = OriginId{1 + on.request.stream},
                             .stack = on.request.stack,
                             .allocation = on.allocation,
                             .time = time_,
                             .address = on.address,
                             .size = on.request.size});
  }

  Live alloc(const Request& request) {
    const Bytes rounded = round_up(std::max(request.size, 512_B), 512_B);
    Live live{.request = request,
              .allocation = AllocationId{static_cast<std::uint32_t>(trace_.events.allocation_count())}};
    auto& gaps = gaps_[{request.stream, rounded.count}];
    if (gaps.empty()) {
      if (end_ - next_ < rounded) {
        next_ = end_;
        const Bytes segment = round_up(rounded, 20_MiB);
        end_ = next_ + segment;
        push(EventKind::segment_alloc,
             {.request = {.size = segment, .stream = request.stream, .stack = request.stack}, .address = next_});
      }
      live.address = next_;
      next_ = next_ + rounded;
    } else {
      live.address = gaps.back();
      gaps.pop_back();
    }
    push(EventKind::alloc, live);
    return live;
  }

  void free(const Live& live) {
    push(EventKind::free_requested, live);
    push(EventKind::free_completed, live);
    const Bytes rounded = round_up(std::max(live.request.size, 512_B), 512_B);
    gaps_[{live.request.stream, rounded.count}].push_back(live.address);
  }

  void random_history() {
    std::vector<Live> live;
    while (trace_.events.count() < options_.events) {
      const bool grow = live.size() < options_.live / 2 ||
                        (live.size() < options_.live + options_.live / 2 && random_.chance(2)) || live.empty();
      if (grow) {
        live.push_back(alloc(request()));
      } else {
        std::swap(live[random_.below(live.size())], live.back());
        free(live.back());
        live.pop_back();
      }
    }
  }

  /// A step allocates layer outputs with short-lived temporaries between them, then frees the outputs in reverse order.
  void iterative_history() {
    // An allocation is three events. Each layer has one output, and equally many temporaries in the forward and
    // backward pass.
    const std::uint64_t per_step = std::max<std::uint64_t>(options_.events / options_.steps / 3, 3);
    const std::uint64_t layers = std::clamp<std::uint64_t>(per_step / 3, 1, options_.live);
    const std::uint64_t temporaries = (per_step / layers - 1) / 2;
    std::vector<Request> requests(layers * (1 + 2 * temporaries));
    for (Request& r : requests) r = request();

    std::vector<Live> outputs;
    for (std::uint32_t step = 0; step < options_.steps; ++step) {
      trace_.events.push_back({.kind = EventKind::mark, .origin = OriginId{1}, .time = time_, .value = 1});
      auto next = requests.begin();
      for (std::uint64_t layer = 0; layer < layers; ++layer) {
        outputs.push_back(alloc(*next++));
        for (std::uint64_t i = 0; i < temporaries; ++i) free(alloc(*next++));
      }
      for (std::uint64_t layer = 0; layer < layers; ++layer) {
        for (std::uint64_t i = 0; i < temporaries; ++i) free(alloc(*next++));
        free(outputs.back());
        outputs.pop_back();
      }
    }
  }

  SyntheticOptions options_;
  synthetic::Random random_;
  Trace trace_;
  Nanoseconds time_{1'700'000'000'000'000'000};
  Address next_{0x7F00'0000'0000}, end_ = next_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<Address>> gaps_;
};

inline Trace synthetic_trace(const SyntheticOptions& options = {}) { return SyntheticBuilder(options).build(); }

}  // namespace memreel
