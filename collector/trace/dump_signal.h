// The signal that requests a dump.
#pragma once

#include <cstdint>
#include <string>

namespace memreel::agent {

/// Counts a signal while it lives, unless the program itself handles or ignores it: the program takes precedence. At
/// most one per process. In a forked child the signal behaves as if it were not ours.
class DumpSignal {
 public:
  /// `signal` 0: none.
  explicit DumpSignal(int signal);
  DumpSignal(const DumpSignal&) = delete;
  DumpSignal& operator=(const DumpSignal&) = delete;
  ~DumpSignal();

  /// How often it arrived.
  std::uint64_t count() const;

  /// A message for the user, once, if the program handles the signal. Else empty.
  std::string conflict();

 private:
  bool is_ours() const;

  int signal_;
  bool installed_ = false, told_ = false;
};

}  // namespace memreel::agent
