// SPDX-License-Identifier: Apache-2.0
// Programs that keep what they should not.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tests/leak_programs/made_up_program.h"

namespace memreel::test {

inline std::vector<KindOfProgram> leaking_programs() {
  using P = MadeUpProgram;
  return {
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

  };
}

}  // namespace memreel::test
