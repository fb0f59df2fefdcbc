// Which module a native frame lies in, also after the module is gone.
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
  std::string path;      // absolute, except for "[vdso]"; the loader's name where the file can't be told
  std::string build_id;  // raw bytes of the GNU build-id note; empty when it has none
  AddressRange range;    // from its first loadable segment to the end of its last
};

/// Used by one thread at a time, which may wait and allocate: the writing thread.
class ModuleTable {
 public:
  /// The number of a module, counted from 0. A module that comes back to where it was keeps its number.
  using Index = std::size_t;
  static constexpr Index none = ~std::size_t{0};

  /// Asks the loader what changed. Returns the ranges of modules that are gone since the last call: code there may be
  /// another's from now on, so what was concluded from addresses in them (rules of the unwinder, translations of
  /// frames) has to be forgotten. Call it before translating frames, often; it is cheap when nothing changed.
  std::vector<AddressRange> refresh();

  /// The module that holds `address`, or held it last. None for code that belongs to no module, as JIT compilers make.
  Index find(std::uintptr_t address) const;

  const LoadedModule& operator[](Index module) const { return modules_[module].module; }
  std::size_t size() const { return modules_.size(); }

 private:
  struct Entry {
    LoadedModule module;
    bool loaded = false;
  };

  std::vector<Entry> modules_;              // in order of their first sight
  std::vector<Index> loaded_;               // by address
  unsigned long long adds_ = 0, subs_ = 0;  // the loader's counts at the last refresh
};

}  // namespace memreel::stacks
