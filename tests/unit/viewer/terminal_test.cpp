// SPDX-License-Identifier: Apache-2.0
// The terminal's screens, without a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/histories.h"
#include "viewer/terminal/browser.h"
#include "viewer/terminal/holders.h"
#include "viewer/terminal/list.h"
#include "viewer/terminal/screen.h"
#include "viewer/terminal/terminal_timeline.h"

namespace memreel::viewer::terminal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TerminalScreen, TextIsCutAtItsEdges) {
  Screen screen(6, 2);
  EXPECT_EQ(screen.text(4, 0, "abc"), 6);
  screen.text(-1, 1, "xy");
  screen.text(0, 5, "elsewhere");
  screen.text_before(6, 1, "end");
  EXPECT_EQ(screen.plain_text(), "    ab\ny  end\n");
  EXPECT_EQ(screen.text(0, 0, "abcdef", {}, 2), 2);
}

TEST(TerminalScreen, WideCharactersTakeTwoColumns) {
  Screen screen(5, 1);
  EXPECT_EQ(screen.text(0, 0, "層a"), 3);
  EXPECT_EQ(screen.at(1, 0).glyph, 0U);
  screen.put(1, 0, U'x');  // half of it can't stay
  EXPECT_EQ(screen.plain_text(), " xa\n");
  screen.put(4, 0, U'層');
  EXPECT_EQ(screen.at(4, 0).glyph, U' ');
  EXPECT_EQ(width_of("層層"), 4);
  EXPECT_EQ(fitting("層層層", 4), "層\u2026");
}

TEST(TerminalScreen, NamesCannotMoveTheCursor) {
  Screen screen(20, 1);
  screen.text(0, 0, "a\033[2Jb\nc\u202ed\xff");
  EXPECT_EQ(screen.plain_text(), "a?[2Jb?c?d\uFFFD\n");
}

TEST(TerminalScreen, LongTextsLoseTheirEndOrTheirMiddle) {
  EXPECT_EQ(fitting("forward", 7), "forward");
  EXPECT_EQ(fitting("forward", 5), "forw\u2026");
  EXPECT_EQ(fitting_middle("modeling_gpt2.py:702", 10), "mod\u2026py:702");
  EXPECT_EQ(fitting("x", 0), "");
}

TEST(TerminalScreen, AsciiHasASignForEverything) {
  Screen screen(4, 1);
  screen.text(0, 0, "→│█é");
  screen.make_ascii();
  EXPECT_EQ(screen.plain_text(), ">|#?\n");
}

TEST(TerminalLook, ColoursFollowTheEnvironment) {
  EXPECT_EQ(depth_of({.colorterm = "truecolor", .term = "xterm-256color", .colours = 256}), Depth::direct);
  EXPECT_EQ(depth_of({.colorterm = "", .term = "xterm-256color", .colours = 256}), Depth::indexed);
  EXPECT_EQ(depth_of({.colorterm = "", .term = "xterm", .colours = 8}), Depth::sixteen);
  EXPECT_EQ(depth_of({.colorterm = "truecolor", .term = "vt100", .colours = -1}), Depth::none);
  EXPECT_EQ(depth_of({.colorterm = "truecolor", .term = "xterm", .no_color = true, .colours = 256}), Depth::none);
}

TEST(TerminalLook, FewerColoursAreTheNearest) {
  EXPECT_EQ(indexed({0xFFFFFF}), 231);
  EXPECT_EQ(indexed({0x5FAFFF}), 75);
  EXPECT_EQ(indexed({0x808080}), 244);
  EXPECT_EQ(basic({0x000000}, 16), 0);
  EXPECT_EQ(basic({0xFF2020}, 16), 9);
  EXPECT_EQ(basic({0xFF2020}, 8), 1);
}

std::string drawn(const Chart& chart, int rows, const Look& look) {
  Screen screen(static_cast<int>(chart.columns.size()), rows);
  draw_chart(screen, screen.area(), chart, look);
  return screen.plain_text();
}

TEST(TerminalChart, HeightsHaveEightLevelsInEachRow) {
  const Chart chart{.layers = {{{0x0000FF}, 'A'}},
                    .columns = {{{0}, 0}, {{1}, 0}, {{8}, 0}, {{12}, 0}, {{16}, 0}, {{4}, 16}},
                    .top = 16};
  EXPECT_EQ(drawn(chart, 2, {}), "   ▄█░\n ▁███▄\n");
}

