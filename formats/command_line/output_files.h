// SPDX-License-Identifier: Apache-2.0
// Files that a program is to write: none of them may be another's, or one that is read.
#pragma once

#include <filesystem>
#include <span>

#include "formats/model/result.h"

namespace memreel {

/// Fails if `output` is the file `input`, which writing would destroy.
Result<void> must_differ(const std::filesystem::path& input, const std::filesystem::path& output);
/// Fails if one of `outputs`, of which some may be empty, is one of `inputs`, or if two are one file.
Result<void> must_differ(std::span<const std::filesystem::path> inputs, std::span<const std::filesystem::path> outputs);

}  // namespace memreel
