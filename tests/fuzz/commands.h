// memreel's commands as functions of a file, in one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace memreel::fuzz {

/// How many ways there are to run a command: every command, with its sections, formats and policies; and a fleet.
std::size_t command_count();

/// Runs one of them over a recording, its output thrown away. Aborts when it ends with anything but 0, 1 or 2, or with
/// an exception.
void run_command(std::size_t which, std::span<const std::uint8_t> recording);

/// The one that the recording's content chooses: what is found once is found again.
void run_some_command(std::span<const std::uint8_t> recording);

}  // namespace memreel::fuzz
