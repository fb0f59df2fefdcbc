// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/tty.h"

#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>

// Macros named like functions of ours stay out; wide characters need a definition.
#define NCURSES_NOMACROS 1  // NOLINT(cppcoreguidelines-macro-usage)
#ifndef NCURSES_WIDECHAR
#define NCURSES_WIDECHAR 1  // NOLINT(cppcoreguidelines-macro-usage)
#endif
#include <curses.h>
#include <term.h>
#undef back_tab
#undef lines
#undef columns
#undef tab

namespace memreel::viewer::terminal {
namespace {

// What signal handlers use: written before they are installed.
std::array<char, 512> restoring{};
std::size_t restoring_size = 0;
termios found_modes{}, own_modes{};
std::array<int, 2> wake_pipe{-1, -1};
std::atomic<bool> is_taken = false;
std::atomic<int> ending = 0;
std::atomic<bool> was_resized = false, must_stop = false, has_continued = false;

constexpr std::array<int, 5> crashes{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
std::array<struct sigaction, crashes.size()> crash_actions{};

void write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EAGAIN) {
      pollfd room{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
      ::poll(&room, 1, 1000);
      continue;
    }
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Async-signal-safe.
void restore() {
  if (!is_taken.exchange(false)) return;
  write_all({restoring.data(), restoring_size});
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &found_modes);
}

void wake_up() {
  const int before = errno;
  const char byte = 0;
  static_cast<void>(!::write(wake_pipe[1], &byte, 1));
  errno = before;
}

void on_signal(int number) {
  if (number == SIGWINCH)
    was_resized = true;
  else if (number == SIGTSTP)
    must_stop = true;
  else if (number == SIGCONT)
    has_continued = true;
  else
    ending = number;
  wake_up();
}

void on_crash(int number) {
  restore();
  for (std::size_t i = 0; i < crashes.size(); ++i)
    if (crashes.at(i) == number) ::sigaction(number, &crash_actions.at(i), nullptr);
  ::raise(number);
}

void install_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT}) ::sigaction(number, &action, nullptr);
  // A stack of its own, for a crash because the main thread's is used up.
  constexpr std::size_t stack_size = 65536;
  static std::array<char, stack_size> stack;
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  ::sigaltstack(&alternative, nullptr);
  struct sigaction crash {};
  crash.sa_handler = on_crash;
  crash.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (std::size_t i = 0; i < crashes.size(); ++i) ::sigaction(crashes.at(i), &crash, &crash_actions.at(i));
}

/// A string of the terminal's description, without padding; empty if it has none.
std::string capability(const char* name) {
  const char* const found = ::tigetstr(name);
  if (found == nullptr || found == reinterpret_cast<char*>(-1)) return {};  // NOLINT: terminfo's own convention
  std::string text(found);
  for (std::size_t at = text.find("$<"); at != std::string::npos; at = text.find("$<", at)) {
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) break;
    text.erase(at, end - at + 1);
  }
  return text;
}

std::string capability(const char* name, long first, long second = 0) {
  const std::string pattern = capability(name);
  if (pattern.empty()) return {};
  const char* const made = ::tiparm(pattern.c_str(), static_cast<int>(first), static_cast<int>(second));
  return made == nullptr ? std::string() : std::string(made);
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing sets variables later
  return value == nullptr ? std::string() : std::string(value);
}

/// "15;0": the ink and the ground that some terminals name. Grounds from 7 on are light, except grey.
bool has_light_ground() {
  const std::string colours = variable("COLORFGBG");
  const std::size_t at = colours.rfind(';');
  if (at == std::string::npos) return false;
  const int ground = std::atoi(colours.c_str() + at + 1);
  return ground == 7 || ground > 8;
}

enum : int { key_alt_left = KEY_MAX + 1, key_alt_right };

