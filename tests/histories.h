// SPDX-License-Identifier: Apache-2.0
// The real histories that tests run on: all of them beside a developer's checkout, and the samples that come with it.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace memreel::test {

/// Whether this is a build with AddressSanitizer or ThreadSanitizer, in which everything takes several times as long.
/// They see the same code in fewer or smaller inputs.
#ifdef MEMREEL_SANITIZED
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// A file that open_any() reads.
struct History {
  std::string name;  // "gpt_default", "leaks/leak_plain"
  std::filesystem::path file;
};

/// What a test that takes one is called.
inline void PrintTo(const History& history, std::ostream* out) { *out << history.name; }  // NOLINT: GoogleTest's name

/// The root of the repository.
std::filesystem::path source_directory();

/// $MEMREEL_HISTORIES, or shared/histories beside the checkout; nothing when there is neither.
inline std::optional<std::filesystem::path> history_directory() {
  const char* named = std::getenv("MEMREEL_HISTORIES");  // NOLINT(concurrency-mt-unsafe): nobody sets it meanwhile
  const std::filesystem::path directory =
      named != nullptr ? std::filesystem::path(named) : source_directory().parent_path() / "shared" / "histories";
  if (!std::filesystem::is_directory(directory)) return std::nullopt;
  return directory;
}

/// All histories of a directory, by name.
inline std::vector<History> histories_in(const std::filesystem::path& root) {
  std::vector<History> found;
  if (!std::filesystem::is_directory(root)) return found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string name = std::filesystem::relative(entry.path(), root).string();
    for (const std::string_view ending : {".pickle.xz", ".pickle", ".reel", ".xplane.pb.gz"})
      if (name.size() > ending.size() && name.ends_with(ending))
        found.push_back({name.substr(0, name.size() - ending.size()), entry.path()});
  }
  std::sort(found.begin(), found.end(), [](const History& a, const History& b) { return a.name < b.name; });
  return found;
}

/// All histories of history_directory(), and the samples that it does not have. In a sanitized build without the one of
/// two million events.
inline std::vector<History> histories() {
  std::vector<History> found = histories_in(source_directory() / "samples" / "traces");
  if (const auto directory = history_directory()) {
    std::vector<History> originals = histories_in(*directory);
    std::erase_if(found, [&](const History& sample) {
      return std::any_of(originals.begin(), originals.end(),
                         [&](const History& original) { return original.name == sample.name; });
    });
    found.insert(found.end(), originals.begin(), originals.end());
  }
  if (sanitized) std::erase_if(found, [](const History& history) { return history.name == "random_2m"; });
  return found;
}

/// Where histories() come from, for the output of tests.
inline std::string histories_source() {
  const auto directory = history_directory();
  return directory ? "histories of " + directory->string() + " and the samples"
                   : "the samples only (no shared/histories beside the checkout, MEMREEL_HISTORIES not set)";
}

/// One of histories() by name.
inline std::optional<std::filesystem::path> history(const std::string& name) {
  for (const History& candidate : histories())
    if (candidate.name == name) return candidate.file;
  return std::nullopt;
}

}  // namespace memreel::test
