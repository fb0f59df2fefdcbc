// Runs commands over the recordings that once hurt, and over changed versions of them, without libFuzzer.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/fuzz/commands.h"
#include "tests/fuzz/hostile_mutation.h"
#include "tests/fuzz/viewing.h"

namespace memreel::fuzz {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::vector<std::filesystem::path> recordings() {
  std::vector<std::filesystem::path> found;
  for (const char* const directory : {MEMREEL_HOSTILE_DIR, MEMREEL_CORPUS_DIR})
    for (const auto& entry : std::filesystem::directory_iterator(directory))
      if (entry.is_regular_file() && entry.path().extension() != ".md") found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

Bytes content_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class Commands : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(Commands, AllOfThemSurvive) {
  const Bytes recording = content_of(GetParam());
  ASSERT_FALSE(recording.empty());
  for (std::size_t which = 0; which < command_count(); ++which) run_command(which, recording);
  view(recording);
}

TEST_P(Commands, SomeOfThemSurviveItsChangedVersions) {
  constexpr int versions = 20;
  std::mt19937 random(1);
  const Bytes recording = content_of(GetParam());
  for (int i = 0; i < versions; ++i) {
    std::string changed = mutated(recording, random);
    changed = mutated({reinterpret_cast<const std::uint8_t*>(changed.data()), changed.size()}, random);
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(changed.data()), changed.size());
    run_command(random() % command_count(), bytes);
    view(bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Fuzz, Commands, testing::ValuesIn(recordings()), [](const auto& file) {
  std::string name = file.param.filename().string();
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace memreel::fuzz
