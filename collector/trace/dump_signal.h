// The signal by which a user asks for a dump.
#pragma once

#include <cstdint>
#include <string>

namespace memreel::agent {

/// Counts a signal while it lives, unless the program handles or ignores that itself: what it does with it comes first.
/// At most one per process. A forked child does with the signal what it would have done without us.
class DumpSignal {
 public:
  /// `signal` 0: none.
  explicit DumpSignal(int signal);
  DumpSignal(const DumpSignal&) = delete;
  DumpSignal& operator=(const DumpSignal&) = delete;
  ~DumpSignal();

  /// How often it came.
  std::uint64_t count() const;

  /// Once, when the program was found to handle the signal: what to tell its user. Else empty.
  std::string conflict();

 private:
  bool is_ours() const;

  int signal_;
  bool installed_ = false, told_ = false;
};

}  // namespace memreel::agent
