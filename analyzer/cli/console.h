// SPDX-License-Identifier: Apache-2.0
// Terminal output other than the result: progress, colour, errors. Everything here goes to standard error.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "formats/model/result.h"

namespace memreel::cli {

/// Exit codes of every command; scripts rely on them.
enum class Exit : int {
  done = 0,
  negative = 1,  // the answer is no: not exact, budget exceeded, regression
  unusable = 2,  // bad usage, or input that can't be read
};

/// Prints "memreel: error: ..." in one line.
Exit fail(const Error& error);

/// Prints "memreel: note: ..." in one line.
void note(std::string_view text);

/// A progress line on standard error for slow operations: the description, with a bar once update() has been called,
/// else with the elapsed seconds. Prints nothing if standard error is not a terminal or the operation is short.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();

  /// Thread-safe and cheap: a separate thread draws the line.
  void update(std::uint64_t done, std::uint64_t total);

 private:
  void draw_until(const std::stop_token& stop);
  void draw(std::chrono::steady_clock::duration elapsed) const;

  std::string label_;
  std::atomic<double> share_ = -1;  // negative: unknown
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread drawing_;  // last: uses all members above
};

/// Wraps text in bold or dim if `fd` is a terminal and NO_COLOR is not set; otherwise returns it unchanged.
std::string bold(std::string_view text, int fd = 1);
std::string red(std::string_view text, int fd = 1);

}  // namespace memreel::cli