TEST(TerminalChart, WithoutColoursLayersAreLetters) {
  const Chart chart{
      .layers = {{{0x0000FF}, 'P'}, {{0x00FF00}, 'A'}}, .columns = {{{8, 16}, 32}, {{16, 0}, 16}}, .top = 32};
  EXPECT_EQ(drawn(chart, 4, {.unicode = true, .depth = Depth::none}), ".\nA\nAP\nPP\n");
  EXPECT_EQ(drawn(chart, 4, {.unicode = false}), ".\nA\nAP\nPP\n");
}

TEST(TerminalChart, ThreeLayersInARowLeaveTheLargestTwo) {
  const Chart chart{.layers = {{{1}, 'a'}, {{2}, 'b'}, {{3}, 'c'}}, .columns = {{{4, 1, 3}, 0}}, .top = 8};
  Screen screen(1, 1);
  draw_chart(screen, screen.area(), chart, {});
  EXPECT_EQ(screen.at(0, 0).style.ink, Colour{1});
  EXPECT_EQ(screen.at(0, 0).style.ground, Colour{3});
  EXPECT_EQ(screen.at(0, 0).glyph, U'▄');
}

TEST(TerminalChart, SparkLinesShowTheMaximumOfEachPart) {
  EXPECT_EQ(spark_line({0, 8, 1, 4}, 8, 4, {}), " █▁▄");
  EXPECT_EQ(spark_line({0, 8, 1, 4}, 8, 2, {}), "█▄");
  EXPECT_EQ(spark_line({0, 8}, 8, 2, {.unicode = false}), " 8");
  EXPECT_EQ(spark_line({}, 8, 4, {}), "");
}

List numbers() {
  List list;
  list.columns = {{"bytes", 6}, {"who", 0, false}};
  for (const auto& [bytes, who] : std::vector<std::pair<double, std::string>>{{3, "c"}, {9, "alpha"}, {5, "b"}}) {
    ListRow row;
    row.cells = {std::to_string(static_cast<int>(bytes)), who};
    row.numbers = {bytes};
    list.rows.push_back(row);
  }
  return list;
}

TEST(TerminalList, TheSelectedRowStaysInView) {
  const List list = numbers();
  ListState state;
  move_selection(state, list, 99);
  EXPECT_EQ(state.selected, 2U);
  Screen screen(20, 3);
  const DrawnList shown = draw_list(screen, screen.area(), list, state, {});
  EXPECT_EQ(shown.first, 1U);
  EXPECT_EQ(screen.plain_text(), " bytes  who\n     9  alpha\n     5  b\n");
  EXPECT_TRUE(screen.at(0, 2).style.reversed);
  move_selection(state, list, -99);
  EXPECT_EQ(selected_row(state, list)->cells.at(1), "c");
}

TEST(TerminalList, RowsAreSortedAndFound) {
  List list = numbers();
  ListState state;
  next_order(state, list, 1);
  EXPECT_EQ(state.sorted_by, 0U);
  sort_rows(list, state);
  EXPECT_EQ(row_text(list.rows.front()), "9\talpha");
  next_order(state, list, 1);
  EXPECT_FALSE(state.sorted_by);
  EXPECT_TRUE(find_row(state, list, "B", 1));
  EXPECT_EQ(selected_row(state, list)->cells.at(1), "b");
  EXPECT_FALSE(find_row(state, list, "nowhere", 1));
}

/// A browser of a sample, once nothing is left to do.
class TerminalBrowser : public ::testing::Test {
 protected:
  void open(const std::string& name) {
    browser_ =
        std::make_unique<Browser>(std::make_unique<Session>(
                                      memreel::test::source_directory() / "samples/traces" / name, [] {}, Bytes{}),
                                  Look(), Browser::Others{.wake = [] {}});
    settle();
  }
  void settle() {
    using namespace std::chrono_literals;
    for (int i = 0; i < 6000; ++i) {
      browser_->update(Clock::now());
      static_cast<void>(browser_->draw(100, 30));
      if (!browser_->is_busy() && browser_->session().document().complete) return;
      std::this_thread::sleep_for(10ms);
    }
    FAIL() << "still " << browser_->session().doing();
  }
  std::string press(const Key& key) {
    browser_->handle(key);
    settle();
    return browser_->draw(100, 30).plain_text();
  }
  std::string press(char32_t character) { return press(Key{.character = character}); }
  std::string press(Special special) { return press(Key{.special = special}); }
  Browser& browser() { return *browser_; }

