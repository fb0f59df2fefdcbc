// What a person at a terminal sees besides the result: progress, colour, errors. Everything here goes to standard
// error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/model/result.h"

namespace memreel::cli {

/// Exit codes of every command: part of the contract with scripts.
enum class Exit : int {
  done = 0,
  negative = 1,  // the answer is no: not exact, budget exceeded, regression
  unusable = 2,  // bad usage, or input that can't be read
};

/// Prints "memreel: error: ..." in one line.
Exit fail(const Error& error);

/// Prints "memreel: note: ..." in one line.
void note(std::string_view text);

/// A bar on standard error while something takes long; nothing when standard error is not a terminal, or when it is
/// over before a person would wonder.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();

  void update(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  Clock::time_point next_draw_;
  bool enabled_;
  bool drawn_ = false;
};

/// Wraps text for bold or dim where `fd` is a terminal and NO_COLOR is not set; else returns it unchanged.
std::string bold(std::string_view text, int fd = 1);
std::string red(std::string_view text, int fd = 1);

}  // namespace memreel::cli
