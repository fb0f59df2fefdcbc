// SPDX-License-Identifier: Apache-2.0
// Runs the unwinding table fuzzer's target over this program's tables and over damaged copies, without libFuzzer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "collector/stacks/call_frames.h"
#include "tests/bench/synthetic.h"
#include "tests/fuzz/corpus.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace memreel::stacks {
namespace {

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// This program's descriptions from the start of .eh_frame, one input for each way to look at them.
std::string some_frames() {
  const CodeMap map;
  const CallFrames tables = map.find(reinterpret_cast<std::uintptr_t>(&some_frames))->tables;
  std::int32_t relative = 0;
  std::memcpy(&relative, tables.header.bytes.data() + 4, sizeof relative);
  const std::uintptr_t begin = tables.header.address + 4 + static_cast<std::uintptr_t>(std::intptr_t{relative});
  const MappedBytes frames = tables.frames.from(begin);
  return text_of(frames.bytes.first(std::min<std::size_t>(frames.bytes.size(), 2000)));
}

std::string changed(std::string input, synthetic::Random& random) {
  for (std::uint64_t n = 1 + random.below(6); n > 0; --n) {
    const std::size_t at = random.below(input.size());
    input[at] =
        random.below(2) == 0 ? static_cast<char>(input[at] ^ (1 << random.below(8))) : static_cast<char>(random.next());
  }
  return input;
}

TEST(FuzzCallFrames, DamagedDescriptions) {
  synthetic::Random random(11);
  const std::string frames = some_frames();
  ASSERT_GT(frames.size(), 500U);
  for (int i = 0; i < 20'000; ++i) {
    // Treats any position in the frames as a description, and looks up any address.
    std::string input{'\1', static_cast<char>(random.next()), '\0', static_cast<char>(random.next()),
                      static_cast<char>(random.below(8))};
    run(changed(input + frames.substr(0, 200 + random.below(frames.size() - 200)), random));
  }
}

/// A common entry and a description covering every address, with a random program.
TEST(FuzzCallFrames, RandomPrograms) {
  using namespace std::string_literals;
  synthetic::Random random(12);
  for (int i = 0; i < 20'000; ++i) {
    const std::string common = "\x14\0\0\0\0\0\0\0\1zR\0\1\x78\x10\1\x03\x0C\7\x08\x90\1\0\0"s;
    std::string program(random.below(60), '\0');
    for (char& byte : program) {
      byte = static_cast<char>(random.next());
      // Makes expressions and their operations more frequent than chance would.
      if (random.below(3) == 0) byte = "\x0F\x10\x16\x06\x77\x76\x80\x3B\x2A\x24\x22\x1A\x0A\x0B\4\7"[random.below(16)];
    }
    const std::string description = "\0\0\0\0"s + "\0\0\0\0"s + "\xFF\xFF\xFF\x7F"s + "\0"s + program;
    std::string entry{static_cast<char>(description.size()), '\0', '\0', '\0'};
    std::string input = "\1\x10\0\0\0"s + common + entry + description;
    input[3] = static_cast<char>(common.size());
    input[5 + common.size() + 4] = static_cast<char>(common.size() + 4);
    run(input);
  }
}

TEST(FuzzCallFrames, DamagedHeaders) {
  synthetic::Random random(13);
  const std::string frames = some_frames();
  for (int i = 0; i < 20'000; ++i) {
    std::string input(5 + random.below(64), '\0');
    for (char& byte : input) byte = static_cast<char>(random.next());
    input[0] = '\0';
    input[4] = '\0';
    if (input.size() > 9) input.replace(5, 4, "\1\x1B\3\x3B");
    run(input + frames.substr(0, random.below(frames.size())));
  }
}

TEST(FuzzCallFrames, SurvivesTheCorpus) {
  for (const auto& file : fuzz::files_in(MEMREEL_CORPUS_DIR "/fuzz_call_frames")) {
    const fuzz::Input input = fuzz::content_of(file);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
}

}  // namespace
}  // namespace memreel::stacks
