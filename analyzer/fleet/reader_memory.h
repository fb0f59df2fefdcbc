// SPDX-License-Identifier: Apache-2.0
// The memory that all readers of a machine may take together, whoever started them.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "formats/model/units.h"

namespace memreel {

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

}  // namespace memreel
