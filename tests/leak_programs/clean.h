// SPDX-License-Identifier: Apache-2.0
// Programs that hold much, long or more and more for a while, and let go of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/leak_programs/made_up_program.h"

namespace memreel::test {

inline std::vector<KindOfProgram> clean_programs() {
  using P = MadeUpProgram;
  return {
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
}

}  // namespace memreel::test
