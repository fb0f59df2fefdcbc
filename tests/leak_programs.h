// SPDX-License-Identifier: Apache-2.0
// Made-up programs of which it is known what leaks: many kinds, each different with every seed.
#pragma once

#include <utility>
#include <vector>

#include "tests/leak_programs/clean.h"
#include "tests/leak_programs/leaking.h"

namespace memreel::test {

inline const std::vector<KindOfProgram>& kinds_of_programs() {
  static const std::vector<KindOfProgram> kinds = [] {
    std::vector<KindOfProgram> all = leaking_programs();
    for (KindOfProgram& kind : clean_programs()) all.push_back(std::move(kind));
    return all;
  }();
  return kinds;
}

}  // namespace memreel::test