void define_keys() {
  ::define_key("\033[1;3D", key_alt_left);
  ::define_key("\033[1;3C", key_alt_right);
  ::define_key("\033\033[D", key_alt_left);
  ::define_key("\033\033[C", key_alt_right);
  ::define_key("\033[1;2D", KEY_SLEFT);
  ::define_key("\033[1;2C", KEY_SRIGHT);
  for (const char* home : {"\033[H", "\033OH", "\033[1~", "\033[7~"}) ::define_key(home, KEY_HOME);
  for (const char* end : {"\033[F", "\033OF", "\033[4~", "\033[8~"}) ::define_key(end, KEY_END);
}

std::optional<Special> special_of(int code) {
  constexpr std::array<std::pair<int, Special>, 18> keys{{{KEY_UP, Special::up},
                                                          {KEY_DOWN, Special::down},
                                                          {KEY_LEFT, Special::left},
                                                          {KEY_RIGHT, Special::right},
                                                          {KEY_SLEFT, Special::shift_left},
                                                          {KEY_SRIGHT, Special::shift_right},
                                                          {key_alt_left, Special::alt_left},
                                                          {key_alt_right, Special::alt_right},
                                                          {KEY_PPAGE, Special::page_up},
                                                          {KEY_NPAGE, Special::page_down},
                                                          {KEY_HOME, Special::home},
                                                          {KEY_END, Special::end},
                                                          {KEY_ENTER, Special::enter},
                                                          {KEY_BTAB, Special::back_tab},
                                                          {KEY_BACKSPACE, Special::backspace},
                                                          {KEY_DC, Special::backspace},
                                                          {KEY_A1, Special::home},
                                                          {KEY_C1, Special::end}}};
  const auto* const found = std::ranges::find(keys, code, &std::pair<int, Special>::first);
  return found == keys.end() ? std::nullopt : std::optional(found->second);
}

Key key_of(wint_t character) {
  switch (character) {
    case '\r':
    case '\n':
      return {.special = Special::enter};
    case '\t':
      return {.special = Special::tab};
    case 0x1B:
      return {.special = Special::escape};
    case 0x7F:
    case 0x08:
      return {.special = Special::backspace};
    default:
      return {.character = static_cast<char32_t>(character)};
  }
}

/// Reads keys without touching the screen.
WINDOW* key_pad = nullptr;
SCREEN* curses_screen = nullptr;

class Painter {
 public:
  Painter(const Look& look, int colours) : look_(look), colours_(colours) {}

  void move_to(int x, int y) { out_ += capability("cup", y, x); }
  void put(const Cell& cell) {
    if (!style_ || *style_ != cell.style) begin(cell.style);
    out_ += look_.unicode ? utf8_of(cell.glyph) : std::string(1, ascii_of(cell.glyph));
  }
  std::string take() {
    out_ += capability("sgr0");
    return std::move(out_);
  }

 private:
  void begin(const Style& style) {
    out_ += capability("sgr0");
    if (style.bold) out_ += capability("bold");
    if (style.underlined) out_ += capability("smul");
    if (style.reversed) out_ += capability("rev");
    add_colour(style.ink, true);
    add_colour(style.ground, false);
    style_ = style;
  }

  void add_colour(Colour colour, bool is_ink) {
    if (colour.is_own() || look_.depth == Depth::none) return;
    if (look_.depth == Depth::direct) {
      const auto rgb = static_cast<std::uint32_t>(colour.rgb);
      out_ += std::string("\033[") + (is_ink ? "38" : "48") + ";2;" + std::to_string((rgb >> 16U) & 0xFFU) + ";" +
              std::to_string((rgb >> 8U) & 0xFFU) + ";" + std::to_string(rgb & 0xFFU) + "m";
      return;
    }
    const int number = look_.depth == Depth::indexed ? indexed(colour) : basic(colour, std::min(colours_, 16));
    out_ += capability(is_ink ? "setaf" : "setab", number);
  }

  const Look& look_;
  int colours_;
  std::string out_;
  std::optional<Style> style_;
};

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    for (std::size_t i = 0; i < 3; ++i)
      group = (group << 8U) | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) text += i <= count ? digits[(group >> (18 - 6 * i)) & 0x3FU] : '=';
  }
  return text;
}

}  // namespace

