// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/console.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "formats/model/stack_text.h"

namespace memreel::cli {
namespace {

constexpr std::chrono::milliseconds first_drawn{300};  // shorter work finishes before a bar could be read
constexpr std::chrono::milliseconds redraw{100};
constexpr std::uint64_t bar_width = 30;

bool colour(int fd) {
  // https://no-color.org; nothing here changes the environment.
  const char* const no_color = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe)
  return isatty(fd) == 1 && (no_color == nullptr || *no_color == '\0');
}

std::string styled(std::string_view text, std::string_view code, int fd) {
  if (!colour(fd)) return std::string(text);
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

}  // namespace

Exit fail(const Error& error) {
  std::cerr << "memreel: " << red("error:", STDERR_FILENO) << ' ' << printable(error.message()) << '\n';
  return Exit::unusable;
}

void note(std::string_view text) { std::cerr << "memreel: note: " << printable(text) << '\n'; }

ProgressBar::ProgressBar(std::string label) : label_(printable(label)) {
  if (isatty(STDERR_FILENO) == 1) drawing_ = std::jthread([this](const std::stop_token& stop) { draw_until(stop); });
}

ProgressBar::~ProgressBar() = default;

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  if (total != 0) share_ = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
}

void ProgressBar::draw_until(const std::stop_token& stop) {
  const auto start = std::chrono::steady_clock::now();
  bool drawn = false;
  std::unique_lock lock(mutex_);
  const auto is_over = [&](std::chrono::milliseconds wait) {
    return stopped_.wait_for(lock, stop, wait, [&] { return stop.stop_requested(); });
  };
  for (auto wait = first_drawn; !is_over(wait); wait = redraw) {
    draw(std::chrono::steady_clock::now() - start);
    drawn = true;
  }
  if (drawn) std::cerr << "\r\x1b[K" << std::flush;
}

void ProgressBar::draw(std::chrono::steady_clock::duration elapsed) const {
  const double share = share_;
  std::string line = label_;
  if (share < 0) {
    line += " " + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(elapsed).count()) + " s";
  } else {
    const auto filled = static_cast<std::uint64_t>(share * static_cast<double>(bar_width));
    line += " ";
    for (std::uint64_t i = 0; i < bar_width; ++i) line += i < filled ? "█" : "░";
    line += " " + std::to_string(static_cast<int>(share * 100)) + " %";
  }
  std::cerr << '\r' + line + "\x1b[K" << std::flush;
}

std::string bold(std::string_view text, int fd) { return styled(text, "1", fd); }
std::string red(std::string_view text, int fd) { return styled(text, "31", fd); }

}  // namespace memreel::cli
