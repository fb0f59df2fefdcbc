// SPDX-License-Identifier: Apache-2.0
// Runs the target of the fuzzer of logs over every text that is known, and damaged versions, without libFuzzer.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "analyzer/analysis/explain/failure.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/hostile_mutation.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace memreel::fuzz {
namespace {

TEST(FuzzExplain, DamagedTexts) {
  std::mt19937 random(7);
  std::string log;
  for (const explain::Grammar* const text : explain::all_texts())
    log += "[rank0]: step 7 of 10\n" + std::string(text->example) + "\n  File \"train.py\", line 3, in <module>\n";
  for (int i = 0; i < 8; ++i) {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(log.data()), log.size());
    for (int changes = 0; changes < 20; ++changes)
      log = mutated({reinterpret_cast<const std::uint8_t*>(log.data()), log.size()}, random);
  }
}

TEST(FuzzExplain, CheckedInInputs) {
  for (const auto& file : files_in(MEMREEL_CORPUS_DIR "/fuzz_explain")) {
    const Input input = content_of(file);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
}

}  // namespace
}  // namespace memreel::fuzz
