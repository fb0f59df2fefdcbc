// Where a command puts what it makes.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>

#include "formats/model/result.h"

namespace memreel::cli {

/// Calls `write` with standard output when `file` is empty, else with the file. A regular file appears, or is replaced,
/// only once all is written, and keeps its mode; through a symbolic link its target is; a device, a pipe or a socket is
/// written to. Fails where not everything could be written, be it to standard output.
Result<void> write_output(const std::filesystem::path& file, const std::function<Result<void>(std::ostream&)>& write);

/// Fails when `output` is the file `input`, which writing it would destroy.
Result<void> must_differ(const std::filesystem::path& input, const std::filesystem::path& output);

/// Whether a command writes to standard output when it is given `output`: it is empty, or names the same file.
bool is_standard_output(const std::filesystem::path& output);

/// Fails when `output` is standard output, where the document of --json goes.
Result<void> leaves_room_for_json(const std::filesystem::path& output);

/// Hands what was printed to standard output to the system. Fails when it did not take everything.
Result<void> flush_output();

}  // namespace memreel::cli
