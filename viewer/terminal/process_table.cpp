// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/process_table.h"

#include <algorithm>
#include <array>

#include "viewer/terminal/browser.h"

namespace memreel::viewer::terminal {
namespace {

constexpr std::array<HelpLine, 9> table_keys{{{"l r g p", "order by live, reserved, growth, process id"},
                                              {"< >", "the order before, after"},
                                              {"Up Down PgUp PgDn", "rows"},
                                              {"Home End", "first, last row"},
                                              {"Enter", "browse the process's trace while it grows; q comes back"},
                                              {"/", "search; n N: next, previous match"},
                                              {"y", "copy the row"},
                                              {"? Esc", "this help"},
                                              {"q", "quit"}}};

}  // namespace

ProcessTable::ProcessTable(Latest latest, RecordedOrder order, Look look)
    : latest_(std::move(latest)), order_(order), look_(look) {}

void ProcessTable::update(Clock::time_point /*now*/) {
  const auto latest = latest_();
  has_ended_ = latest == nullptr;
  if (latest) recorded_ = latest;
}

std::pair<int, std::size_t> ProcessTable::key_of(std::size_t row) const {
  const std::size_t item = list_.rows[row].item;
  std::size_t first = row;
  while (first > 0 && list_.rows[first - 1].item == item) --first;
  return {(*recorded_)[item].process, row - first};
}

Screen ProcessTable::draw(int width, int height) {
  Screen screen(width, height);
  list_ = recorded_list(*recorded_, order_, width);
  state_.sorted_by = column_of(order_, width);
  if (selected_)
    for (std::size_t row = 0; row < list_.rows.size(); ++row)
      if (key_of(row) == *selected_) state_.selected = row;
  if (width < least_width || height < least_height) {
    screen.text(0, 0, fitting("needs " + std::to_string(least_width) + "x" + std::to_string(least_height), width));
    return screen;
  }
  int x = screen.text(0, 0, "memreel top", {.ink = look_.accent(), .bold = true}) + 2;
  const std::size_t count = recorded_->size();
  x = screen.text(x, 0, std::to_string(count) + (count == 1 ? " process" : " processes")) + 3;
  if (has_ended_) screen.text(x, 0, "no longer asked: memreel-top has ended", {.ink = look_.alarm()});
  int y = 1;
  x = 0;
  for (const std::string& line : device_lines(*recorded_)) {
    if (x > 0 && x + width_of(line) > width) {
      x = 0;
      ++y;
    }
    if (y > height / 3) break;
    x = screen.text(x, y, line) + 4;
  }
  y += 2;
  const DrawnList drawn = draw_list(screen, {0, y, width, height - 1 - y}, list_, state_, look_);
  rows_ = drawn.rows;
  first_row_ = drawn.first;
  if (typing_)
    draw_prompt(screen, height - 1, typed_, look_);
  else if (!said_.empty())
    screen.text(0, height - 1, fitting(said_, width), {.ink = look_.accent()});
  else
    screen.text(0, height - 1,
                fitting("? keys  q quit  l r g p order  \u2191 \u2193 rows  Enter browse the trace  / search", width),
                {.ink = look_.faint()});
  if (shows_help_) draw_help(screen, "Keys of the table", table_keys, help_top_, look_);
  if (!look_.unicode) screen.make_ascii();
  return screen;
}

void ProcessTable::handle(const Input& input) {
  if (const Key* const key = std::get_if<Key>(&input)) {
    said_.clear();
    press(*key);
  } else if (const Click* const clicked = std::get_if<Click>(&input)) {
    said_.clear();
    click(*clicked);
  }
}

void ProcessTable::press(const Key& key) {
  if (typing_) {
    const Typed typed = type_into(typed_, key);
    typing_ = typed == Typed::more;
    if (typed == Typed::done && !typed_.empty()) seek(1);
    return;
  }
  if (shows_help_) {
    const bool is_up = key.special == Special::up, is_down = key.special == Special::down;
    help_top_ += is_up ? -1 : is_down ? 1 : 0;
    shows_help_ = is_up || is_down;
    quit_ = quit_ || key.character == U'q';
    return;
  }
  const int page = std::max(rows_.height - 1, 1);
  const auto all = static_cast<std::int64_t>(list_.rows.size());
  switch (key.special) {
    case Special::none:
      return press_character(key.character);
    case Special::up:
      return move_row(-1);
    case Special::down:
      return move_row(1);
    case Special::page_up:
      return move_row(-page);
    case Special::page_down:
      return move_row(page);
    case Special::home:
      return move_row(-all);
    case Special::end:
      return move_row(all);
    case Special::enter:
      return open();
    default:
      return;
  }
}

void ProcessTable::press_character(char32_t character) {
  const bool is_capital = character >= U'A' && character <= U'Z' && character != U'N';
  const char32_t key = is_capital ? character - U'A' + U'a' : character;
  if (const auto order = recorded_order_of(key)) return order_by(*order);
  switch (key) {
    case U'<':
    case U'>': {
      const std::size_t by = key == U'>' ? 1 : recorded_orders - 1;
      return order_by(static_cast<RecordedOrder>((static_cast<std::size_t>(order_) + by) % recorded_orders));
    }
    case U'/':
      typing_ = true;
      typed_.clear();
      return;
    case U'n':
    case U'N':
      return seek(key == U'N' ? -1 : 1);
    case U'y':
      if (const ListRow* const row = selected_row(state_, list_)) {
        copied_ = row_text(*row);
        said_ = copied_words(*copied_);
      }
      return;
    case U'?':
      shows_help_ = true;
      help_top_ = 0;
      return;
    case U'q':
    case 0x11:  // Ctrl+Q
      quit_ = true;
      return;
    default:
      return;
  }
}

void ProcessTable::order_by(RecordedOrder order) {
  order_ = order;
  selected_.reset();
  state_.selected = 0;
}

void ProcessTable::move_row(std::int64_t by) {
  move_selection(state_, list_, by);
  if (!list_.rows.empty()) selected_ = key_of(std::min(state_.selected, list_.rows.size() - 1));
}

void ProcessTable::seek(int by) {
  if (typed_.empty())
    said_ = "/ searches";
  else if (!find_row(state_, list_, typed_, by))
    said_ = "no row has '" + typed_ + "'";
  move_row(0);
}

void ProcessTable::open() {
  const ListRow* const row = selected_row(state_, list_);
  if (row == nullptr) return;
  const RecordedProcess& process = (*recorded_)[row->item];
  if (process.trace.empty())
    said_ = "process " + std::to_string(process.process) + " has no trace" +
            (!process.problem.empty() ? ": " + process.problem
             : process.is_recording   ? ""
                                      : " yet: memreel attach " + std::to_string(process.process) + " starts one");
  else
    opened_ = process.trace;
}

void ProcessTable::click(const Click& clicked) {
  constexpr int rows_per_notch = 3;
  if (shows_help_) {
    shows_help_ = false;
    return;
  }
  if (clicked.button != Button::left)
    return move_row(clicked.button == Button::wheel_up ? -rows_per_notch : rows_per_notch);
  if (!rows_.contains(clicked.x, clicked.y)) return;
  const std::size_t row = first_row_ + static_cast<std::size_t>(clicked.y - rows_.top);
  if (row >= list_.rows.size()) return;
  if (row == state_.selected) return open();
  state_.selected = row;
  move_row(0);
}

}  // namespace memreel::viewer::terminal
