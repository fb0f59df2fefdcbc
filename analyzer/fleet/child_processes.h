// SPDX-License-Identifier: Apache-2.0
// Work on untrusted files, each in its own process: one that crashes, hangs or exhausts memory affects nothing else.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <filesystem>
#include <functional>
#include <vector>

#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

// The memory that all readers of a machine may take together, whoever started them.

/// Four fifths of what this machine, or this container, has.
Bytes usual_reader_memory();

/// A list of who has how much, in a file that all processes of this user on the machine share while one of them has
/// any. Entries of processes that are gone don't count. Where there can be no such file, everything is granted.
class ReaderMemory {
 public:
  /// `file`: empty for that of the machine.
  explicit ReaderMemory(Bytes total, std::filesystem::path file = {});

  Bytes total() const { return total_; }

  /// False if the others have too much for that. `must`: from then on nobody else gets more until this one does.
  bool take(Bytes wanted, pid_t owner, bool must) const;
  /// The process that takes it is another one, which `owner` started.
  void pass_on(pid_t owner, Bytes bytes, pid_t to) const;
  void give_back(pid_t owner) const;

 private:
  template <class Change>
  bool change(Change change) const;

  Bytes total_;
  std::filesystem::path file_;
};

struct ChildLimits {
  Bytes memory = 16_GiB;  // of address space; not enforced under AddressSanitizer and ThreadSanitizer
  std::chrono::seconds time{600};
  Bytes of_host;  // for all children of this user on the machine together, whoever started them; 0: four fifths of it
};

struct ChildOutcome {
  std::string output;   // the result of the work
  std::string failure;  // why the work failed, in a sentence; empty: it succeeded
};

/// Runs a limited number of children at a time, for callers with other work to do meanwhile. Single-threaded; other
/// threads of the caller must hold no locks that the work takes.
class ChildPool {
 public:
  /// `work(i)` is called in a forked process, `done(i, outcome)` in this one, by start() or wait(). `input(i)`: the
  /// size of what it reads, from which follows how much memory it is given at first; if that does not do, it runs again
  /// with all that the limits allow.
  ChildPool(const ChildLimits& limits, std::function<std::string(std::size_t)> work,
            std::function<void(std::size_t, ChildOutcome)> done, std::function<std::uint64_t(std::size_t)> input = {});
  ChildPool(const ChildPool&) = delete;
  ChildPool& operator=(const ChildPool&) = delete;
  ~ChildPool();  // ends running children

  std::size_t size() const;  // number of children that run, or wait for memory
  void start(std::size_t item);
  /// Returns when a child ended, wrote something or had to be ended, or after `most`.
  void wait(std::chrono::milliseconds most);

 private:
  struct Child;
  bool read_some(Child& child);
  void finish(std::size_t i);
  bool run(std::size_t item, Bytes memory);
  Bytes most() const;

  struct Waiting {
    std::size_t item = 0;
    Bytes memory;
  };

  ChildLimits limits_;
  std::function<std::string(std::size_t)> work_;
  std::function<void(std::size_t, ChildOutcome)> done_;
  std::function<std::uint64_t(std::size_t)> input_;
  ReaderMemory host_;
  std::vector<Child> children_;
  std::deque<Waiting> waiting_;  // for memory of the machine; the first in turn
};

/// Of so many cores, those that a container's quota allows, at least one: "200000 100000" in cpu.max is two.
unsigned cores_within(const std::string& quota, unsigned cores);

/// One per core that this process may use.
unsigned readers_at_once();

/// Error: the limit on open files (ulimit -n) leaves none for a child. It is no recording's fault.
Result<void> may_have_children();

/// Runs everything: calls `work(i)` for each i below `count`, up to `jobs` at once (0: one per core).
void in_child_processes(std::size_t count, unsigned jobs, const ChildLimits& limits,
                        const std::function<std::string(std::size_t)>& work,
                        const std::function<void(std::size_t, ChildOutcome)>& done,
                        const std::function<std::uint64_t(std::size_t)>& input = {});

}  // namespace memreel
