// SPDX-License-Identifier: Apache-2.0
// How processes that know nothing of each other divide work: by files in a directory that all see.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace memreel {

/// The machine whose disk has a file, so that files of one path on several machines are told apart; containers of one
/// machine have the same. Empty: the file system is known to be one of a network, of which all see the same.
std::string machine_of(const std::filesystem::path& file);

/// Whether statfs(2)'s f_type is that of a file system that machines share.
bool is_network_file_system(std::uint64_t type);

/// Work that this process has in hand: nobody else takes it, unless the process is gone.
class Claim {
 public:
  /// Makes the file; nothing if another process has. `patience`: how long one may take. Where files can't be made, the
  /// work is this process's: twice is better than never.
  static std::optional<Claim> take(const std::filesystem::path& file, std::chrono::seconds patience);
  Claim(Claim&& other) noexcept : file_(std::exchange(other.file_, {})) {}
  Claim& operator=(Claim&&) = delete;
  ~Claim();  // removes the file

 private:
  explicit Claim(std::filesystem::path file) : file_(std::move(file)) {}

  std::filesystem::path file_;
};

}  // namespace memreel
