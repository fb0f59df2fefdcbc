// Names of functions from an ELF file's symbol table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/symbols/elf_file.h"

namespace memreel {

class SymbolTable {
 public:
  SymbolTable() = default;
  /// From .symtab, or when there is none from .dynsym.
  explicit SymbolTable(const ElfFile& file);

  /// It holds more than what the dynamic loader needs.
  bool is_full() const { return is_full_; }
  /// The function that covers an address of the file; empty when none does.
  std::string at(std::uint64_t address) const;

 private:
  struct Symbol {
    std::uint64_t begin = 0, end = 0;
    const char* name = nullptr;  // in the file
  };
  std::vector<Symbol> symbols_;  // by address
  bool is_full_ = false;
};

}  // namespace memreel