bool has_terminal() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1; }

bool is_dumb_terminal() {
  const std::string term = variable("TERM");
  return term.empty() || term == "dumb";
}

Result<std::unique_ptr<Tty>> Tty::open() {
  std::setlocale(LC_CTYPE, "");  // NOLINT(concurrency-mt-unsafe): no other thread asks for it
  // A statically linked ncurses looks where its own distribution has descriptions; an empty entry stands for those.
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  ::setenv("TERMINFO_DIRS",
           (variable("TERMINFO_DIRS") +
            ":/etc/terminfo:/lib/terminfo:/usr/lib/terminfo:/usr/share/terminfo:/usr/local/share/terminfo")
               .c_str(),
           1);
  ::tcgetattr(STDIN_FILENO, &found_modes);
  const std::string term = variable("TERM");
  // A server may not know the newest terminals; nearly all of them do what these do.
  for (const char* const name : {term.c_str(), "xterm-256color", "xterm", "ansi"}) {
    int problem = 0;
    if (::setupterm(name, STDOUT_FILENO, &problem) == OK && !capability("cup").empty()) {
      curses_screen = ::newterm(name, stdout, stdin);
      break;
    }
    if (std::string_view(name) == term && problem == 1) break;  // it is known, and can't move its cursor
  }
  if (curses_screen == nullptr)
    return Error{.what = "can't browse in a terminal of type '" + term + "'",
                 .where = "TERM",
                 .remedy = "set TERM=xterm-256color, or print it with memreel report TRACE"};
  if (wake_pipe[0] < 0 && ::pipe2(wake_pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    return Error{.what = "can't make a pipe", .where = {}, .remedy = "close some files"};
  return std::unique_ptr<Tty>(new Tty());
}

Tty::Tty() : colours_(capability("setaf").empty() ? 0 : ::tigetnum("colors")) {
  const char* const codeset = ::nl_langinfo(CODESET);  // NOLINT(concurrency-mt-unsafe): no other thread asks for it
  look_ = {.unicode = std::string_view(codeset) == "UTF-8",
           .depth = depth_of({.colorterm = variable("COLORTERM"),
                              .term = variable("TERM"),
                              .no_color = !variable("NO_COLOR").empty(),
                              .colours = colours_}),
           .light = has_light_ground()};
  ::cbreak();
  ::noecho();
  ::nonl();
  ::set_escdelay(25);
  key_pad = ::newpad(1, 1);
  ::nodelay(key_pad, TRUE);
  ::keypad(key_pad, TRUE);
  define_keys();
  ::mouseinterval(0);
  ::tcgetattr(STDIN_FILENO, &own_modes);
  own_modes.c_iflag &= ~static_cast<tcflag_t>(IXON);  // Ctrl+Q is a key, and Ctrl+S must not seem to freeze it
  const std::string last = "\033[?1006l\033[?1000l" + capability("rmkx") + capability("sgr0") + capability("op") +
                           capability("cnorm") + capability("rmcup");
  const std::string without_mouse = last.substr(last.find(capability("rmkx")));
  const std::string& restoring_text = capability("kmous").empty() ? without_mouse : last;
  restoring_size = std::min(restoring_text.size(), restoring.size());
  std::copy_n(restoring_text.begin(), restoring_size, restoring.begin());
  install_handlers();
  enter();
}

Tty::~Tty() {
  ::mousemask(0, nullptr);
  restore();
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  for (const int number : {SIGWINCH, SIGTSTP, SIGCONT}) ::sigaction(number, &usual, nullptr);
  for (std::size_t i = 0; i < crashes.size(); ++i) ::sigaction(crashes.at(i), &crash_actions.at(i), nullptr);
}

void Tty::enter() {
  is_taken = true;
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &own_modes);
  write_all(capability("smcup") + capability("smkx") + capability("civis") + capability("sgr0") + capability("clear"));
  ::mousemask(BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED, nullptr);
  shown_.reset();
  measure();
}

void Tty::measure() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    width_ = size.ws_col;
    height_ = size.ws_row;
  } else {
    width_ = std::max(::tigetnum("cols"), 1);
    height_ = std::max(::tigetnum("lines"), 1);
  }
  constexpr int most = 1000;
  width_ = std::min(width_, most);
  height_ = std::min(height_, most);
}

