// An ELF file on this machine: a module, or its debug information kept apart.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

// libelf's and libdw's own types, so that only who looks into a file includes their headers.
extern "C" {
struct Elf;
struct Dwarf;
}

namespace memreel {

class ElfFile {
 public:
  /// Nothing when there is no such file or it is no ELF file. With a `root`, `path` is a path below it: neither ".."
  /// nor a symbolic link leads out of it.
  static std::optional<ElfFile> open(const std::filesystem::path& path, const std::filesystem::path& root = {});
  ElfFile(ElfFile&& other) noexcept { *this = std::move(other); }
  ElfFile& operator=(ElfFile&& other) noexcept;
  ~ElfFile();

  const std::filesystem::path& path() const { return path_; }
  Elf* elf() const { return elf_; }
  /// Its debug information; null when it has none.
  Dwarf* dwarf();

  /// Raw bytes of the GNU build-id note; empty when it has none.
  std::string build_id() const;
  /// Name of the file with its debug information, from .gnu_debuglink; empty when it names none.
  std::string debug_link() const;
  /// Where its loadable segments begin, as the file numbers addresses, and how many bytes they take.
  std::pair<std::uint64_t, std::uint64_t> extent() const;

 private:
  ElfFile() = default;

  std::filesystem::path path_;
  int descriptor_ = -1;
  Elf* elf_ = nullptr;
  Dwarf* dwarf_ = nullptr;
  bool dwarf_looked_for_ = false;
};

}  // namespace memreel
