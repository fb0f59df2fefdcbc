#include "collector/attach/live_view.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/attach/analysis.h"
#include "collector/attach/keys.h"
#include "collector/attach/live_memory.h"
#include "formats/model/printable.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
#include "formats/reader/trace_reader.h"

namespace memreel::attach {
namespace {

using Clock = std::chrono::steady_clock;

std::string padded(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string text_of_growth(double growth) {
  return (growth < 0 ? "-" : "+") + text_of(Bytes{static_cast<std::uint64_t>(std::llround(std::abs(growth)))});
}

std::string short_file(std::string_view file) { return std::string(file.substr(file.rfind('/') + 1)); }

/// The innermost informative frames: those with a line, else the innermost one. "f (a.py:3) < g (b.py:9)"
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
    text += padded(std::to_string(heap.device), 3) + "  " + padded(text_of(heap.live), 14) + "  " +
            padded(heap.reserved.count > 0 ? text_of(heap.reserved) : "", 12) + "  " +
            padded(heap.fragmentation ? text_of_share(*heap.fragmentation) : "", 13) + "  " + heap.name + "\n";
    ++used;
  }
  text += "\n";
  for (const std::string& line : lines_of_analysis(*now.analysis, 4)) {
    text += cut(line, columns);
    ++used;
  }
  text += "\n         live     count  stack\n";
  for (const LiveStack& stack : now.memory->top(rows > used + 2 ? rows - used - 2 : 1))
    text += cut(padded(text_of(stack.live), 13) + "  " + padded(text_of(stack.count), 8) + "  " +
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
