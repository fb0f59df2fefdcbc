// SPDX-License-Identifier: Apache-2.0
// An ELF file on this machine: a module, or its separate debug information.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Types of libelf and libdw, declared here so that only code that inspects a file includes their headers.
extern "C" {
struct Elf;
struct Dwarf;
}

namespace memreel {

class ElfFile {
 public:
  /// Nothing if there is no such file or it is not an ELF file. With a `root`, `path` is relative to it: neither ".."
  /// nor a symbolic link can leave it.
  static std::optional<ElfFile> open(const std::filesystem::path& path, const std::filesystem::path& root = {});
  ElfFile(ElfFile&& other) noexcept { *this = std::move(other); }
  ElfFile& operator=(ElfFile&& other) noexcept;
  ~ElfFile();

  const std::filesystem::path& path() const { return path_; }
  Elf* elf() const { return elf_; }
  /// The file's debug information; null if it has none.
  Dwarf* dwarf();

  /// Raw bytes of the GNU build-id note; empty if there is none.
  std::string build_id() const;
  /// Name of the file with its debug information, from .gnu_debuglink; empty if there is none.
  std::string debug_link() const;
  /// Start address, in the file's numbering, and total size of its loadable segments.
  std::pair<std::uint64_t, std::uint64_t> extent() const;

 private:
  ElfFile() = default;

  std::filesystem::path path_;
  int descriptor_ = -1;
  Elf* elf_ = nullptr;
  Dwarf* dwarf_ = nullptr;
  bool dwarf_looked_for_ = false;
};

// Function names from an ELF file's symbol table.

class SymbolTable {
 public:
  SymbolTable() = default;
  /// Reads .symtab or, if there is none, .dynsym.
  explicit SymbolTable(const ElfFile& file);

  /// It has more than the dynamic loader needs.
  bool is_full() const { return is_full_; }
  /// The function that covers an address of the file; empty if there is none.
  std::string at(std::uint64_t address) const;

 private:
  struct Symbol {
    std::uint64_t begin = 0, end = 0;
    const char* name = nullptr;  // points into the file
  };
  std::vector<Symbol> symbols_;  // by address
  bool is_full_ = false;
};

// C++ demangling.

/// The demangled name; the linker's name if it is not mangled, or if the result exceeds 16 KiB: three hundred bytes can
/// expand to gigabytes.
std::string demangled(const char* name);

}  // namespace memreel
