// SPDX-License-Identifier: Apache-2.0
#include "formats/command_line/output_files.h"

#include <set>

namespace memreel {

Result<void> must_differ(const std::filesystem::path& input, const std::filesystem::path& output) {
  std::error_code ignored;
  if (!std::filesystem::equivalent(input, output, ignored)) return {};
  return Error{.what = "the output would overwrite the input", .where = output.string(), .remedy = "name another file"};
}

Result<void> must_differ(std::span<const std::filesystem::path> inputs,
                         std::span<const std::filesystem::path> outputs) {
  std::set<std::filesystem::path> names;
  for (const std::filesystem::path& output : outputs) {
    if (output.empty()) continue;
    for (const std::filesystem::path& input : inputs)
      if (Result<void> differ = must_differ(input, output); !differ) return differ;
    std::error_code ignored;
    const bool is_file = !std::filesystem::exists(output, ignored) || std::filesystem::is_regular_file(output, ignored);
    // A relative name of which nothing exists yet would stay relative.
    const std::filesystem::path absolute = std::filesystem::absolute(output, ignored);
    if (is_file && !names.insert(std::filesystem::weakly_canonical(absolute, ignored)).second)
      return Error{.what = "two outputs would go to this file", .where = output.string(), .remedy = "name two files"};
  }
  return {};
}

}  // namespace memreel
