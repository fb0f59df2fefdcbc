// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/live_view.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <map>
#include <span>

#include "collector/attach/session.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel::attach {

Keys::Keys() {
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

Keys::~Keys() {
  if (terminal_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  if (signals_ >= 0) ::close(signals_);
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

char Keys::next(std::chrono::milliseconds pause) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point limit = Clock::now() + pause;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now());
    std::array<pollfd, 2> waiting{pollfd{.fd = signals_, .events = POLLIN, .revents = 0},
                                  pollfd{.fd = terminal_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}};
    const int ready = ::poll(waiting.data(), waiting.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready == 0) return 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return end;
    if (waiting[0].revents != 0) {
      signalfd_siginfo taken{};  // otherwise it would be delivered once it is unblocked
      [[maybe_unused]] const ssize_t size = ::read(signals_, &taken, sizeof taken);
      return end;
    }
    char key = 0;
    if (::read(STDIN_FILENO, &key, 1) <= 0) return end;
    return key >= 'A' && key <= 'Z' ? static_cast<char>(key - 'A' + 'a') : key;
  }
}

namespace {

constexpr std::size_t steps_kept = 33;

}  // namespace

void LiveMemory::add(const EventBatch& batch) {
  std::uint64_t allocation = batch.first_allocation;
  for (std::size_t i = 0; i < batch.events.count(); ++i, ++events_) {
    Event event = batch.events[i];
    if (event.kind == EventKind::alloc) event.allocation = AllocationId{static_cast<std::uint32_t>(allocation++)};
    set_.apply(event);
    if (event.kind == EventKind::alloc) {
      const Heap& heap = (*tables_)[(*tables_)[event.origin].heap];
      if (heap.device < 0) continue;
      has_framework_ = has_framework_ || heap.level == Level::framework;
      owners_[index(event.allocation)] = {.stack = event.stack, .size = event.size, .level = heap.level};
      Held& held = by_stack_[static_cast<std::size_t>(heap.level)][index(event.stack)];
      held.live += event.size;
      ++held.count;
    } else if (event.kind == EventKind::free_requested && event.allocation != AllocationId::none) {
      const auto owner = owners_.find(index(event.allocation));
      if (owner == owners_.end()) continue;
      Held& held = by_stack_[static_cast<std::size_t>(owner->second.level)][index(owner->second.stack)];
      held.live = {held.live.count - owner->second.size.count};
      --held.count;
      owners_.erase(owner);
    } else if (is_step(event)) {
      at_steps_.push_back(live_in(level()));
      if (at_steps_.size() > steps_kept) at_steps_.pop_front();
    }
  }
}

bool LiveMemory::is_step(const Event& event) const {
  constexpr std::array<std::string_view, 5> names{"step", "iteration", "iter", "train_step", "training_step"};
  if (event.kind != EventKind::mark) return false;
  const Mark& mark = (*tables_)[MarkId{static_cast<std::uint32_t>(event.value)}];
  const std::string_view name = (*tables_)[mark.name];
  return mark.phase != MarkPhase::begin &&
         (std::ranges::find(names, name) != names.end() || name.starts_with("Optimizer.step"));
}

Bytes LiveMemory::live_in(Level level) const {
  Bytes live;
  for (const HeapState& state : set_.heaps())
    if ((*tables_)[state.heap].level == level && (*tables_)[state.heap].device >= 0) live += state.live;
  return live;
}

std::vector<LiveHeap> LiveMemory::heaps() const {
  std::vector<LiveHeap> rows;
  for (const HeapState& state : set_.heaps()) {
    const Heap& heap = (*tables_)[state.heap];
    if (heap.device < 0 || (state.live.count == 0 && heap.level == Level::driver && heap.parent != HeapId::none))
      continue;
    LiveHeap row{.name = std::string((*tables_)[heap.name]),
                 .device = heap.device,
                 .live = state.live,
                 .reserved = state.reserved,
                 .fragmentation = {}};
    // A framework that does not report its segments has all that its parent gave out.
    if (heap.level == Level::framework && row.reserved.count == 0 && heap.parent != HeapId::none)
      for (const HeapState& parent : set_.heaps())
        if (parent.heap == heap.parent) row.reserved = parent.live;
    if (heap.level == Level::framework && row.reserved.count >= row.live.count && row.reserved.count > 0)
      row.fragmentation = 1 - static_cast<double>(row.live.count) / static_cast<double>(row.reserved.count);
    rows.push_back(row);
  }
  return rows;
}

