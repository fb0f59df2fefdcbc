// Function names from an ELF file's symbol table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/symbols/elf_file.h"

namespace memreel {

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

}  // namespace memreel
