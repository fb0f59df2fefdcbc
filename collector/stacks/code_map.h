// SPDX-License-Identifier: Apache-2.0
// Finds the unwinding tables for a code address.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "collector/stacks/call_frames.h"
#include "collector/stacks/module_table.h"

namespace memreel::stacks {

// Finds all the code of a function.

/// The ranges of a function's code: `function`, the range of its symbol, followed by the cold parts that a compiler or
/// linker placed elsewhere (such as GCC's -freorder-blocks-and-partition and BOLT) and for which stripped files have no
/// symbol. Such a part is recognised by `function`'s jumps: code jumps to the start of another function, but into the
/// middle only of its own. `tables` are those of `function`'s module, mapped and readable; without
/// tables, `function` alone.
std::vector<AddressRange> parts_of(AddressRange function, const CallFrames& tables);

struct CodeModule {
  AddressRange module;
  CallFrames tables;
};

/// Any thread may query it, without locks. With glibc 2.35 or newer the loader itself answers lock-free; older ones can
/// only be queried under the loader's lock, so answers come from a copy made by refresh().
class CodeMap {
 public:
  enum class Source : std::uint8_t { loader, copy };

  /// `source`: for tests; by default the loader if it can answer.
  explicit CodeMap(Source source = Source::loader);

  /// For code in a module that has tables.
  std::optional<CodeModule> find(std::uintptr_t address) const;

  /// Updates the copy, if one is needed. One thread at a time; may wait for the loader.
  void refresh();

 private:
  struct LoaderAnswer;
  using FindObject = int (*)(void*, LoaderAnswer*);
  struct Range {
    std::atomic<std::uintptr_t> begin, end;
  };

  AddressRange module_in_copy(std::uintptr_t address) const;

  FindObject find_object_ = nullptr;
  // A seqlock: written under an odd version; readers check the version before and after. Modules that don't fit have no
  // tables.
  std::array<Range, 2048> copy_{};
  std::atomic<std::uint32_t> copy_size_ = 0;
  std::atomic<std::uint32_t> version_ = 0;
};

}  // namespace memreel::stacks
