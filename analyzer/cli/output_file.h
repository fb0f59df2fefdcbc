// SPDX-License-Identifier: Apache-2.0
// Output files of commands.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>

#include "formats/model/result.h"

namespace memreel::cli {

/// Calls `write` with the file, or with standard output if `file` is empty. A regular file is created or replaced
/// atomically once everything is written, and keeps its mode. Symbolic links are followed; devices, pipes and sockets
/// are written to directly. Fails if not everything could be written, including to standard output.
Result<void> write_output(const std::filesystem::path& file, const std::function<Result<void>(std::ostream&)>& write);

/// Fails if `output` is the file `input`, which writing would destroy.
Result<void> must_differ(const std::filesystem::path& input, const std::filesystem::path& output);

/// Whether `output` means standard output: it is empty, or names the same file.
bool is_standard_output(const std::filesystem::path& output);

/// Fails if `output` is standard output, which --json uses for its document.
Result<void> leaves_room_for_json(const std::filesystem::path& output);

/// Flushes standard output. Fails if not everything could be written.
Result<void> flush_output();

}  // namespace memreel::cli
