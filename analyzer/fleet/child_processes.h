// Work on files that nobody vouches for, each in a process of its own: one that crashes, hangs or eats memory takes
// nothing else with it.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "formats/model/units.h"

namespace memreel {

struct ChildLimits {
  Bytes memory = 16_GiB;  // of address space; not enforced under AddressSanitizer and ThreadSanitizer
  std::chrono::seconds time{600};
};

struct ChildOutcome {
  std::string output;   // what the work returned
  std::string failure;  // why it did not, in a sentence; empty: it did
};

/// Up to some number of children at a time, for callers that have other things to do meanwhile. Single-threaded; other
/// threads of the caller must hold no locks that the work takes.
class ChildPool {
 public:
  /// `work(i)` is called in a forked process, `done(i, outcome)` here, by start() or wait().
  ChildPool(const ChildLimits& limits, std::function<std::string(std::size_t)> work,
            std::function<void(std::size_t, ChildOutcome)> done);
  ChildPool(const ChildPool&) = delete;
  ChildPool& operator=(const ChildPool&) = delete;
  ~ChildPool();  // ends what still runs

  std::size_t size() const;  // that run
  void start(std::size_t item);
  /// Returns when a child ended, said something or had to be ended, or after `most`.
  void wait(std::chrono::milliseconds most);

 private:
  struct Child;
  bool read_some(Child& child);
  void finish(std::size_t i);

  ChildLimits limits_;
  std::function<std::string(std::size_t)> work_;
  std::function<void(std::size_t, ChildOutcome)> done_;
  std::vector<Child> children_;
};

/// All of them: calls `work(i)` for each i below `count`, up to `jobs` at once (0: one per core).
void in_child_processes(std::size_t count, unsigned jobs, const ChildLimits& limits,
                        const std::function<std::string(std::size_t)>& work,
                        const std::function<void(std::size_t, ChildOutcome)>& done);

}  // namespace memreel
