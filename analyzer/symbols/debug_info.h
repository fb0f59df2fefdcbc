// Functions, inlined calls and source lines from DWARF.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "analyzer/symbols/elf_file.h"
#include "analyzer/symbols/symbols.h"

namespace memreel {

/// Looks up places of one file. Compilation units are indexed when a place in them is first asked for.
class DebugInfo {
 public:
  /// `dwarf` stays with its file, which must outlive this.
  explicit DebugInfo(Dwarf* dwarf);
  DebugInfo(DebugInfo&&) noexcept;
  DebugInfo& operator=(DebugInfo&&) noexcept;
  ~DebugInfo();

  /// The functions at an address of the file, innermost first; empty where no unit covers it. A function's name may be
  /// empty.
  std::vector<SourceFrame> at(std::uint64_t address);

 private:
  struct Range {
    std::uint64_t begin = 0, end = 0;
    std::uint64_t entry = 0;  // offset of the entry that the range belongs to
  };
  struct Unit;

  Dwarf* dwarf_;
  std::vector<Range> units_;  // by address
  std::map<std::uint64_t, std::unique_ptr<Unit>> indexed_;
};

}  // namespace memreel
