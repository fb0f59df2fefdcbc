#include "analyzer/cli/console.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "formats/model/printable.h"

namespace memreel::cli {
namespace {

constexpr std::chrono::milliseconds patience{300};  // shorter work is over before a bar could be read
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

ProgressBar::ProgressBar(std::string label)
    : label_(printable(label)), next_draw_(Clock::now() + patience), enabled_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::cerr << "\r\x1b[K" << std::flush;
}

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  if (!enabled_ || total == 0) return;
  const auto now = Clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + redraw;
  drawn_ = true;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const auto filled = static_cast<std::uint64_t>(share * static_cast<double>(bar_width));
  std::string bar;
  for (std::uint64_t i = 0; i < bar_width; ++i) bar += i < filled ? "█" : "░";
  std::cerr << '\r' << label_ << ' ' << bar << ' ' << static_cast<int>(share * 100) << " %\x1b[K" << std::flush;
}

std::string bold(std::string_view text, int fd) { return styled(text, "1", fd); }
std::string red(std::string_view text, int fd) { return styled(text, "31", fd); }

}  // namespace memreel::cli
