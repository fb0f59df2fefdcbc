// SPDX-License-Identifier: Apache-2.0
// Runs memreel from within a program that must not notice.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/files.h"
#include "formats/model/result.h"

namespace memreel::agent {

/// A process that is not the program's child: no wait() of the program sees it, and no signal reports its end. Its
/// environment is empty, its standard input and output are closed; its standard error is the program's.
class HelperProcess {
 public:
  /// The helper's file descriptors besides 0 to 2.
  static constexpr int input = 3, report = 4, more_input = 5;

  HelperProcess() = default;
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;
  ~HelperProcess() { forget(); }

  /// Starts `arguments` (the first is the program's path) with `file`, an open file of this process, as its `input`.
  /// What finish_input() gets is its `more_input`. The program stops for no longer than the start takes, and no memory
  /// is copied. Errors: the system refuses, or this process adopts orphans (a subreaper or init), so the helper would
  /// be among its children.
  Result<void> start(const std::vector<std::string>& arguments, int file);

  bool is_running() const { return alive_ >= 0; }

  /// Closes `more_input` after `text`, of which what does not fit into a pipe is left out.
  void finish_input(std::string_view text);

  /// What it wrote to `report`, once it has ended; waits at most `milliseconds`.
  bool has_ended(int milliseconds, std::string& reported);

  /// Stops tracking it.
  void forget();

 private:
  int alive_ = -1;                        // the helper holds the other end
  int more_ = -1;                         // likewise
  std::optional<FileIdentity> identity_;  // of alive_: the program may close files it does not know
  std::optional<FileIdentity> more_identity_;
  std::string reported_;
};

}  // namespace memreel::agent
