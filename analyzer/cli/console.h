// What a person at a terminal sees besides the result: progress, colour, errors. Everything here goes to standard
// error.
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

/// A line on standard error while something takes long: what is done, with a bar once update() has said how far it is,
/// else with the seconds that it has taken. Nothing when standard error is not a terminal, or when it is over before a
/// person would wonder.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar();

  /// From any thread. Cheap: it is drawn by a thread of its own.
  void update(std::uint64_t done, std::uint64_t total);

 private:
  void draw_until(const std::stop_token& stop);
  void draw(std::chrono::steady_clock::duration elapsed) const;

  std::string label_;
  std::atomic<double> share_ = -1;  // negative: not known
  std::mutex mutex_;
  std::condition_variable_any stopped_;
  std::jthread drawing_;  // last: it uses all of the above
};

/// Wraps text for bold or dim where `fd` is a terminal and NO_COLOR is not set; else returns it unchanged.
std::string bold(std::string_view text, int fd = 1);
std::string red(std::string_view text, int fd = 1);

}  // namespace memreel::cli