std::vector<LiveStack> LiveMemory::top(std::size_t count) const {
  std::vector<LiveStack> stacks;
  for (const auto& [stack, held] : by_stack_[static_cast<std::size_t>(level())])
    if (held.count > 0)
      stacks.push_back({.stack = StackId{static_cast<std::uint32_t>(stack)}, .live = held.live, .count = held.count});
  std::ranges::sort(stacks, [](const LiveStack& a, const LiveStack& b) {
    return a.live != b.live ? a.live > b.live : index(a.stack) < index(b.stack);
  });
  stacks.resize(std::min(stacks.size(), count));
  return stacks;
}

std::optional<double> LiveMemory::growth_per_step() const {
  if (at_steps_.size() < 3) return std::nullopt;
  const double grown = static_cast<double>(at_steps_.back().count) - static_cast<double>(at_steps_.front().count);
  return grown / static_cast<double>(at_steps_.size() - 1);
}

namespace {

using Clock = std::chrono::steady_clock;

/// The innermost informative frames: those with a line, else the innermost one. "f (a.py:3) < g (b.py:9)"
std::string text_of_stack(const Tables& tables, StackId stack) {
  const std::vector<FrameText> frames = frames_of(tables, stack);
  std::string text;
  int shown = 0;
  for (const FrameText& frame : frames) {
    if (frame.line == 0 || shown == 3) continue;
    text += (shown++ > 0 ? " < " : "") + std::string(frame.function) + " (" + std::string(base_name(frame.file)) + ":" +
            std::to_string(frame.line) + ")";
  }
  if (shown == 0) text = frames.empty() ? "no stack" : memreel::text_of(frames.front());
  return text;
}

std::string head_line(const LiveMemory& memory, const Losses& losses, double seconds) {
  const std::uint64_t lost = losses.ring_full + losses.hook_refused;
  std::string text = std::to_string(std::lround(seconds)) + " s  " + counted(memory.event_count(), "event") + ", " +
                     (lost == 0 ? std::string("none") : text_of(lost)) + " lost";
  if (const auto growth = memory.growth_per_step()) text += "  " + text_of_growth(*growth) + " per step";
  return text;
}

/// "parameter 1.2 GiB, activation 800 MiB": for the device that holds most, largest first.
std::string text_of_categories(const Findings& findings, std::size_t most) {
  std::map<std::string, Bytes> sums;
  for (const CategoryUse& use : findings.categories)
    if (use.device >= 0) sums[use.category] += use.bytes;
  std::vector<std::pair<std::string, Bytes>> sorted(sums.begin(), sums.end());
  std::ranges::stable_sort(sorted, std::ranges::greater{}, &std::pair<std::string, Bytes>::second);
  std::string text;
  for (const auto& [category, bytes] : std::span(sorted).first(std::min(sorted.size(), most)))
    text += (text.empty() ? "" : ", ") + category + " " + text_of(bytes);
  return text;
}

/// "leak 1.20 GiB, +2.00 MiB per step: forward (model.py:42)"
std::string text_of_leak(const LeakSoFar& leak) {
  return leak.verdict + " " + text_of(leak.bytes) + ", " + text_of_growth(leak.growth_per_step) +
         " per step: " + (leak.place.empty() ? "no stack" : leak.place);
}

/// The analyzer's findings as lines, at most `rows`.
std::vector<std::string> lines_of_analysis(const Analysis& analysis, std::size_t rows) {
  std::vector<std::string> lines;
  const std::optional<Findings>& findings = analysis.findings();
  if (!findings) {
    lines.push_back(analysis.problem().empty() ? "categories and leaks: analysing" : analysis.problem());
    return lines;
  }
  lines.push_back("categories: " + (findings->categories.empty() ? "none yet" : text_of_categories(*findings, 8)));
  for (const LeakSoFar& leak : findings->leaks) {
    if (lines.size() == rows) break;
    lines.push_back(text_of_leak(leak));
  }
  if (findings->leaks.empty()) lines.emplace_back("no leaks so far");
  if (!analysis.problem().empty()) lines.push_back(analysis.problem());
  return lines;
}

/// What is drawn.
struct Picture {
  const LiveMemory* memory;
  const Tables* tables;
  const Losses* losses;
  const Analysis* analysis;
  double seconds;  // since the beginning
};

std::string one_line(const Picture& now) {
  std::string text = head_line(*now.memory, *now.losses, now.seconds);
  for (const LiveHeap& heap : now.memory->heaps()) {
    text += "  " + heap.name + " " + std::to_string(heap.device) + ": " + text_of(heap.live) + " live";
    if (heap.reserved.count > 0) text += " of " + text_of(heap.reserved);
  }
  if (const std::optional<Findings>& findings = now.analysis->findings()) {
    text += "  " + text_of_categories(*findings, 4);
    if (!findings->leaks.empty()) text += "  " + text_of_leak(findings->leaks.front());
  }
  return text + "\n";
}

/// `line`, cut to fit.
std::string cut(std::string line, std::size_t columns) {
  line.resize(std::min(line.size(), columns - 1));
  while (!is_printable(line)) line.pop_back();  // a partial character
  return line + "\n";
}

std::string table(const Picture& now) {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 8 && size.ws_col > 40;
  const std::size_t rows = known ? size.ws_row : 24, columns = known ? size.ws_col : 100;
  std::string text = head_line(*now.memory, *now.losses, now.seconds) + "\n\n";
  std::size_t used = 7;
  text += "GPU            live      reserved  fragmentation  heap\n";
  for (const LiveHeap& heap : now.memory->heaps()) {
    text += right_aligned(std::to_string(heap.device), 3) + "  " + right_aligned(text_of(heap.live), 14) + "  " +
            right_aligned(heap.reserved.count > 0 ? text_of(heap.reserved) : "", 12) + "  " +
            right_aligned(heap.fragmentation ? text_of_share(*heap.fragmentation) : "", 13) + "  " + heap.name + "\n";
    ++used;
  }
  text += "\n";
  for (const std::string& line : lines_of_analysis(*now.analysis, 4)) {
    text += cut(line, columns);
    ++used;
  }
  text += "\n         live     count  stack\n";
  for (const LiveStack& stack : now.memory->top(rows > used + 2 ? rows - used - 2 : 1))
    text += cut(right_aligned(text_of(stack.live), 13) + "  " + right_aligned(text_of(stack.count), 8) + "  " +
                    text_of_stack(*now.tables, stack.stack),
                columns);
  return text + "\nq to stop recording";
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Waits that long, or until the user quits: then true.
bool end_asked(Keys& keys, std::chrono::milliseconds time) {
  const Clock::time_point limit = Clock::now() + time;
  for (auto left = time; left.count() > 0;
       left = std::chrono::duration_cast<std::chrono::milliseconds>(limit - Clock::now()))
    if (keys.next(left) == Keys::end) return true;
  return false;
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
  Turn turn;
  Analysis analysis(trace, turn);
  EventBatch batch;
  Keys keys;
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  const std::chrono::milliseconds period(static_cast<std::int64_t>(interval * 1000));
  const Clock::time_point begin = Clock::now();
  const auto seconds_now = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  const auto draw = [&] {
    const Picture now{.memory = &memory,
                      .tables = &reader->tables(),
                      .losses = &reader->losses(),
                      .analysis = &analysis,
                      .seconds = seconds_now()};
    // Overwrites the old table, then clears the rest.
    print(terminal ? "\x1b[H\x1b[2J" + table(now) : one_line(now));
  };
  while (true) {
    const bool gone = process.has_ended();
    for (auto more = reader->next(batch); more && *more; more = reader->next(batch)) memory.add(batch);
    analysis.advance(Clock::now());
    draw();
    const bool over = duration > 0 && seconds_now() >= duration;
    if (gone || over || end_asked(keys, period)) {
      if (terminal) print("\n");
      return gone;
    }
  }
}

}  // namespace memreel::attach
