// SPDX-License-Identifier: Apache-2.0
// From a program's first call to its trace.
#include "collector/trace/recording.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "formats/reader/trace_reader.h"

namespace memreel::agent {
namespace {

// Rings fill up before the writer thread's first pass.
TEST(Recording, EveryCallIsInTheTraceOrCountedAsLost) {
  constexpr std::uint64_t per_thread = 5000;
  constexpr unsigned threads = 4;
  const auto folder = std::filesystem::path(::testing::TempDir()) / "recording_test";
  for (int run = 0; run < 20; ++run) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    const Options options{.output = (folder / "lossy.reel").string(), .ring_events = 64, .depth = 0};
    Recorder recorder(options);
    auto recording = Recording::begin(options, recorder, {.source = "test"}, [](const Recording::Outcome&) {});
    ASSERT_TRUE(recording) << recording.error().message();
    std::vector<std::thread> program;
    for (unsigned t = 0; t < threads; ++t)
      program.emplace_back([&] {
        for (std::uint64_t i = 0; i < per_thread; ++i)
          recorder.emit({.address = 0x1000, .size = 512, .kind = RecordKind::alloc});
      });
    for (std::thread& thread : program) thread.join();
    const auto outcome = (*recording)->end();
    ASSERT_TRUE(outcome && outcome->result);
    EXPECT_EQ(outcome->events + outcome->lost, threads * per_thread);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace memreel::agent
