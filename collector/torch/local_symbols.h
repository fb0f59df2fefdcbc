// Non-exported functions of a loaded library, from its file's .symtab if that was not stripped.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace memreel::torch {

struct LocalSymbol {
  std::string name;  // mangled
  std::uintptr_t address = 0;
  std::size_t size = 0;  // bytes
};

/// The symbols of `library` whose names begin with one of `beginnings`. Empty if its file can't be read, is not a
/// 64-bit ELF file, or was stripped. Reads the file, not the loaded library.
std::vector<LocalSymbol> local_symbols(const link_map& library, const std::vector<std::string_view>& beginnings);

}  // namespace memreel::torch