void Tty::show(const Screen& screen) {
  Painter painter(look_, colours_);
  const bool all = !shown_ || shown_->width() != screen.width() || shown_->height() != screen.height();
  if (!all && *shown_ == screen) return;
  std::string before;
  if (all) before = capability("sgr0") + capability("clear");
  for (int y = 0; y < screen.height(); ++y) {
    bool is_there = false;  // whether the terminal's cursor is where the next cell belongs
    for (int x = 0; x < screen.width(); ++x) {
      const Cell& cell = screen.at(x, y);
      // The last cell of all would scroll some terminals.
      const bool is_last = x + 1 == screen.width() && y + 1 == screen.height();
      const bool is_same = all ? cell == Cell() : cell == shown_->at(x, y);
      if (is_same || is_last || cell.glyph == 0) {
        is_there = cell.glyph == 0 && is_there;
        continue;
      }
      if (!is_there) painter.move_to(x, y);
      painter.put(cell);
      is_there = true;
    }
  }
  write_all(before + painter.take());
  shown_ = screen;
}

std::optional<Input> Tty::next_input() {
  wint_t character = 0;
  const int kind = ::wget_wch(key_pad, &character);
  if (kind == ERR) return std::nullopt;
  if (kind == OK) return key_of(character);
  const auto code = static_cast<int>(character);
  if (code == KEY_MOUSE) {
    MEVENT event{};
    if (::getmouse(&event) != OK) return Woken();
    if ((event.bstate & BUTTON4_PRESSED) != 0) return Click{Button::wheel_up, event.x, event.y};
    if ((event.bstate & BUTTON5_PRESSED) != 0) return Click{Button::wheel_down, event.x, event.y};
    if ((event.bstate & BUTTON1_PRESSED) != 0) return Click{Button::left, event.x, event.y};
    return Woken();
  }
  if (const auto special = special_of(code)) return Key{.special = *special};
  return Woken();
}

void Tty::suspend() {
  ::mousemask(0, nullptr);
  restore();
  struct sigaction usual {
  }, own{};
  usual.sa_handler = SIG_DFL;
  ::sigaction(SIGTSTP, &usual, &own);
  ::raise(SIGTSTP);
  ::sigaction(SIGTSTP, &own, nullptr);
}

Input Tty::wait(std::chrono::milliseconds patience) {
  if (const auto input = next_input()) return *input;
  std::array<pollfd, 2> files{
      {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0}, {.fd = wake_pipe[0], .events = POLLIN, .revents = 0}}};
  ::poll(files.data(), files.size(), static_cast<int>(patience.count()));
  std::array<char, 256> bytes{};
  while (::read(wake_pipe[0], bytes.data(), bytes.size()) > 0) continue;
  if (must_stop.exchange(false)) {
    suspend();
    has_continued = true;
  }
  if (has_continued.exchange(false)) {
    enter();
    return Resized();
  }
  if (was_resized.exchange(false)) {
    measure();
    return Resized();
  }
  if (const auto input = next_input()) return *input;
  int waiting = 0;
  const bool is_gone = (files[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
  const bool is_at_end =
      (files[0].revents & POLLIN) != 0 && ::ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 && waiting == 0;
  if ((is_gone || is_at_end) && !has_terminal()) ending = SIGHUP;
  return Woken();
}

void Tty::copy(std::string_view text) {
  constexpr std::size_t longest = 74'994;  // in base64 what terminals take
  write_all("\033]52;c;" + base64(text.substr(0, longest)) + "\a");
}

void Tty::wake() { wake_up(); }

std::optional<int> Tty::ending_signal() {
  const int number = ending;
  return number == 0 ? std::nullopt : std::optional(number);
}

}  // namespace memreel::viewer::terminal
