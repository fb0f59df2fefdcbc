// SPDX-License-Identifier: Apache-2.0
// What keys and the mouse do; where the window has the same, by the same keys.
#include <algorithm>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/model/navigation.h"
#include "viewer/terminal/browser.h"
#include "viewer/terminal/list.h"

namespace memreel::viewer::terminal {
namespace {

constexpr double zoom_step = 0.75, pan_step = 0.2;

}  // namespace

void Browser::handle(const Input& input) {
  if (const Key* const key = std::get_if<Key>(&input)) {
    said_.clear();
    typing_ ? type(*key) : press(*key);
  } else if (const Click* const clicked = std::get_if<Click>(&input)) {
    said_.clear();
    click(*clicked);
  }
}

void Browser::press(const Key& key) {
  if (shows_help_) {
    if (key.special == Special::down || key.special == Special::page_down) {
      ++help_top_;
    } else if (key.special == Special::up || key.special == Special::page_up) {
      --help_top_;
    } else {
      shows_help_ = false;
      if (key.character == U'q') quit_ = true;
    }
    return;
  }
  if (!press_special(key.special)) press_character(key.character);
}

/// The search is typed into the line at the bottom.
void Browser::type(const Key& key) {
  const Typed typed = type_into(typed_, key);
  typing_ = typed == Typed::more;
  if (typed == Typed::done) session_->selection.search = typed_;
}

bool Browser::press_special(Special special) {
  constexpr int far = 10;  // columns, with Shift
  switch (special) {
    case Special::none:
      return false;
    case Special::up:
      move_row(-1);
      break;
    case Special::down:
      move_row(1);
      break;
    case Special::left:
      move_cursor(-1);
      break;
    case Special::right:
      move_cursor(1);
      break;
    case Special::shift_left:
      move_cursor(-far);
      break;
    case Special::shift_right:
      move_cursor(far);
      break;
    case Special::alt_left:
      session_->selection.go_back();
      break;
    case Special::alt_right:
      session_->selection.go_forward();
      break;
    case Special::page_up:
      shows_stack_ ? static_cast<void>(stack_top_ -= page_) : move_row(-page_);
      break;
    case Special::page_down:
      shows_stack_ ? static_cast<void>(stack_top_ += page_) : move_row(page_);
      break;
    case Special::home:
      session_->selection.look_at_all(session_->document());
      break;
    case Special::end:
      move_row(static_cast<std::int64_t>(list_.rows.size()));
      break;
    case Special::enter:
      press_enter();
      break;
    case Special::tab:
    case Special::back_tab: {
      const auto count = tab_names.size();
      auto at = static_cast<std::size_t>(tab_);
      do at = (at + (special == Special::tab ? 1 : count - 1)) % count;
      while (!has_tab(static_cast<Tab>(at)));
      show_tab(static_cast<Tab>(at));
      break;
    }
    case Special::backspace:
    case Special::escape:
      press_escape();
      break;
  }
  return true;
}

void Browser::press_character(char32_t character) {
  Selection& selection = session_->selection;
  const Document& document = session_->document();
  const auto jump = [&](std::string_view instant) {
    session_->go_to(instant);
    reveal_cursor();
    selection.remember();
  };
  for (const TabName& name : tab_names)
    if (character == static_cast<char32_t>(name.key)) return show_tab(name.tab);
  if (document.empty() && character != U'q' && character != U'?' && character != U'l' && character != U' ') return;
  switch (character) {
    case U'w':
    case U'W':
    case U'+':
    case U'=':
      return zoom(zoom_step);
    case U's':
    case U'S':
    case U'-':
      return zoom(1 / zoom_step);
    case U'a':
    case U'A':
      return selection.pan(document, -pan_step);
    case U'd':
    case U'D':
      return selection.pan(document, pan_step);
    case U'0':
      selection.look_at_all(document);
      return selection.remember();
    case U'f':
      return look_at_selected(document, selection);
    case U',':
    case U'.':
      step_event(document, selection, character == U',' ? -1 : 1);
      session_->set_cursor(selection.cursor);
      return reveal_cursor();
    case U'[':
    case U']':
      step_mark(document, selection, character == U'[' ? -1 : 1);
      session_->set_cursor(selection.cursor);
      return reveal_cursor();
    case U'p':
      return jump("peak");
    case U'P':
      return jump("reserved-peak");
    case U'o':
      jump("oom");
      return show_tab(Tab::failures);
    case U'g':
      if (session_->verdict()) go(session_->verdict()->headline.to);
      return;
    case U'k':
      if (tab_ == Tab::ranks && ranks_) {
        if (const ListRow* const row = selected_row(state(), list_)) compare_.set_other(ranks_->files()[row->item]);
      } else {
        compare_.set_other({});
        selection.kept = selection.cursor;
      }
      return show_tab(Tab::compare);
    case U'm':
    case U'M':
      return mark_range();
    case U't':
      return session_->next_axis();
    case U'c':
      selection.split = session_->split() == SplitBy::stack ? SplitBy::category : SplitBy::stack;
      return;
    case U'h':
      return session_->next_heap();
    case U'x':
      return fold(true);
    case U'e':
      return focus();
    case U'i':
      shows_stack_ = !shows_stack_;
      stack_top_ = 0;
      return;
    case U'<':
    case U'>':
      return next_list_order(character == U'<' ? -1 : 1);
    case U'/':
      typing_ = true;
      typed_ = selection.search;
      return;
    case U'n':
    case U'N':
      return seek(character == U'N' ? -1 : 1);
    case U'y':
      return copy();
    case U'v':
      shows_verdict_ = !shows_verdict_;
      return;
    case U'l':
      look_.light = !look_.light;
      return;
    case U' ':
      return session_->toggle_pause();
    case U'?':
      shows_help_ = true;
      help_top_ = 0;
      return;
    case U'q':
    case U'Q':
    case 0x11:  // Ctrl+Q
      quit_ = true;
      return;
    default:
      return;
  }
}

void Browser::press_enter() {
  if (shows_stack_) {
    shows_stack_ = false;
    return;
  }
  if (const TreePane* const shown = shown_tree()) {
    if (shown->rows.empty()) return;
    const auto row = std::min(state().selected, shown->rows.size() - 1);
    if (!shown->tree.nodes[shown->rows[row].node].parts.empty()) return fold(false);
  }
  if (tab_ == Tab::ranks) return open_rank();
  const ListRow* const row = selected_row(state(), list_);
  if (row == nullptr) return;
  if (row->allocation) session_->selection.select(session_->document(), *row->allocation);
  if (row->instant && *row->instant != session_->selection.cursor) {
    session_->set_cursor(*row->instant);
    if (row->stack != StackId::none && !row->allocation) session_->selection.select(row->stack);
    reveal_cursor();
    session_->selection.remember();
    return;
  }
  shows_stack_ = true;
  stack_top_ = 0;
}

void Browser::press_escape() {
  Selection& selection = session_->selection;
  if (shows_stack_)
    shows_stack_ = false;
  else if (!selection.search.empty())
    selection.search.clear();
  else if (TreePane* const shown = shown_tree(); shown != nullptr && !shown->view.focus.empty())
    shown->view.focus.clear();
  else
    selection.clear();
}

void Browser::show_tab(Tab tab) {
  if (!has_tab(tab)) {
    said_ = tab == Tab::failures ? why_no_failures(session_->document().trace.get())
            : tab == Tab::ranks  ? "one trace is open"
                                 : "not recorded";
    return;
  }
  tab_ = tab;
  shows_stack_ = false;
}

void Browser::go(const Destination& to) {
  Selection& selection = session_->selection;
  if (to.heap != HeapId::none) selection.heap = to.heap;
  if (to.cursor) session_->set_cursor(*to.cursor);
  if (to.stack) selection.select(*to.stack);
  if (to.category) selection.category = to.category;
  for (const TabName& name : tab_names)
    if (!to.tab.empty() && name.destination == to.tab) show_tab(name.tab);
  reveal_cursor();
  selection.remember();
}

void Browser::move_cursor(int columns) {
  const Document& document = session_->document();
  Selection& selection = session_->selection;
  if (document.empty()) return;
  if (const auto to = moved_cursor(document, selection, timeline_, columns)) return session_->set_cursor(*to);
  // At the edge of the view: the next event beyond it.
  const std::uint32_t before = selection.cursor;
  step_event(document, selection, columns < 0 ? -1 : 1);
  session_->set_cursor(selection.cursor);
  if (selection.cursor != before) reveal_cursor();
}

void Browser::zoom(double factor, std::optional<Nanoseconds> anchor) {
  Selection& selection = session_->selection;
  const Document& document = session_->document();
  const Nanoseconds cursor = selection.cursor == 0 ? document.first_time() : document.time(selection.cursor - 1);
  const bool in_view = cursor >= selection.view.begin && cursor <= selection.view.end;
  selection.zoom(document, factor,
                 anchor.value_or(in_view ? cursor : selection.view.begin + selection.view.length() / 2));
}

void Browser::reveal_cursor() {
  Selection& selection = session_->selection;
  const Document& document = session_->document();
  if (document.empty()) return;
  const Nanoseconds cursor = selection.cursor == 0
                                 ? document.first_time()
                                 : document.time(std::min(selection.cursor, document.event_count()) - 1);
  if (cursor >= selection.view.begin && cursor < selection.view.end) return;
  const Nanoseconds half = selection.view.length() / 2;
  selection.look_at(document, {cursor - half, cursor + half});
}

void Browser::move_row(std::int64_t by) {
  move_selection(state(), list_, by);
  stack_top_ = 0;
  if (TreePane* const shown = shown_tree(); shown != nullptr && state().selected < shown->rows.size())
    shown->selected_path = shown->tree.nodes[shown->rows[state().selected].node].path;
}

namespace {

void open_below(const HolderTree& tree, std::uint32_t node, HolderView& view) {
  if (tree.nodes[node].parts.empty()) return;
  view.open.insert(tree.nodes[node].path);
  for (const std::uint32_t part : tree.nodes[node].parts) open_below(tree, part, view);
}

}  // namespace

/// `all`: opens everything below a closed row.
void Browser::fold(bool all) {
  TreePane* const shown = shown_tree();
  if (shown == nullptr || shown->rows.empty()) return;
  const HolderRow& row = shown->rows[std::min(state().selected, shown->rows.size() - 1)];
  const Holder& holder = shown->tree.nodes[row.node];
  shown->selected_path = holder.path;
  if (row.is_open)
    shown->view.open.erase(holder.path);
  else if (all)
    open_below(shown->tree, row.node, shown->view);
  else if (!holder.parts.empty())
    shown->view.open.insert(holder.path);
}

void Browser::focus() {
  TreePane* const shown = shown_tree();
  if (shown == nullptr || shown->rows.empty()) return;
  const Holder& holder = shown->tree.nodes[shown->rows[std::min(state().selected, shown->rows.size() - 1)].node];
  if (holder.parts.empty()) return;
  shown->view.focus = holder.path;
  state().selected = 0;
}

/// As in the window: the view, or the selected allocation's life. The same range again: what is kept of it, and back.
void Browser::mark_range() {
  Selection& selection = session_->selection;
  const Document& document = session_->document();
  const TimeRange range = selection.allocation ? life_of(document, *selection.allocation) : selection.view;
  only_kept_ = selection.marked == range && !only_kept_;
  selection.marked = range;
}

void Browser::copy() {
  const ListRow* const row = selected_row(state(), list_);
  if (row == nullptr) return;
  if (shows_stack_ && row->stack != StackId::none) {
    const auto lines = stack_lines(*session_->document().tables, row->stack);
    copied_ = copied_stack(lines);
    said_ = "copied the stack, " + counted(lines.size(), "line");
    return;
  }
  copied_ = row->copied.empty() ? row_text(*row) : row->copied;
  said_ = copied_words(*copied_);
}

void Browser::next_list_order(int by) {
  TreePane* const shown = shown_tree();
  if (shown == nullptr) return next_order(state(), list_, by);
  constexpr int orders = 3;
  HolderOrder& order = shown->view.order;
  order = static_cast<HolderOrder>((static_cast<int>(order) + by + orders) % orders);
  state().selected = 0;
  const std::array<const char*, orders> words{"bytes", "count", "name"};
  said_ = std::string("by ") + words.at(static_cast<std::size_t>(order));
}

void Browser::seek(int by) {
  const std::string& wanted = session_->selection.search.empty() ? typed_ : session_->selection.search;
  if (wanted.empty()) {
    said_ = "/ searches";
    return;
  }
  if (!find_row(state(), list_, wanted, by)) said_ = "no row in view has '" + wanted + "'";
  move_row(0);
}

void Browser::click(const Click& clicked) {
  if (shows_help_) {
    shows_help_ = false;
    return;
  }
  const bool is_wheel = clicked.button != Button::left;
  const int direction = clicked.button == Button::wheel_up ? -1 : 1;
  if (is_wheel && plot_.contains(clicked.x, clicked.y) && !timeline_.edges.empty()) {
    const auto column = static_cast<std::size_t>(clicked.x - plot_.left);
    return zoom(direction < 0 ? zoom_step : 1 / zoom_step,
                timeline_.edges[std::min(column, timeline_.edges.size() - 1)]);
  }
  constexpr int rows_per_notch = 3;
  if (is_wheel) return move_row(std::int64_t{direction} * rows_per_notch);
  const auto spot = std::ranges::find_if(spots_, [&](const Spot& s) { return s.area.contains(clicked.x, clicked.y); });
  if (spot == spots_.end()) return;
  if (std::holds_alternative<OnTimeline>(spot->meaning)) {
    const HeapSeries* const series = session_->series();
    if (series == nullptr) return;
    const auto column = static_cast<std::size_t>(clicked.x - plot_.left);
    if (const auto instant = timeline_.instant_of(session_->document(), *series, column))
      session_->set_cursor(*instant);
    else if (column < timeline_.columns.size())
      session_->set_cursor(timeline_.columns[column].end);
  } else if (const OnRow* const row = std::get_if<OnRow>(&spot->meaning)) {
    const bool again = row->row == state().selected;
    if (row->row >= list_.rows.size()) return;
    state().selected = row->row;
    move_row(0);
    if (again) press_enter();
  } else if (const Tab* const tab = std::get_if<Tab>(&spot->meaning)) {
    show_tab(*tab);
  } else {
    go(std::get<Destination>(spot->meaning));
  }
}

}  // namespace memreel::viewer::terminal
