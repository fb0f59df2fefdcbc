// Made-up programs of which it is known what leaks: many kinds, each different with every seed.
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
      t.stacks.push_back({.frame = FrameId{static_cast<std::uint32_t>(t.frames.size() - 1)}, .caller = caller});
      return StackId{static_cast<std::uint32_t>(t.stacks.size() - 1)};
    };
    const StackId way =
        line < 1000 ? StackId::none : push(string("call"), string("python3.11/x.py"), line / 1000, StackId::none);
    const StackId own = push(string("step"), string("train.py"), line % 1000, way);
    return stack = push(string("forward"), string("site-packages/torch/nn/linear.py"), 134, own);
  }

  AllocationId alloc(std::uint32_t line, std::uint64_t size, bool leaks = false) {
    const AllocationId id{static_cast<std::uint32_t>(trace_.allocation_events.size())};
    trace_.allocation_events.push_back(static_cast<std::uint32_t>(trace_.events.count()));
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
    const Event made = trace_.events[trace_.allocation_events[index(id)]];
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

inline const std::vector<KindOfProgram>& kinds_of_programs() {
  using P = MadeUpProgram;
  static const std::vector<KindOfProgram> kinds{
      {"append", true,
       [](P& p) {
         const auto n = p.between(1, 3);
         p.run([&](std::uint32_t) {
           for (std::uint64_t k = 0; k < n; ++k) p.alloc(41, p.batch(), true);
         });
       }},
      {"append any size", true,
       [](P& p) {
         p.run([&](std::uint32_t) { p.alloc(41, std::uint64_t{1} << p.between(5, 20) | p.below(512), true); });
       }},
      {"now and then", true,
       [](P& p) {
         const double chance = 0.15 + 0.01 * static_cast<double>(p.below(70));
         p.run([&](std::uint32_t) {
           if (p.chance(chance)) p.alloc(41, p.batch(), true);
         });
       }},
      {"every few steps", true,
       [](P& p) {
         const auto every = p.between(2, p.steps() / 8);
         p.run([&](std::uint32_t i) {
           if (i % every == 0) p.alloc(41, 4096, true);
         });
       }},
      {"several at a time", true,
       [](P& p) {
         const auto every = p.between(2, p.steps() / 8);
         p.run([&](std::uint32_t i) {
           for (int k = 0; i % every == 1 && k < 12; ++k) p.alloc(41, p.batch(), true);
         });
       }},
      {"graphs", true,
       [](P& p) {
         p.run(
             [&](std::uint32_t) {
               p.forward(p.batch(), true);
               p.backward();
             },
             false);
       }},
      {"graphs now and then", true,
       [](P& p) {
         p.run(
             [&](std::uint32_t) {
               const bool keeps = p.chance(0.4);
               const auto kept = p.forward(p.batch(), keeps);
               p.backward();
               if (!keeps)
                 for (const auto id : kept) p.free(id);
             },
             false);
       }},
      {"gradient without stack", true, [](P& p) { p.run([&](std::uint32_t) { p.alloc(0, p.batch() * 3, true); }); }},
      {"one of many", true,
       [](P& p) {
         const auto n = p.between(20, 200);
         p.run([&](std::uint32_t) {
           const auto kept = p.below(n);
           for (std::uint64_t k = 0; k < n; ++k) {
             const auto id = p.alloc(41, 1024 * p.between(1, 3), k == kept);
             if (k != kept) p.free(id);
           }
         });
       }},
      {"begins late", true,
       [](P& p) {
         const auto begin = p.between(p.steps() / 5, p.steps() / 2);
         p.run([&](std::uint32_t i) {
           if (i >= begin) p.alloc(41, p.batch(), true);
         });
       }},
      {"ever larger", true, [](P& p) { p.run([&](std::uint32_t i) { p.alloc(41, 2048 + 256 * i, true); }); }},
      {"beside a ring", true,
       [](P& p) {
         const auto size = p.between(3, p.steps() / 3);
         Kept ring;
         p.run([&](std::uint32_t) {
           ring.push_back(p.alloc(41, 65536));
           p.alloc(41, 3000, true);
           free_front(p, ring, size);
         });
       }},
      {"two leaks", true,
       [](P& p) {
         p.run([&](std::uint32_t i) {
           p.alloc(41, p.batch(), true);
           if (i % 3 == 2) p.alloc(47, 8192, true);
         });
       }},
      {"sessions never closed", true,
       [](P& p) {
         const auto life = p.between(1, p.steps() / 6);
         const auto rate = p.between(1, 5);
         std::multimap<std::uint64_t, AllocationId> open;
         std::uint64_t n = 0;
         p.run([&](std::uint32_t i) {
           for (std::uint64_t k = 0; k < rate; ++k) {
             const bool leaks = ++n % 5 == 0;
             const auto id = p.alloc(41, 16384, leaks);
             if (!leaks) open.emplace(i + p.between(1, life), id);
           }
           while (!open.empty() && open.begin()->first <= i) {
             p.free(open.begin()->second);
             open.erase(open.begin());
           }
         });
       }},
      {"ever larger copy", true,
       [](P& p) {
         const std::uint64_t step = 512 * p.between(1, 40);
         const auto every = p.between(1, 2);
         AllocationId history = p.alloc(41, step);
         std::uint64_t size = step;
         p.run([&](std::uint32_t i) {
           if (i % every != 0) return;
           const bool is_last = i + every >= p.steps();
           const AllocationId next = p.alloc(41, size += step, is_last);
           p.free(history);
           history = next;
         });
       }},
      {"native with teardown", true,
       [](P& p) {
         std::vector<AllocationId> all;
         p.set_marked(p.chance(0.5));
         for (int k = 0; k < 10; ++k) all.push_back(p.alloc(0, 1U << p.between(12, 22)));
         const auto steps = p.steps();
         for (std::uint32_t i = 0; i < steps; ++i) {
           Kept own;
           for (int k = 0; k < 12; ++k) own.push_back(p.alloc(0, 4096U << static_cast<unsigned>(k % 4)));
           p.alloc(0, 10000, true);
           free_front(p, own, 0);
           p.end_step();
         }
         for (const auto id : all) p.free(id);
       }},

      {"many ways to one line", true,
       [](P& p) { p.run([&](std::uint32_t) { p.alloc_by_way(41, p.below(1000), 5000, true); }); }},
      {"every layer's own hook", true,
       [](P& p) { p.run([&](std::uint32_t) { p.alloc_by_way(41, p.below(24), p.batch(), true); }); }},
      {"native, three leaks", true,
       [](P& p) {
         const bool has_stacks = p.chance(0.5);
         p.set_marked(false);
         const auto line = [&](std::uint32_t n) { return has_stacks ? n : 0; };
         const auto weights = p.alloc(line(50), 32U << 20U);
         const auto every = p.between(2, 4);
         for (std::uint32_t i = 0; i < 24; ++i) {
           const auto id = p.alloc(line(51), 3U << 20U, i % every == every - 1);
           if (i % every != every - 1) p.free(id);
           p.alloc(line(52), 5U << 19U, true);
           p.alloc(line(53), (64 + i) << 10U, true);
         }
         p.free(weights);
       }},
      {"beside a slow ring", true,
       [](P& p) {
         Kept ring;
         p.run([&](std::uint32_t i) {
           if (i % 4 == 0) ring.push_back(p.alloc(41, 65536));
           if (i % 3 == 0) p.alloc(43, 700, true);
           free_front(p, ring, 4);
         });
       }},

      {"plain", false, [](P& p) { p.run([](std::uint32_t) {}); }},
      {"ring", false,
       [](P& p) {
         const auto size = p.between(2, p.steps() * 3 / 4);
         const auto n = p.between(1, 4);
         Kept ring;
         p.run([&](std::uint32_t) {
           for (std::uint64_t k = 0; k < n; ++k) ring.push_back(p.alloc(41, p.batch()));
           free_front(p, ring, size * n);
         });
       }},
      {"ring of any size", false,
       [](P& p) {
         const auto size = p.between(2, p.steps() * 3 / 4);
         Kept ring;
         p.run([&](std::uint32_t) {
           ring.push_back(p.alloc(41, std::uint64_t{1} << p.between(5, 20) | p.below(512)));
           free_front(p, ring, size);
         });
       }},
      {"random pool", false,
       [](P& p) {
         const auto n = p.between(1, 8);
         const auto size = n * p.between(2, p.steps() / 3);
         Kept pool;
         p.run([&](std::uint32_t) {
           for (std::uint64_t k = 0; k < n; ++k) {
             if (pool.size() >= size) free_any(p, pool);
             pool.push_back(p.alloc(41, p.batch()));
           }
         });
       }},
      {"lru", false,
       [](P& p) {
         const auto size = p.between(3, 9);
         std::vector<std::pair<std::uint64_t, AllocationId>> lru;
         const auto n = p.between(1, 6);
         const bool sized = p.chance(0.5);
         p.run([&](std::uint32_t) {
           for (std::uint64_t k = 0; k < n; ++k) {
             const auto key = static_cast<std::uint64_t>(1 / (0.002 + 0.001 * static_cast<double>(p.below(1000))));
             const auto found = std::find_if(lru.begin(), lru.end(), [&](const auto& e) { return e.first == key; });
             auto entry = std::make_pair(key, AllocationId::none);
             if (found != lru.end()) {
               entry = *found;
               lru.erase(found);
             } else {
               entry.second = p.alloc(41, sized ? 512 * key : 8192);
             }
             lru.push_back(entry);
             if (lru.size() > size) {
               p.free(lru.front().second);
               lru.erase(lru.begin());
             }
           }
         });
       }},
      {"table by key", false,
       [](P& p) {
         const auto keys = p.between(3, p.steps() / 3);
         std::vector<bool> has(keys);
         const bool sized = p.chance(0.5);
         p.run([&](std::uint32_t) {
           const auto key = p.below(keys);
           if (!has[key]) p.alloc(41, sized ? 512 * (key + 1) : 4096);
           has[key] = true;
         });
       }},
      {"warm-up", false,
       [](P& p) {
         const auto until = p.between(1, p.steps() / 2);
         const auto every = p.between(1, 4);
         p.run([&](std::uint32_t i) {
           if (i < until && i % every == 0) {
             p.alloc(41, 65536);
             p.alloc(41, 512);
           }
         });
       }},
      {"layers unfrozen", false,
       [](P& p) {
         const auto every = p.between(5, p.steps() / 4);
         const auto times = p.between(1, 3);
         p.run([&](std::uint32_t i) {
           for (std::uint32_t k = 0; i % every == 0 && i / every < times && k < 2 * p.layers(); ++k) p.alloc(41, 30000);
         });
       }},
      {"sawtooth", false,
       [](P& p) {
         const auto period = p.between(3, p.steps() / 2);
         Kept garbage;
         p.run([&](std::uint32_t i) {
           garbage.push_back(p.alloc(41, p.batch()));
           if (i % period == period - 1) free_front(p, garbage, 0);
         });
       }},
      {"sawtooth at its own pace", false,
       [](P& p) {
         auto period = static_cast<double>(p.between(4, 12));
         double next = period;
         Kept garbage;
         p.run([&](std::uint32_t i) {
           for (int k = 0; k < 3; ++k) garbage.push_back(p.alloc(41, 5000));
           if (i >= next) {
             free_front(p, garbage, 0);
             period *= 1.25;
             next = i + period;
           }
         });
       }},
      {"evaluation", false,
       [](P& p) {
         const auto every = p.between(3, p.steps() / 3);
         Kept outputs;
         p.run([&](std::uint32_t i) {
           if (i % every != 0) return;
           free_front(p, outputs, 0);
           for (int k = 0; k < 8; ++k) outputs.push_back(p.alloc(41, p.batch()));
         });
       }},
      {"final evaluation", false,
       [](P& p) {
         p.run([&](std::uint32_t i) {
           if (i * 10 > p.steps() * 9) p.alloc(41, p.batch());
         });
       }},
      {"best weights", false,
       [](P& p) {
         Kept best;
         p.run([&](std::uint32_t i) {
           if (!p.chance(4.0 / (i + 4))) return;
           Kept old;
           old.swap(best);
           for (int k = 0; k < 6; ++k) best.push_back(p.alloc(41, 40000));
           free_front(p, old, 0);
         });
       }},
      {"curriculum", false,
       [](P& p) {
         Kept last;
         p.run(
             [&](std::uint32_t i) {
               p.train(4096 + 512 * i);
               last.push_back(p.alloc(41, 4096 + 512 * i));
               free_front(p, last, 1);
             },
             false);
       }},
      {"keys and values", false,
       [](P& p) {
         Kept cache;
         std::uint64_t left = 0;
         p.run([&](std::uint32_t) {
           if (left == 0) {
             free_front(p, cache, 0);
             left = p.between(3, p.steps() / 4);
           }
           --left;
           cache.push_back(p.alloc(41, 8192));
           cache.push_back(p.alloc(41, 8192));
         });
       }},
      {"one cache, replaced", false,
       [](P& p) {
         Kept cache;
         std::uint64_t n = 0;
         p.run([&](std::uint32_t) {
           cache.push_back(p.alloc(41, 8192 * ++n));
           free_front(p, cache, 1);
           if (p.chance(0.05) || n == 15) n = 0;  // one that was never emptied yet is what "ever larger copy" is
         });
       }},
      {"requests", false,
       [](P& p) {
         const auto rate = p.between(1, 6);
         const double end = 1 / static_cast<double>(p.between(2, 6));
         Kept open;
         p.run([&](std::uint32_t) {
           for (std::uint64_t k = 0; k < rate; ++k) open.push_back(p.alloc(41, p.batch()));
           for (std::size_t k = open.size(); k-- > 0;)
             if (p.chance(end)) {
               std::swap(open[k], open.back());
               p.free(open.back());
               open.pop_back();
             }
         });
       }},
      {"prefetch", false,
       [](P& p) {
         const auto ahead = p.between(1, 6);
         Kept queue;
         p.run([&](std::uint32_t) {
           queue.push_back(p.alloc(41, p.batch()));
           free_front(p, queue, ahead);
         });
       }},
      {"queue that breathes", false,
       [](P& p) {
         const auto width = static_cast<double>(p.between(4, p.steps() / 4));
         Kept queue;
         p.run([&](std::uint32_t i) {
           for (int k = 0; k < 2; ++k) queue.push_back(p.alloc(41, 9000));
           free_front(p, queue, static_cast<std::size_t>(width * (1.5 + std::sin(i * 0.35))));
         });
       }},
      {"accumulated gradients", false,
       [](P& p) {
         const auto every = p.between(2, 8);
         Kept gradients;
         p.run([&](std::uint32_t i) {
           for (int k = 0; k < 4; ++k)
             if (gradients.size() < 4) gradients.push_back(p.alloc(0, 7777));
           if (i % every == every - 1) free_front(p, gradients, 0);
         });
       }},
      {"stopped in a step", false,
       [](P& p) {
         p.run([](std::uint32_t) {});
         p.forward(p.batch());
       }},
      {"slow ring", false,
       [](P& p) {
         const auto every = p.between(2, 6);
         const auto size = p.between(2, p.steps() / every * 2 / 3);
         Kept ring;
         p.run([&](std::uint32_t i) {
           if (i % every == 0) ring.push_back(p.alloc(41, 65536));
           free_front(p, ring, size);
         });
       }},
      {"last in, first out", false,
       [](P& p) {
         Kept work;
         p.run([&](std::uint32_t) {
           for (int k = 0; k < 4; ++k) {
             if (work.size() < 3 || p.chance(0.5 - 0.02 * (static_cast<double>(work.size()) - 12)))
               work.push_back(p.alloc(41, p.batch()));
             else {
               p.free(work.back());
               work.pop_back();
             }
           }
         });
       }},
      {"many ways to a ring", false,
       [](P& p) {
         const auto size = p.between(2, p.steps() * 3 / 4);
         Kept ring;
         p.run([&](std::uint32_t) {
           ring.push_back(p.alloc_by_way(41, p.below(p.chance(0.5) ? 5 : 500), 5000));
           free_front(p, ring, size);
         });
       }},
      {"native ring, no stacks", false,
       [](P& p) {
         Kept ring;
         const auto size = p.between(2, 30);
         const auto weights = p.alloc(0, 1U << 24U);
         for (std::uint32_t i = 0; i < p.steps(); ++i) {
           for (int k = 0; k < 5; ++k) p.free(p.alloc(0, 4096U << static_cast<unsigned>(k)));
           ring.push_back(p.alloc(0, 10000));
           free_front(p, ring, size);
           p.end_step();
         }
         p.free(weights);
       }},
      {"random churn", false,
       [](P& p) {
         Kept live;
         const auto size = p.between(20, 300);
         for (int k = 0; k < 4000; ++k) {
           live.push_back(p.alloc(41, std::uint64_t{1} << p.between(3, 20)));
           if (live.size() > size) free_any(p, live);
         }
       }},
  };
  return kinds;
}

}  // namespace memreel::test
