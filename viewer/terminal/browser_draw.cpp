// SPDX-License-Identifier: Apache-2.0
// What the browser shows, from the top: title, verdict, timeline, the instant of the cursor, tabs, a line of keys.
#include <algorithm>
#include <array>

#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
#include "viewer/model/labels.h"
#include "viewer/terminal/browser.h"
#include "viewer/terminal/list.h"

namespace memreel::viewer::terminal {
namespace {

constexpr std::array<HelpLine, 31> help_lines{{{"w + / s -", "zoom in, out at the cursor"},
                                               {"a d", "earlier, later"},
                                               {"0 Home", "the whole trace"},
                                               {"f", "zoom to the marked range or allocation; again: all"},
                                               {"m", "mark the view or allocation; again: what is kept"},
                                               {"Left Right", "cursor; with Shift ten columns"},
                                               {", .", "previous, next event"},
                                               {"[ ]", "previous, next mark or failure"},
                                               {"p P", "peak of live bytes, of reserved bytes"},
                                               {"o", "first failure"},
                                               {"g", "where the verdict points"},
                                               {"k", "keep this instant, or this rank, to compare with"},
                                               {"t", "time, events or steps on the axis"},
                                               {"c", "colour by category or by stack"},
                                               {"Alt+Left Right", "back, forward"},
                                               {"h", "next heap"},
                                               {"Up Down PgUp PgDn", "rows"},
                                               {"Enter", "open or close a row; lead to its instant; its stack"},
                                               {"x", "open all below a row, or close it"},
                                               {"e", "only this row; Esc: everything"},
                                               {"i", "the stack of the row"},
                                               {"< >", "order of the rows"},
                                               {"/", "search stacks and addresses, \">1MiB\" by size"},
                                               {"n N", "next, previous match"},
                                               {"y", "copy the row, the stack or the setting"},
                                               {"Tab 1 ... 9 u r", "tabs; u: Python variables"},
                                               {"v", "show or hide the verdict"},
                                               {"l", "light or dark"},
                                               {"Space", "pause or resume following the file"},
                                               {"Esc", "clear the search, then the selection"},
                                               {"? q", "this help; quit"}}};

/// Without the places that hold most if they do not all fit into `room` columns.
std::vector<VerdictItem> shortened(std::vector<VerdictItem> holders, int room) {
  int needed = 0;
  for (const VerdictItem& holder : holders) needed += width_of(holder.text) + 4;
  if (needed <= room) return holders;
  for (VerdictItem& holder : holders) holder.text = holder.brief;
  return holders;
}

/// What a reader must know of all figures: that the trace is predicted, and what it lacks.
std::vector<std::string> notes_of(const Session& session) {
  const Document& document = session.document();
  const Trace& trace = *document.trace;
  std::vector<std::string> notes;
  if (std::string synthetic = provenance(trace.header); !synthetic.empty()) notes.push_back(std::move(synthetic));
  std::vector<std::string> lacking;
  if (session.grows()) {
    ReadReport read = trace.read;
    read.truncated_bytes = 0;  // still being written
    lacking = shortcomings(trace.losses, read, 0_B, document.older);
  } else {
    lacking = document.shortcomings();
  }
  notes.insert(notes.end(), lacking.begin(), lacking.end());
  return notes;
}

}  // namespace

Screen Browser::draw(int width, int height) {
  Screen screen(width, height);
  spots_.clear();
  if (width < least_width || height < least_height) {
    screen.text(0, 0, fitting("needs " + std::to_string(least_width) + "x" + std::to_string(least_height), width));
    return screen;
  }
  int y = 0;
  draw_title(screen, y++);
  if (shows_verdict_) {
    draw_verdict(screen, {0, y, width, 3});
    y += 3;
    y += draw_notes(screen, {0, y, width, height >= 28 ? 2 : height >= 16 ? 1 : 0});
  }
  const int plot_rows = std::clamp((height - y - 4) / 2 - timeline_rows_below, 3, 24);
  const Area timeline{0, y, width, plot_rows + timeline_rows_below};
  draw_timeline(screen, timeline);
  y = timeline.bottom();
  draw_instant(screen, y++);
  draw_tabs(screen, y++);
  const Area content{0, y, width, height - 1 - y};
  const bool beside = shows_stack_ && width >= 120;
  if (!shows_stack_ || beside)
    draw_tab(screen, {content.left, content.top, beside ? width / 2 : width, content.height});
  if (shows_stack_) {
    if (!beside) update_list(width);
    const int left = beside ? width / 2 + 1 : 0;
    draw_stack(screen, {left, content.top, width - left, content.height});
  }
  draw_status(screen, height - 1);
  if (shows_help_) draw_help(screen, "Keys   (the same as in the window)", help_lines, help_top_, look_);
  if (!look_.unicode) screen.make_ascii();
  return screen;
}

void Browser::draw_title(Screen& screen, int y) {
  const Document& document = session_->document();
  int x = screen.text(0, y, "memreel", {.ink = look_.accent(), .bold = true}) + 2;
  x = screen.text(x, y, std::string(base_name(session_->path().native())), {.bold = true}, screen.width() / 2) + 3;
  if (session_->selection.heap != HeapId::none)
    x = screen.text(x, y, heap_label(*document.tables, session_->selection.heap)) + 3;
  if (document.heaps.size() > 1)
    x = screen.text(x, y, "(h: " + std::to_string(document.heaps.size()) + " heaps)", {.ink = look_.faint()}) + 3;
  std::string right = doing();
  if (right.empty() && session_->is_paused()) right = "paused";
  if (right.empty() && session_->status().followed)
    right = session_->status().still ? "cut off, or not growing" : "following";
  if (right.empty() && session_->selection.axis.by() != AxisBy::time)
    right = "by " + std::string(axis_words.at(static_cast<std::size_t>(session_->selection.axis.by())));
  if (screen.width() - width_of(right) > x) screen.text_before(screen.width(), y, right, {.ink = look_.faint()});
}

int Browser::draw_item(Screen& screen, int x, int y, int right, const VerdictItem& item, bool with_topic) {
  const int begin = x;
  if (x >= right) return x;
  if (item.category) {
    screen.put(x, y, look_.uses_letters() ? static_cast<char32_t>(letter_of(*item.category)) : U'\u25A0',
               {.ink = look_.category(*item.category)});
    x += 2;
  }
  if (with_topic && !item.topic.empty()) x = screen.text(x, y, item.topic + " ", {.ink = look_.faint()}, right - x);
  x = screen.text(x, y, fitting(item.text, right - x), {.ink = item.alarm ? look_.alarm() : Colour()});
  spots_.push_back({{begin, y, x - begin, 1}, item.to});
  return x;
}

void Browser::draw_verdict(Screen& screen, const Area& area) {
  const auto& strip = session_->verdict();
  if (!strip) {
    screen.text(area.left, area.top, fitting(session_->reason_without_findings(), area.width), {.ink = look_.faint()});
    return;
  }
  std::string word(name_of(strip->decides));
  word[0] = static_cast<char>(word[0] - 'a' + 'A');
  Style badge{.bold = true, .reversed = true};
  if (strip->headline.alarm) badge.ink = look_.alarm();
  int x = screen.text(area.left, area.top, " " + word + " ", badge) + 1;
  draw_item(screen, x, area.top, area.right(), strip->headline, false);

  if (!strip->holders.empty()) {
    x = screen.text(area.left, area.top + 1, strip->held_text, {.ink = look_.faint()}) + 1;
    for (const VerdictItem& holder : shortened(strip->holders, area.right() - x)) {
      if (area.right() - x < 12) break;
      x = draw_item(screen, x, area.top + 1, area.right(), holder, false) + 2;
    }
  }
  x = area.left;
  const int y = area.top + 2;
  if (strip->offer) x = draw_item(screen, x, y, area.right(), strip->offer->item, true) + 3;
  for (const VerdictItem& item : strip->others) {
    if (area.right() - x < 12) break;
    x = draw_item(screen, x, y, area.right(), item, true) + 3;
  }
  if (strip->no_offer && area.right() - x >= 12) draw_item(screen, x, y, area.right(), *strip->no_offer, true);
}

int Browser::draw_notes(Screen& screen, const Area& area) {
  const std::vector<std::string> notes = notes_of(*session_);
  const int shown = std::min(area.height, static_cast<int>(notes.size()));
  for (int i = 0; i < shown; ++i) {
    const int left = static_cast<int>(notes.size()) - shown;
    const std::string more = i + 1 == shown && left > 0 ? "  and " + std::to_string(left) + " more" : "";
    const int x = screen.text(area.left, area.top + i, "note ", {.bold = true});
    screen.text(x, area.top + i, fitting(notes[static_cast<std::size_t>(i)], area.right() - x - width_of(more)) + more);
  }
  return shown;
}

void Browser::draw_timeline(Screen& screen, const Area& area) {
  plot_ = {area.left + timeline_gutter, area.top, area.width - timeline_gutter, area.height - timeline_rows_below};
  timeline_ = timeline_of(session_->document(), session_->selection, plot_.width);
  const auto groups = session_->groups();
  terminal::draw_timeline(screen, area, session_->document(), session_->selection, timeline_, groups.get(),
                          session_->split(), look_);
  spots_.push_back({plot_, OnTimeline()});
}

void Browser::draw_instant(Screen& screen, int y) {
  const Document& document = session_->document();
  const HeapSeries* const series = session_->series();
  if (document.empty() || series == nullptr) return;
  const Selection& selection = session_->selection;
  const std::uint32_t cursor = selection.cursor;
  const Nanoseconds since = cursor == 0 ? Nanoseconds{} : document.time(cursor - 1) - document.first_time();
  const Metrics metrics = document.metrics_after(*series, cursor);
  std::string text =
      time_text(since, std::max(selection.view.length() / 1000, Nanoseconds{1})) + "  " + event_text(cursor);
  std::string figures = text_of(Bytes{value_of(metrics, Metric::live)}) + " live";
  if (series->has_segments) figures += ", " + text_of(Bytes{value_of(metrics, Metric::reserved)}) + " reserved";
  const auto& strip = session_->verdict();
  const bool is_instant = strip && strip->decides == Decision::instant;
  if (cursor == series->peak_live_event && !is_instant) figures += "  (live peak)";
  int x = screen.text(0, y, "at ", {.ink = look_.faint()});
  x = screen.text(x, y, text) + 2;
  screen.text(x, y, figures, {.bold = true});
}

void Browser::draw_tabs(Screen& screen, int y) {
  int all = 0;
  for (const TabName& name : tab_names)
    if (has_tab(name.tab)) all += static_cast<int>(name.title.size()) + 5;
  const bool is_brief = all > screen.width();
  const std::string edge = is_brief ? "" : " ";
  int x = 0;
  for (const TabName& name : tab_names) {
    if (!has_tab(name.tab)) continue;
    const bool is_shown = name.tab == tab_;
    const std::string title =
        edge + std::string(1, name.key) + " " + std::string(is_brief ? name.brief : name.title) + edge;
    const int end = screen.text(
        x, y, title, {.ink = is_shown ? look_.accent() : look_.faint(), .bold = is_shown, .reversed = is_shown});
    spots_.push_back({{x, y, end - x, 1}, name.tab});
    x = end + 1;
  }
}

void Browser::draw_tab(Screen& screen, const Area& area) {
  update_list(area.width);
  const DrawnList drawn = draw_list(screen, area, list_, state(), look_);
  page_ = std::max(drawn.rows.height - 1, 1);
  for (int i = 0; i < drawn.rows.height; ++i)
    spots_.push_back(
        {{drawn.rows.left, drawn.rows.top + i, drawn.rows.width, 1}, OnRow{drawn.first + static_cast<std::size_t>(i)}});
}

void Browser::draw_stack(Screen& screen, const Area& area) {
  const StackId stack = selected_stack();
  const std::vector<StackLine> lines = stack_lines(*session_->document().tables, stack);
  const auto count = static_cast<int>(lines.size());
  screen.text(
      area.left, area.top,
      fitting(lines.empty() ? "This row has no stack." : "the stack, innermost first   (i: back, y: copy)", area.width),
      {.ink = look_.faint()});
  stack_top_ = std::clamp(stack_top_, 0, std::max(0, count - (area.height - 1)));
  for (int i = 0; i + 1 < area.height && stack_top_ + i < count; ++i) {
    const StackLine& line = lines[static_cast<std::size_t>(stack_top_) + static_cast<std::size_t>(i)];
    const int y = area.top + 1 + i;
    std::string place(line.frame.short_file.empty() ? line.frame.module_path : line.frame.short_file);
    if (line.frame.line != 0) place += ":" + std::to_string(line.frame.line);
    const Style style{.ink = line.own                       ? look_.accent()
                             : line.library || line.wrapper ? look_.faint()
                                                            : Colour(),
                      .bold = line.own};
    int x = screen.text(area.left, y, line.own ? "\u25B8 " : "  ", style);
    x = screen.text(x, y, fitting(line.name, area.right() - x), style) + 2;
    if (!line.frame.instance.empty()) place += "  [" + std::string(line.frame.instance) + "]";
    if (area.right() - x > 4) screen.text(x, y, fitting(place, area.right() - x), {.ink = style.ink});
  }
}

void Browser::draw_status(Screen& screen, int y) {
  if (typing_) return draw_prompt(screen, y, typed_, look_);
  if (!said_.empty()) {
    screen.text(0, y, fitting(said_, screen.width()), {.ink = look_.accent()});
    return;
  }
  const Selection& selection = session_->selection;
  std::string filter = selection.search.empty() ? "" : "/" + selection.search;
  if (selection.category) filter += (filter.empty() ? "" : " ") + std::string(words_of(*selection.category));
  int x = 0;
  if (!filter.empty())
    x = screen.text(0, y, fitting("only " + filter, screen.width() - 20), {.ink = look_.accent(), .bold = true}) + 2;
  const std::string keys = (filter.empty() ? "" : "Esc all  ") + std::string("? keys  q ") +
                           (others_.is_nested ? "back" : "quit") +
                           std::string(
                               "  w s zoom  \u2190 \u2192 cursor  \u2191 \u2193 Enter rows"
                               "  / search  i stack");
  screen.text(x, y, fitting(keys, screen.width() - x), {.ink = look_.faint()});
}

}  // namespace memreel::viewer::terminal
