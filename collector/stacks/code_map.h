// Where the unwinding tables of a piece of code are.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "collector/stacks/call_frames.h"
#include "collector/stacks/module_table.h"

namespace memreel::stacks {

struct CodeModule {
  AddressRange module;
  CallFrames tables;
};

/// Asked by any thread, without locks. With glibc 2.35 or newer the loader itself answers so; with older ones it can
/// only be asked under its lock, and answers come from a copy made by refresh().
class CodeMap {
 public:
  enum class Source : std::uint8_t { loader, copy };

  /// `source`: for tests; the loader where it can answer.
  explicit CodeMap(Source source = Source::loader);

  /// Of code in a module that has tables.
  std::optional<CodeModule> find(std::uintptr_t address) const;

  /// Makes the copy anew, where there is need of one. By one thread at a time; it may wait for the loader.
  void refresh();

 private:
  struct LoaderAnswer;
  using FindObject = int (*)(void*, LoaderAnswer*);
  struct Range {
    std::atomic<std::uintptr_t> begin, end;
  };

  AddressRange module_in_copy(std::uintptr_t address) const;

  FindObject find_object_ = nullptr;
  // Written under an odd version; who reads looks at the version before and after. Modules beyond it have no tables.
  std::array<Range, 2048> copy_{};
  std::atomic<std::uint32_t> copy_size_ = 0;
  std::atomic<std::uint32_t> version_ = 0;
};

}  // namespace memreel::stacks
