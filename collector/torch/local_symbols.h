// Functions that a loaded library keeps to itself: they are in its file's .symtab, where that was not stripped.
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

/// The symbols of `library` whose names begin with one of `beginnings`. Empty when its file can't be read, is not a
/// 64-bit ELF file, or was stripped. Reads the file, not the library.
std::vector<LocalSymbol> local_symbols(const link_map& library, const std::vector<std::string_view>& beginnings);

}  // namespace memreel::torch
