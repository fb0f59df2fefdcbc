// SPDX-License-Identifier: Apache-2.0
// Functions, inlined calls and source lines from DWARF.
#pragma once

#include <filesystem>
#include <map>
#include <memory>

#include "analyzer/symbols/elf_file.h"
#include "analyzer/symbols/symbols.h"

namespace memreel {

/// Looks up addresses of one file. Compilation units are indexed when first needed.
class DebugInfo {
 public:
  /// `dwarf` belongs to its file, which must outlive this object.
  explicit DebugInfo(Dwarf* dwarf);
  DebugInfo(DebugInfo&&) noexcept;
  DebugInfo& operator=(DebugInfo&&) noexcept;
  ~DebugInfo();

  /// The functions at an address of the file, innermost first; empty if no unit covers it. A function's name may be
  /// empty.
  std::vector<SourceFrame> at(std::uint64_t address);

 private:
  struct Range {
    std::uint64_t begin = 0, end = 0;
    std::uint64_t entry = 0;  // offset of the entry with this range
  };
  struct Unit;

  Dwarf* dwarf_;
  std::vector<Range> units_;  // by address
  std::map<std::uint64_t, std::unique_ptr<Unit>> indexed_;
};

// Files by build ID from the servers in DEBUGINFOD_URLS.

/// Whether servers can be queried: libdebuginfod is installed. It is loaded on first use, and only if requested.
bool can_ask_servers();

/// The path of a build's debug information in libdebuginfod's cache; empty if no server has it.
std::filesystem::path debug_file_from_servers(const std::string& build_id);

}  // namespace memreel
