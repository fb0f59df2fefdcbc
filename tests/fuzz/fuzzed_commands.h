// SPDX-License-Identifier: Apache-2.0
// memreel's commands as functions of a file, in one process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace memreel::fuzz {

/// The number of ways to run a command: every command, with its sections, formats and policies; and a fleet.
std::size_t command_count();

/// Runs one of them over a recording and discards its output. Aborts on an exception or an exit code other than 0, 1 or
/// 2.
void run_command(std::size_t which, std::span<const std::uint8_t> recording);

/// Chosen by the recording's content, so that findings are reproducible.
void run_some_command(std::span<const std::uint8_t> recording);

}  // namespace memreel::fuzz
