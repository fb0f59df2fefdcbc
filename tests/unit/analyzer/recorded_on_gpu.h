// SPDX-License-Identifier: Apache-2.0
// Reads a real driver's answers: tests/gpu/recorded, recorded on an NVIDIA H200 by tests/gpu/probe_allocators.
// probe_script.h describes the commands.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace memreel::recorded_on_gpu {

/// A line of a recording: the words of the command and of the answer.
struct Line {
  std::string command;
  std::istringstream words, answer;

  std::uint64_t word() { return number(words); }
  std::int64_t answered() {
    std::int64_t value = -1;
    answer >> value;
    return value;
  }

 private:
  static std::uint64_t number(std::istream& from) {
    std::uint64_t value = 0;
    from >> value;
    return value;
  }
};

/// Stops at the first failure.
void for_each_line(const std::string& name, auto&& visit) {
  std::ifstream file(std::filesystem::path(RECORDED_ON_GPU) / name);
  ASSERT_TRUE(file) << name;
  std::size_t number = 0;
  for (std::string text; std::getline(file, text) && !::testing::Test::HasFatalFailure();) {
    SCOPED_TRACE(name + ":" + std::to_string(++number) + ": " + text);
    const std::size_t colon = text.find(" :");
    if (text.starts_with('#') || colon == std::string::npos) continue;
    Line line{.words = std::istringstream(text.substr(0, colon)), .answer = std::istringstream(text.substr(colon + 2))};
    line.words >> line.command;
    visit(line);
  }
}

}  // namespace memreel::recorded_on_gpu
