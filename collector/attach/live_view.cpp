#include "collector/attach/live_view.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): signalfd needs sigprocmask
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include "collector/attach/live_memory.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
#include "formats/reader/trace_reader.h"

namespace memreel::attach {
namespace {

using Clock = std::chrono::steady_clock;

/// Keys come one by one and unseen, and signals through a file, for as long as this lives.
class Keys {
 public:
  Keys() {
    sigset_t set{};
    ::sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
    ::pthread_sigmask(SIG_BLOCK, &set, &mask_before_);
    signals_ = ::signalfd(-1, &set, SFD_CLOEXEC);
    terminal_ = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0 && ::tcgetattr(STDIN_FILENO, &before_) == 0;
    if (!terminal_) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;
  ~Keys() {
    if (terminal_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    if (signals_ >= 0) ::close(signals_);
    ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }

  /// Waits until somebody asks for the end (true), or the time is over.
  bool end_asked(std::chrono::milliseconds time) {
    const Clock::time_point limit = Clock::now() + time;
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now());
      if (left.count() <= 0) return false;
      std::array<pollfd, 2> waiting{pollfd{.fd = signals_, .events = POLLIN, .revents = 0},
                                    pollfd{.fd = terminal_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}};
      if (::poll(waiting.data(), waiting.size(), static_cast<int>(left.count())) <= 0) continue;
      if ((waiting[0].revents & POLLIN) != 0) return true;
      char key = 'q';  // the terminal is gone
      if (waiting[1].revents != 0 && (::read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q')) return true;
    }
  }

 private:
  sigset_t mask_before_{};
  int signals_ = -1;
  bool terminal_ = false;
  termios before_{};
};

std::string padded(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string text_of_growth(double growth) {
  return (growth < 0 ? "-" : "+") + text_of(Bytes{static_cast<std::uint64_t>(std::llround(std::abs(growth)))});
}

std::string short_file(std::string_view file) { return std::string(file.substr(file.rfind('/') + 1)); }

/// The innermost frames that say something: those with a line, else the innermost at all. "f (a.py:3) < g (b.py:9)"
std::string text_of_stack(const Tables& tables, StackId stack) {
  const std::vector<FrameText> frames = frames_of(tables, stack);
  std::string text;
  int shown = 0;
  for (const FrameText& frame : frames) {
    if (frame.line == 0 || shown == 3) continue;
    text += (shown++ > 0 ? " < " : "") + std::string(frame.function) + " (" + short_file(frame.file) + ":" +
            std::to_string(frame.line) + ")";
  }
  if (shown == 0) text = frames.empty() ? "no stack" : memreel::text_of(frames.front());
  return text;
}

std::string head_line(const LiveMemory& memory, const Losses& losses, double seconds) {
  const std::uint64_t lost = losses.ring_full + losses.hook_refused;
  std::string text = std::to_string(std::lround(seconds)) + " s  " + text_of(memory.event_count()) + " events, " +
                     (lost == 0 ? std::string("none") : text_of(lost)) + " lost";
  if (const auto growth = memory.growth_per_step()) text += "  " + text_of_growth(*growth) + " per step";
  return text;
}

std::string one_line(const LiveMemory& memory, const Losses& losses, double seconds) {
  std::string text = head_line(memory, losses, seconds);
  for (const LiveHeap& heap : memory.heaps()) {
    text += "  " + heap.name + " " + std::to_string(heap.device) + ": " + text_of(heap.live) + " live";
    if (heap.reserved.count > 0) text += " of " + text_of(heap.reserved);
  }
  return text + "\n";
}

std::string table(const LiveMemory& memory, const Tables& tables, const Losses& losses, double seconds) {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 8 && size.ws_col > 40;
  const std::size_t rows = known ? size.ws_row : 24, columns = known ? size.ws_col : 100;
  std::string text = head_line(memory, losses, seconds) + "\n\n";
  std::size_t used = 6;
  text += "GPU            live      reserved  fragmentation  heap\n";
  for (const LiveHeap& heap : memory.heaps()) {
    text += padded(std::to_string(heap.device), 3) + "  " + padded(text_of(heap.live), 14) + "  " +
            padded(heap.reserved.count > 0 ? text_of(heap.reserved) : "", 12) + "  " +
            padded(heap.fragmentation ? text_of_share(*heap.fragmentation) : "", 13) + "  " + heap.name + "\n";
    ++used;
  }
  text += "\n         live     count  stack\n";
  for (const LiveStack& stack : memory.top(rows > used + 2 ? rows - used - 2 : 1)) {
    std::string line = padded(text_of(stack.live), 13) + "  " + padded(text_of(stack.count), 8) + "  " +
                       text_of_stack(tables, stack.stack);
    line.resize(std::min(line.size(), columns - 1));
    while (!is_printable(line)) line.pop_back();  // half a character
    text += line + "\n";
  }
  return text + "\nq to stop recording";
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

bool show_live(const KnownProcess& process, const std::string& trace, double interval, double duration) {
  auto file = open_file(trace);
  auto reader = file ? TraceReader::open(*file, trace) : Result<TraceReader>(file.error());
  if (!reader) {
    std::fprintf(stderr, "memreel: %s\n", printable(reader.error().message()).c_str());
    return false;
  }
  LiveMemory memory(reader->tables());
  EventBatch batch;
  Keys keys;
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  const std::chrono::milliseconds period(static_cast<std::int64_t>(interval * 1000));
  const Clock::time_point begin = Clock::now();
  while (true) {
    const bool gone = process.has_ended();
    for (auto more = reader->next(batch); more && *more; more = reader->next(batch)) memory.add(batch);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    // Over what was there, then what is left of it goes.
    print(terminal ? "\x1b[H\x1b[2J" + table(memory, reader->tables(), reader->losses(), seconds)
                   : one_line(memory, reader->losses(), seconds));
    const bool over = duration > 0 && seconds >= duration;
    if (gone || over || keys.end_asked(period)) {
      if (terminal) print("\n");
      return gone;
    }
  }
}

}  // namespace memreel::attach