 private:
  std::unique_ptr<Browser> browser_;
};

TEST_F(TerminalBrowser, OpensAtThePeakWithTheLineThatHoldsMost) {
  open("gpt_default.reel");
  const std::string shown = browser().draw(100, 30).plain_text();
  EXPECT_THAT(shown, HasSubstr("(live peak)"));
  EXPECT_THAT(shown, HasSubstr("activations"));
  EXPECT_THAT(shown, HasSubstr("forward (transformers/models/gpt2/modeling_gpt2.py"));
}

TEST_F(TerminalBrowser, TreesOfARangeHoldWhatItsStacksWeigh) {
  open("gpt_default.reel");
  const Document& document = browser().session().document();
  const HeapId heap = browser().session().selection.heap;
  const std::uint32_t first = document.event_count() / 4, end = document.event_count() / 2;
  std::atomic<float> share;
  const Progress progress({}, share);
  std::uint64_t before = std::numeric_limits<std::uint64_t>::max();
  for (const bool only_kept : {false, true}) {
    const auto weights = weigh_stacks(document,
                                      {.weighing = only_kept ? Weighing::kept : Weighing::allocated,
                                       .heap = heap,
                                       .first_event = first,
                                       .end_event = end},
                                      progress)
                             .value();
    std::uint64_t bytes = 0;
    for (const StackWeight& weight : weights) bytes += weight.bytes;
    EXPECT_GT(bytes, 0U);
    EXPECT_LT(bytes, std::exchange(before, bytes));
    const HolderRange range{.heap = heap, .first = first, .end = end, .only_kept = only_kept};
    const auto* const known = browser().session().classification().get();
    for (const HolderTree& tree :
         {holders_in(document, range, known, nullptr, progress).value(), flame_tree(*document.tables, weights)}) {
      EXPECT_EQ(tree.root().bytes.count, bytes);
      for (const Holder& holder : tree.nodes) {
        Bytes parts;
        for (const std::uint32_t part : holder.parts) parts += tree.nodes[part].bytes;
        EXPECT_LE(parts, holder.bytes) << holder.label;
      }
    }
  }
}

TEST_F(TerminalBrowser, EverySizeIsDrawn) {
  open("oom_default.reel");
  for (const TabName& name : tab_names) {
    browser().handle(Key{.character = static_cast<char32_t>(name.key)});
    for (const auto& [width, height] : {std::pair{1, 1}, {40, 12}, {41, 13}, {79, 23}, {300, 100}}) {
      const Screen screen = browser().draw(width, height);
      EXPECT_EQ(screen.width(), width);
      EXPECT_EQ(screen.height(), height);
    }
    browser().handle(Key{.character = U'i'});
    static_cast<void>(browser().draw(130, 30));
    browser().handle(Key{.character = U'i'});
  }
}

TEST_F(TerminalBrowser, HostileFilesAreShownOrRefused) {
  const std::filesystem::path folder = memreel::test::source_directory() / "tests/data/hostile";
  std::size_t shown = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(file.path().filename());
    Browser hostile(std::make_unique<Session>(
                        file.path(), [] {}, Bytes{}),
                    Look(), Browser::Others{.wake = [] {}});
    for (int i = 0; i < 3000 && !hostile.failure(); ++i) {
      hostile.update(Clock::now());
      static_cast<void>(hostile.draw(100, 30));
      if (!hostile.is_busy() && hostile.session().document().complete) break;
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    if (hostile.failure()) continue;
    ++shown;
    for (const char32_t key : std::u32string(U"w145678922ixek3xemm1mP,.[]pogtch<>nNuyvl+-ad0f")) {
      hostile.handle(Key{.character = key});
      hostile.handle(Key{.special = Special::left});
      hostile.handle(Key{.special = Special::enter});
      hostile.update(Clock::now());
      static_cast<void>(hostile.draw(100, 30));
    }
  }
  EXPECT_GT(shown, 0U);
}

