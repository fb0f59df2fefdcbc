// The module that contains a native frame, even after the module is unloaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace memreel::stacks {

struct AddressRange {
  std::uintptr_t begin = 0, end = 0;

  bool contains(std::uintptr_t address) const { return address - begin < end - begin; }
  friend bool operator==(const AddressRange&, const AddressRange&) = default;
};

/// A program, shared object or the vDSO.
struct LoadedModule {
  std::string path;      // absolute, except for "[vdso]"; the loader's name if the file is unknown
  std::string build_id;  // raw bytes of the GNU build-id note; empty if there is none
  AddressRange range;    // from its first loadable segment to the end of its last
};

/// Used by one thread at a time, which may wait and allocate: the writing thread.
class ModuleTable {
 public:
  /// A module's number, from 0. A module reloaded at the same address keeps its number.
  using Index = std::size_t;
  static constexpr Index none = ~std::size_t{0};

  /// Asks the loader what changed. Returns the ranges of modules unloaded since the last call: other code may take
  /// their place, so everything derived from addresses in them (unwind rules, translated frames) must be forgotten.
  /// Call it often, before translating frames; it is cheap if nothing changed.
  std::vector<AddressRange> refresh();

  /// The module that contains `address`, or was the last to. None for code outside any module, such as JIT-compiled
  /// code.
  Index find(std::uintptr_t address) const;

  const LoadedModule& operator[](Index module) const { return modules_[module].module; }
  std::size_t size() const { return modules_.size(); }

 private:
  struct Entry {
    LoadedModule module;
    bool loaded = false;
  };

  std::vector<Entry> modules_;              // in order of first sight
  std::vector<Index> loaded_;               // by address
  unsigned long long adds_ = 0, subs_ = 0;  // the loader's counts at the last refresh
};

}  // namespace memreel::stacks
