// SPDX-License-Identifier: Apache-2.0
// Runs the reader fuzzer's target over the golden files and damaged copies of them, without libFuzzer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <protozero/pbf_builder.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/wire/schema.h"
#include "tests/bench/synthetic.h"
#include "tests/fuzz/corpus.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace memreel {
namespace {

constexpr int rounds = 1500;

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::vector<std::string> golden_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(MEMREEL_GOLDEN_DIR)) {
    if (entry.path().extension() != ".reel") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

/// A few bytes changed, removed, or inserted elsewhere.
std::string damaged(std::string input, synthetic::Random& random) {
  for (std::uint64_t n = 1 + random.below(4); n > 0 && input.size() > 1; --n) {
    const std::size_t at = random.below(input.size());
    const std::size_t size = random.below(std::min<std::size_t>(40, input.size() - at));
    switch (random.below(4)) {
      case 0:
        input[at] = static_cast<char>(input[at] ^ (1 << random.below(8)));
        break;
      case 1:
        input[at] = static_cast<char>(random.next());
        break;
      case 2:
        input.erase(at, size);
        break;
      default:
        input.insert(random.below(input.size()), input.substr(at, size));
        break;
    }
  }
  return input;
}

TEST(FuzzReader, GoldenFiles) {
  for (const std::string& file : golden_files()) run('\0' + file);
}

TEST(FuzzReader, DamagedFiles) {
  synthetic::Random random(1);
  const auto files = golden_files();
  ASSERT_FALSE(files.empty());
  for (int i = 0; i < rounds; ++i) run('\0' + damaged(files[random.below(files.size())], random));
}

/// A packet of the second kind of input; `numbers` are a block's.
template <class Field, class Fill>
std::string message(wire::PacketField kind, std::string numbers, Fill fill) {
  std::string content;
  {
    protozero::pbf_builder<Field> builder(content);
    fill([&builder](Field field, std::string_view bytes) { builder.add_bytes(field, bytes.data(), bytes.size()); });
  }
  return std::string{static_cast<char>(static_cast<int>(kind) - 2), static_cast<char>(content.size() >> 8U),
                     static_cast<char>(content.size())} +
         std::move(numbers) + content;
}

TEST(FuzzReader, DamagedMessages) {
  using namespace std::string_view_literals;
  using wire::PacketField;
  const std::string tables = message<wire::RowsField>(PacketField::tables, "", [](auto add) {
    using Field = wire::RowsField;
    for (const std::string_view text : {"name"sv, "file"sv}) add(Field::strings, text);
    for (const Field one : {Field::frame_function, Field::frame_line, Field::stack_frame, Field::origin_heap,
                            Field::origin_pool, Field::origin_thread})
      add(one, "\1"sv);
    for (const Field zero :
         {Field::frame_module_offset, Field::stack_caller_back, Field::origin_stream, Field::frame_module})
      add(zero, "\0"sv);
    add(Field::frame_file, "\2"sv);
    for (const Field named : {Field::modules, Field::heaps, Field::pools, Field::marks}) add(named, "\x08\1"sv);
    add(Field::threads, "\x10\1"sv);
    add(Field::settings, "\x0A\1\1\x12\1\2"sv);
  });
  const std::string block = message<wire::ColumnField>(PacketField::events, "\x07\2", [](auto add) {
    using Field = wire::ColumnField;
    add(Field::kind, "\1\1\2\3\2\4\x0D"sv);
    add(Field::time_delta, "\0\2\4\6\x08\1\x0A"sv);
    for (const Field one : {Field::origin, Field::stack, Field::value, Field::unmatched_size}) add(one, "\1"sv);
    add(Field::requested_back, "\2\0"sv);
    add(Field::address, "\5\6\7"sv);
    add(Field::size, "\5\6\7"sv);
  });
  const std::string keyframe = message<wire::KeyframeRowsField>(PacketField::keyframe, "", [](auto add) {
    using Field = wire::KeyframeRowsField;
    for (const Field field :
         {Field::allocation_delta, Field::address, Field::size, Field::origin, Field::stack, Field::pending,
          Field::segment_address, Field::segment_size, Field::segment_origin, Field::segment_mapped})
      add(field, "\1"sv);
  });
  const std::string sound = '\1' + tables + block + keyframe + block;
  run(sound);
  synthetic::Random random(2);
  for (int i = 0; i < 4 * rounds; ++i) run(damaged(sound, random));
}

TEST(FuzzReader, Noise) {
  synthetic::Random random(3);
  for (int i = 0; i < rounds; ++i) {
    std::string noise(random.below(300), '\0');
    for (char& byte : noise) byte = static_cast<char>(random.next());
    run(noise);
  }
}

TEST(FuzzReader, SurvivesTheCorpus) {
  for (const auto& file : fuzz::files_in(MEMREEL_CORPUS_DIR "/fuzz_reader")) {
    const fuzz::Input input = fuzz::content_of(file);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
}

}  // namespace
}  // namespace memreel