TEST_F(TerminalBrowser, TheCursorReachesBothEndsAndStays) {
  open("leak.reel");
  const std::uint32_t events = browser().session().document().event_count();
  for (int i = 0; i < 40; ++i) press(Special::shift_right);
  for (std::uint32_t i = 0; i < 20; ++i) press(Special::right);
  EXPECT_GE(browser().session().selection.cursor + 10, events);  // the last are marks
  for (int i = 0; i < 40; ++i) press(Special::shift_left);
  EXPECT_LE(browser().session().selection.cursor, 10U);
}

TEST_F(TerminalBrowser, AnEventIsNumberedAsInTheCommandLine) {
  open("gpt_default.reel");
  const std::uint32_t peak = browser().session().series()->peak_live_event;  // the number of events until it
  ASSERT_TRUE(press(Special::right).find("(live peak)") == std::string::npos);
  Session& session = browser().session();
  ASSERT_TRUE(session.go_to("event:" + std::to_string(peak - 1)));
  EXPECT_EQ(session.selection.cursor, peak);
  EXPECT_THAT(browser().draw(100, 30).plain_text(), HasSubstr("event 26,463  5.37 GiB live"));
  ASSERT_TRUE(session.go_to("event:0"));
  EXPECT_EQ(session.selection.cursor, 1U);
  session.set_cursor(0);
  EXPECT_THAT(browser().draw(100, 30).plain_text(), HasSubstr("before the first event  0 B live"));
}

TEST_F(TerminalBrowser, WhatIsRoundedIsNotFree) {
  open("oom_default.reel");
  const std::string heap = press(U'4');
  const Session& session = browser().session();
  ASSERT_TRUE(session.heap()->rounding);
  EXPECT_GT(*session.heap()->rounding, 0_B);
  const Bytes free =
      session.heap()->reserved - session.heap()->live - session.heap()->pending - *session.heap()->rounding;
  EXPECT_THAT(heap, HasSubstr(text_of(free) + " of them free, " + text_of(*session.heap()->rounding) + " rounding"));
  open("jax_crowded.xplane.pb.gz");
  EXPECT_THAT(press(U'4'), HasSubstr(" of them free or rounding")) << "its rules are not known";
}

TEST_F(TerminalBrowser, LeaksThatAreNotJudgedAreNotDenied) {
  open("oom_default.reel");
  const std::string unjudged = press(U'5');
  EXPECT_THAT(unjudged, HasSubstr("Leaks are not judged"));
  EXPECT_THAT(unjudged, Not(HasSubstr("No leak was found")));
  open("gpt_default.reel");
  EXPECT_THAT(press(U'5'), HasSubstr("No leak was found, judged over"));
  open("leak.reel");
  EXPECT_THAT(press(U'5'), HasSubstr("leaked or suspected, judged over"));
}

TEST_F(TerminalBrowser, ZoomEndsAtTenNanoseconds) {
  open("gpt_default.reel");
  std::string shown;
  for (int i = 0; i < 90; ++i) shown = press(U'w');
  EXPECT_GE(browser().session().selection.view.length(), Nanoseconds{10});
  EXPECT_LE(browser().session().selection.view.length(), Nanoseconds{20});
  EXPECT_THAT(shown, HasSubstr("(live peak)"));
  press(U'0');
  EXPECT_GT(browser().session().selection.view.length(), Nanoseconds{2'000'000'000});
}

TEST_F(TerminalBrowser, ASearchIsTypedAndCleared) {
  open("gpt_default.reel");
  press(U'/');
  for (const char32_t c : std::u32string(U"adamX")) press(c);
  press(Special::backspace);
  EXPECT_EQ(browser().session().selection.search, "");
  EXPECT_THAT(press(Special::enter), HasSubstr("only /adam"));
  EXPECT_THAT(press(Special::escape), Not(HasSubstr("only /adam")));
  press(U'q');
  EXPECT_TRUE(browser().wants_to_quit());
}

}  // namespace
}  // namespace memreel::viewer::terminal
