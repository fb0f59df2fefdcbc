// SPDX-License-Identifier: Apache-2.0
// The memory that this process may take: the kernel's limit (RLIMIT_DATA), beyond which allocations fail
// (std::bad_alloc), which main() reports.
#pragma once

#include <filesystem>
#include <optional>
#include <span>

#include "formats/model/units.h"

namespace memreel {

/// Limits what this process may allocate from now on, threads' stacks included, to `memory_limit` and what the program
/// takes without input, and `more`; 0: 256 times the size of `files`, but at least 1 GiB and at most a quarter of the
/// machine's memory. Does nothing under AddressSanitizer and ThreadSanitizer, which take terabytes.
void bound_memory(std::span<const std::filesystem::path> files, Bytes memory_limit, Bytes more = {});

/// The limit that bound_memory() set; none if it was not called.
std::optional<Bytes> memory_bound();

/// For a child process, which has a limit of its own.
void lift_memory_bound();

}  // namespace memreel
