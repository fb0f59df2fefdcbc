// SPDX-License-Identifier: Apache-2.0
// Runs commands over recordings that once broke them, and over mutated versions, without libFuzzer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/fuzz/corpus.h"
#include "tests/fuzz/fuzzed_commands.h"
#include "tests/fuzz/hostile_mutation.h"
#include "tests/fuzz/viewing.h"

namespace memreel::fuzz {
namespace {

class Commands : public testing::TestWithParam<std::filesystem::path> {
 protected:
  /// A few KiB that decode to 400,000 events or a million frames, and a whole training run: a command takes seconds on
  /// them in a sanitized build, so they get a third of the commands and a tenth of the changed versions. In release
  /// builds tests/e2e/test_hostile.py runs each of its commands, nearly the same ones, on them.
  bool takes_long() const {
    const std::string name = GetParam().filename().string();
    return name == "ev400.reel" || name == "deep1m.reel" || name == "predicted_without_end.reel";
  }
};

TEST_P(Commands, AllOfThemSurvive) {
  const Input recording = content_of(GetParam());
  ASSERT_FALSE(recording.empty());
  const std::size_t step = takes_long() ? 3 : 1;
  for (std::size_t which = 0; which < command_count(); which += step) run_command(which, recording);
  view(recording);
}

TEST(EveryCommand, SurvivesTheCorpus) {
  const auto files = files_in(MEMREEL_CORPUS_DIR "/fuzz_commands");
  ASSERT_FALSE(files.empty());
  for (const auto& file : files) run_some_command(content_of(file));
}

TEST(Viewing, SurvivesTheCorpus) {
  const auto files = files_in(MEMREEL_CORPUS_DIR "/fuzz_view");
  ASSERT_FALSE(files.empty());
  for (const auto& file : files) view(content_of(file));
}

TEST_P(Commands, SomeOfThemSurviveItsChangedVersions) {
  const int versions = takes_long() ? 2 : 20;
  std::mt19937 random(1);
  const Input recording = content_of(GetParam());
  for (int i = 0; i < versions; ++i) {
    std::string changed = mutated(recording, random);
    changed = mutated({reinterpret_cast<const std::uint8_t*>(changed.data()), changed.size()}, random);
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(changed.data()), changed.size());
    run_command(random() % command_count(), bytes);
    view(bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Commands, testing::ValuesIn(files_in(MEMREEL_HOSTILE_DIR)), [](const auto& file) {
  std::string name = file.param.filename().string();
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace memreel::fuzz
