// What the program prints to its standard error, where that is a file: read after the program's end, never in its way.
#pragma once

#include <sys/types.h>

#include <string>

namespace memreel::record {

/// The part of the log that is written from the construction on. A pipe or a terminal is the program's alone: its
/// content is unknown.
class ErrorLog {
 public:
  ErrorLog();

  /// What `memreel explain` says of the out-of-memory errors in it, in newline-terminated lines. Empty if there are
  /// none or the content is unknown.
  std::string explanation() const;

 private:
  off_t begin_ = -1;
};

}  // namespace memreel::record
