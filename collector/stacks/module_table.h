// SPDX-License-Identifier: Apache-2.0
// The module that contains a native frame, even after the module is unloaded.
#pragma once

#include <link.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace memreel::stacks {

// Makes the agent's uses of the loader safe against fork(2): the child inherits the loader's locks in their current
// state, and one held by an agent thread would stay locked forever.

/// While one lives, a fork announced by hold_loader_uses() waits. Its construction waits for a fork in progress, but
/// never for another LoaderUse, and for a second at most, so there is no deadlock.
class LoaderUse {
 public:
  LoaderUse();
  LoaderUse(const LoaderUse&) = delete;
  LoaderUse& operator=(const LoaderUse&) = delete;
  ~LoaderUse();
};

/// dl_iterate_phdr(3) within a LoaderUse. `visit` must not load or look up libraries (dlopen): another thread that does
/// takes the loader's two locks in the opposite order.
int walk_loaded_modules(int (*visit)(dl_phdr_info*, std::size_t, void*), void* argument);

/// Before a fork, on the forking thread: waits until no thread uses the loader and blocks new uses. Gives up after a
/// short time: a user may be waiting for a lock that the forking thread holds.
void hold_loader_uses();

/// After a fork, in the parent.
void release_loader_uses();

/// After a fork, in the child, where only the calling thread exists.
void forget_loader_uses();

// The module last seen at each place in memory.

/// Notices a module at a place where there was none before, or another one. Any thread, any time, without locks. 8 KiB.
///
/// Holds a thousand modules. One that is evicted counts as new the next time, which must stay rare: the caller then
/// forgets all unwind rules. Hence sets of eight instead of one place each: libraries lie at fixed distances from one
/// another, so two of a program's might share a place in every process and evict each other forever.
class SeenModules {
 public:
  /// Whether the module at `begin` differs from the one last seen there. `identity` distinguishes modules.
  bool is_new(std::uintptr_t begin, std::uint64_t identity) {
    constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;
    // The upper half of a word is the place, the lower one the module there. 0: empty.
    const std::uint64_t place = begin * odd >> half, word = place << half | identity * odd >> half | 1U;
    auto& set = sets_[place % sets_.size()];
    for (std::atomic<std::uint64_t>& seen : set) {
      std::uint64_t last = seen.load(std::memory_order_relaxed);
      if (last == 0 && seen.compare_exchange_strong(last, word, std::memory_order_relaxed)) return true;
      if (last >> half == place) return seen.exchange(word, std::memory_order_relaxed) != word;
    }
    set[word / 2 % set.size()].store(word, std::memory_order_relaxed);
    return true;
  }

  void forget() {
    for (auto& set : sets_)
      for (std::atomic<std::uint64_t>& seen : set) seen.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr unsigned half = 32;

  std::array<std::array<std::atomic<std::uint64_t>, 8>, 128> sets_{};
};

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
