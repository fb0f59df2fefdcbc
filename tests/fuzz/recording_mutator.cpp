// SPDX-License-Identifier: Apache-2.0
// The mutator of the fuzzers that take recordings and logs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "tests/fuzz/hostile_mutation.h"

// The names that libFuzzer requires.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::mt19937 random(seed);
  if (random() % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::string changed(reinterpret_cast<const char*>(data), size);
  for (unsigned rounds = 1 + random() % 4; rounds > 0; --rounds)
    changed = memreel::fuzz::mutated({reinterpret_cast<const std::uint8_t*>(changed.data()), changed.size()}, random);
  if (changed.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(changed.begin(), changed.end(), data);
  return changed.size();
}
// NOLINTEND(readability-identifier-naming)
