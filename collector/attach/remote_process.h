// Another process's memory and mapped files, read without stopping it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/result.h"

namespace memreel::attach {

/// A line of /proc/PID/maps.
struct Mapping {
  std::uint64_t begin = 0, end = 0;
  bool executable = false;
  std::uint64_t offset = 0;
  std::string name;  // a file, "[stack]"..., or empty

  /// The last part of the name, without " (deleted)".
  std::string_view file() const;
};

class RemoteProcess {
 public:
  /// Errors: the system's reason why its memory may not be read.
  static Result<RemoteProcess> open(pid_t process);
  RemoteProcess(RemoteProcess&& other) noexcept;
  RemoteProcess& operator=(RemoteProcess&&) = delete;
  RemoteProcess(const RemoteProcess&) = delete;
  RemoteProcess& operator=(const RemoteProcess&) = delete;
  ~RemoteProcess();

  pid_t number() const { return process_; }

  /// Fills all of `into`, or returns false.
  bool read(std::uint64_t address, std::span<std::byte> into) const;
  /// Also writes where the process itself may not.
  bool write(std::uint64_t address, std::span<const std::byte> bytes) const;

  template <class T>
  std::optional<T> read(std::uint64_t address) const {
    T value{};
    if (!read(address, std::as_writable_bytes(std::span(&value, 1)))) return std::nullopt;
    return value;
  }
  /// Up to the terminating zero, at most 4096 bytes.
  std::string read_text(std::uint64_t address) const;

  /// The current mappings, by address.
  std::vector<Mapping> mappings() const;

 private:
  RemoteProcess(pid_t process, int memory) : process_(process), memory_(memory) {}
  pid_t process_;
  int memory_;
};

/// The base of a library: its first mapping whose file is called `file`; none if there is none.
std::optional<std::uint64_t> base_of(std::span<const Mapping> mappings, std::string_view file);

/// The address of a function exported by the library at `base`, from the tables in memory that its loader uses: the
/// file may have been replaced. 0 if there is no such function.
std::uint64_t exported_function(const RemoteProcess& process, std::uint64_t base, std::string_view name);

}  // namespace memreel::attach
