// SPDX-License-Identifier: Apache-2.0
// Random histories with every kind of event, and what a reader must return for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "formats/writer/trace_writer.h"
#include "tests/bench/synthetic.h"

namespace memreel::testing {

using FileBytes = std::vector<std::byte>;

/// Appends random events to a writer and records each as load() must return it.
///
/// Three heaps, one of which frees at once; several origins, strings and stacks that appear along the way; frees by
/// address and by allocation, of unknown allocations, and repeated; addresses reused without a recorded free; times
/// that go backwards.
class RandomHistory {
 public:
  /// Sizes have up to `size_bits` bits.
  RandomHistory(TraceOutput& writer, std::uint64_t seed, unsigned size_bits = 64)
      : writer_(writer), random_(seed), size_bits_(size_bits) {
    for (std::uint32_t i = 0; i < 3; ++i) {
      const HeapId heap = writer.intern(Heap{.name = writer.intern("heap" + std::to_string(i)),
                                             .level = i == 0 ? Level::driver : Level::framework,
                                             .device = static_cast<std::int32_t>(i) - 1,
                                             .parent = HeapId{i},
                                             .observes_completion = i != 2});
      add_origin(heap);
      add_origin(heap);
    }
  }

  void append(std::uint64_t events) {
    for (std::uint64_t i = 0; i < events; ++i) append_one();
  }

  const std::vector<Event>& expected() const { return expected_; }
  std::uint64_t unmatched() const { return unmatched_; }

 private:
  using Place = std::pair<HeapId, std::uint64_t>;

  HeapId heap_of(OriginId origin) const { return writer_.tables()[origin].heap; }

  void add_origin(HeapId heap) {
    const auto n = random_.below(1000);
    const PoolId pool = random_.chance(2)
                            ? PoolId::default_pool
                            : writer_.intern(Pool{.key_high = n, .key_low = n << 40U, .inferred = random_.chance(2)});
    const ThreadId thread = writer_.intern(Thread{.tid = n, .name = writer_.intern("thread " + std::to_string(n % 3))});
    origins_.push_back(writer_.intern(
        Origin{.heap = heap, .pool = pool, .stream = writer_.intern(Stream{.handle = n % 4}), .thread = thread}));
  }

