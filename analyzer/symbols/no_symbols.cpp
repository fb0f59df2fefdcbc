// SPDX-License-Identifier: Apache-2.0
// Replaces debug_info.cpp and its dependencies in builds without libdw.
#include "analyzer/symbols/debug_info.h"
#include "analyzer/symbols/symbols.h"

namespace memreel {

class ModuleSymbols::Impl {};

bool can_read_symbols() { return false; }
bool can_ask_servers() { return false; }

ModuleSymbols::ModuleSymbols(std::string_view /*path*/, const Module& /*module*/, const SymbolOptions& /*options*/) {}
ModuleSymbols::ModuleSymbols(ModuleSymbols&&) noexcept = default;
ModuleSymbols& ModuleSymbols::operator=(ModuleSymbols&&) noexcept = default;
ModuleSymbols::~ModuleSymbols() = default;

std::vector<SourceFrame> ModuleSymbols::at(std::uint64_t /*offset*/) { return {}; }
ModuleSymbols::Found ModuleSymbols::found() const { return Found::nothing; }
const std::string& ModuleSymbols::mismatch() const {
  static const std::string none;
  return none;
}

}  // namespace memreel
