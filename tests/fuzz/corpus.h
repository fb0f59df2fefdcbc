// SPDX-License-Identifier: Apache-2.0
// The inputs of fuzzers that are checked in: tests/fuzz/corpus/TARGET.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace memreel::fuzz {

using Input = std::vector<std::uint8_t>;

inline Input content_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// The files of a directory by name, but for its documents; none when it is not there.
inline std::vector<std::filesystem::path> files_in(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(directory, none))
    if (entry.is_regular_file() && entry.path().extension() != ".md") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

}  // namespace memreel::fuzz