  StackId random_stack() {
    StackId stack = StackId::none;
    for (std::uint64_t depth = random_.below(4); depth > 0; --depth) {
      const auto n = random_.below(40);
      Frame frame{.function = writer_.intern("f" + std::to_string(n)), .line = static_cast<std::uint32_t>(n)};
      if (random_.chance(3)) {
        frame.module = writer_.intern(Module{.path = writer_.intern("lib" + std::to_string(n % 3) + ".so"),
                                             .build_id = std::string(n % 3, '\xAB'),
                                             .base = {0x7F00'0000 + n % 3},
                                             .size = {n % 3}});
        frame.module_offset = random_.next() >> random_.below(64);
      }
      stack = writer_.intern(Stack{.frame = writer_.intern(frame), .caller = stack});
    }
    return stack;
  }

  /// Numbers of every magnitude.
  std::uint64_t number() { return random_.next() >> random_.below(64); }
  Bytes size() { return {number() >> (64U - size_bits_)}; }

  void append_one() {
    if (random_.chance(500)) add_origin(HeapId{1 + static_cast<std::uint32_t>(random_.below(3))});
    Event event{.kind = static_cast<EventKind>(1 + random_.below(event_kind_count - 1)),
                .origin = origins_[random_.below(origins_.size())],
                .stack = random_stack()};
    if (random_.chance(2)) event.kind = random_.chance(2) ? EventKind::alloc : EventKind::free_requested;
    constexpr std::uint64_t span = 1'000'000'000'000'000;
    time_ += static_cast<std::int64_t>(random_.below(random_.chance(20) ? span : 5000));
    time_ %= static_cast<std::int64_t>(span);
    if (random_.chance(50)) time_ = -time_;
    event.time = Nanoseconds(time_);
    switch (event.kind) {
      case EventKind::alloc:
        return append_alloc(event);
      case EventKind::free_requested:
      case EventKind::free_completed:
        return append_free(event);
      case EventKind::segment_alloc:
      case EventKind::segment_free:
      case EventKind::segment_map:
      case EventKind::segment_unmap:
        event.address = {random_.below(64) << 21U};
        event.size = {(1 + random_.below(4)) << 21U};
        break;
      case EventKind::alloc_failed:
      case EventKind::memory_info:
        event.size = {number()};
        event.value = number();
        break;
      case EventKind::sync:
        event.value = random_.below(2 + writer_.tables().streams.size());
        break;
      case EventKind::mark:
        event.value = index(
            writer_.intern(Mark{.name = writer_.intern("step"), .phase = static_cast<MarkPhase>(random_.below(3))}));
        break;
      case EventKind::settings: {
        const StringId key = writer_.intern("key" + std::to_string(random_.below(5)));
        event.value = index(writer_.intern(Settings{.entries = {{key, writer_.intern("on")}, {key, key}}}));
        break;
      }
      default:
        break;
    }
    writer_.append(event);
    expected_.push_back(event);
  }

  void append_alloc(Event event) {
    event.address = {random_.below(400) << 9U};
    event.size = size();
    event.allocation = writer_.append(event);
    live_[{heap_of(event.origin), event.address.value}] = event;
    allocs_.push_back(event);
    expected_.push_back(event);
  }

  void append_free(Event event) {
    if (random_.chance(8) && !allocs_.empty()) {
      // By allocation, whatever its state.
      const Event& freed = allocs_[random_.below(allocs_.size())];
      event.allocation = freed.allocation;
      event.origin = freed.origin;
    } else if (random_.chance(10) || live_.empty()) {
      event.address = {random_.below(1'000'000)};
      event.size = size();
    } else {
      auto at = live_.begin();
      std::advance(at, random_.below(live_.size()));
      event.address = {at->first.second};
      event.origin = at->second.origin;
    }
    writer_.append(event);

    if (event.allocation == AllocationId::none) {
      const auto at = live_.find({heap_of(event.origin), event.address.value});
      if (at != live_.end()) event.allocation = at->second.allocation;
    }
    if (event.allocation == AllocationId::none) {
      ++unmatched_;
    } else {
      const Event& freed = allocs_[index(event.allocation)];
      event.address = freed.address;
      event.size = freed.size;
      const Place place{heap_of(freed.origin), freed.address.value};
      const auto at = live_.find(place);
      const bool ends =
          event.kind == EventKind::free_completed || !writer_.tables()[heap_of(freed.origin)].observes_completion;
      if (ends && at != live_.end() && at->second.allocation == event.allocation) live_.erase(at);
    }
    expected_.push_back(event);
  }

  TraceOutput& writer_;
  synthetic::Random random_;
  unsigned size_bits_;
  std::vector<OriginId> origins_;
  std::map<Place, Event> live_;
  std::vector<Event> allocs_;
  std::vector<Event> expected_;
  std::uint64_t unmatched_ = 0;
  std::int64_t time_ = 0;
};

/// A small trace with one of everything.
inline FileBytes random_trace(std::uint64_t seed, std::uint64_t events, const WriterOptions& options = {},
                              unsigned size_bits = 64) {
  FileBytes bytes;
  TraceWriter writer(memory_sink(bytes), {.producer = "test", .source = "random", .process = seed}, options);
  RandomHistory history(writer, seed, size_bits);
  history.append(events);
  writer.set_losses({.stack_table_full = 3, .began_late = true});
  std::ignore = writer.finish();
  return bytes;
}

/// The same within formats/model/value_check.h.
inline FileBytes possible_trace(std::uint64_t seed, std::uint64_t events, const WriterOptions& options = {}) {
  constexpr unsigned size_bits = 44;  // 2^18 of them is the most that a trace may have
  return random_trace(seed, events, options, size_bits);
}

}  // namespace memreel::testing
