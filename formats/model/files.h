// SPDX-License-Identifier: Apache-2.0
// Files of this machine: read as a whole, kept out of a program's way, how much memory they may claim, and the sample
// recording.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

// memreel's files in a program that does not know about them: it may close any open descriptor, whose number may then
// be another file's.

/// Moves `file` to a descriptor above those that programs iterate over to close files or use with select(), if the
/// system allows one. Returns its new number; negative numbers stay unchanged.
int move_up(int file);

/// Identifies what is open under a descriptor, whatever the number was used for before.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

/// None if nothing is open.
std::optional<FileIdentity> identity_of(int file);

/// How to get a file opened that the system refused with `problem` (errno). `otherwise`: where it is no limit's fault.
std::string remedy_of_opening(int problem, std::string otherwise);

/// The maximum to read: far more than any file that memreel reads this way.
inline constexpr std::size_t most_of_a_whole_file = std::size_t{256} << 20U;

/// All bytes of a file, FIFO or /proc entry. std::ifstream is unsuitable here: a failing read (a directory, a process
/// that has just ended) throws from std::istreambuf_iterator. Errors: it can't be opened or read, or exceeds
/// `most_of_a_whole_file`; `remedy` is passed on.
Result<std::string> read_whole_file(const std::filesystem::path& file, std::string remedy = {});

/// The default limit for a file of this size: `factor` times its size, but at least `least` and at most a quarter of
/// the machine's memory.
Bytes default_memory_limit(Bytes file_size, std::uint64_t factor, Bytes least);

/// The error for a file that exceeds it. `what`: "decompresses to more than".
Error over_memory_limit(const std::string& where, const std::string& what, Bytes limit);

/// In an installation ../share/memreel/samples, else samples/traces in the source tree that the program was built in;
/// empty if neither exists.
std::filesystem::path sample_trace();

// The memory that this process may take: the kernel's limit (RLIMIT_DATA), beyond which allocations fail
// (std::bad_alloc), which main() reports.

/// Limits what this process may allocate from now on, threads' stacks included, to `memory_limit` and what the program
/// takes without input, and `more`; 0: 256 times the size of `files`, but at least 1 GiB and at most a quarter of the
/// machine's memory. Does nothing under AddressSanitizer and ThreadSanitizer, which take terabytes.
void bound_memory(std::span<const std::filesystem::path> files, Bytes memory_limit, Bytes more = {});

/// The limit that bound_memory() set; none if it was not called.
std::optional<Bytes> memory_bound();

/// For a child process, which has a limit of its own.
void lift_memory_bound();

}  // namespace memreel
