// SPDX-License-Identifier: Apache-2.0
// The browser as a whole: what is on screen, and what keys and the mouse do. Knows no terminal.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <variant>

#include "viewer/model/background.h"
#include "viewer/model/flame.h"
#include "viewer/model/ranks.h"
#include "viewer/terminal/compare.h"
#include "viewer/terminal/holders.h"
#include "viewer/terminal/list.h"
#include "viewer/terminal/open_trace.h"
#include "viewer/terminal/screen.h"
#include "viewer/terminal/tabs.h"
#include "viewer/terminal/terminal_timeline.h"
#include "viewer/terminal/tty.h"

namespace memreel::viewer::terminal {

/// The smallest screen that has room for everything.
inline constexpr int least_width = 40, least_height = 12;

class Browser {
 public:
  /// What else may be opened: `files` are the ranks of a job, if several or if `is_job`; the session's, until the one
  /// that decides is known. `at`: the instant to go to in that one; may be empty. `compare`, if not empty, is a trace
  /// to compare with. `is_nested`: opened from the table of processes, to which q leads back. `wake`, `memory_limit`:
  /// as for the session.
  struct Others {
    std::vector<std::filesystem::path> files{};
    bool is_job = false;
    std::string at{};
    std::filesystem::path compare{};
    bool is_nested = false;
    std::function<void()> wake{};
    Bytes memory_limit{};
  };
  Browser(std::unique_ptr<Session> session, Look look, Others others);

  /// Takes over news from background jobs. To be called before draw().
  void update(Clock::time_point now);
  Screen draw(int width, int height);
  void handle(const Input& input);

  bool wants_to_quit() const { return quit_; }
  /// Whether a job is running whose result will be shown.
  bool is_busy() { return !doing().empty(); }
  /// "reading 40 %"; empty: nothing.
  std::string doing();
  /// Why the trace can't be read.
  std::optional<Error> failure() const;
  /// What the user wants in the clipboard, once.
  std::optional<std::string> take_copied() { return std::exchange(copied_, std::nullopt); }
  Session& session() { return *session_; }
  Tab tab() const { return tab_; }

 private:
  /// What a click on a part of the screen means.
  struct OnTimeline {};
  struct OnRow {
    std::size_t row = 0;
  };
  using Meaning = std::variant<OnTimeline, OnRow, Tab, Destination>;
  struct Spot {
    Area area;
    Meaning meaning;
  };

  void draw_title(Screen& screen, int y);
  void draw_verdict(Screen& screen, const Area& area);
  /// What the trace lacks, in as many lines as it takes and `area` has. Returns their number.
  int draw_notes(Screen& screen, const Area& area);
  void draw_timeline(Screen& screen, const Area& area);
  void draw_instant(Screen& screen, int y);
  void draw_tabs(Screen& screen, int y);
  void draw_tab(Screen& screen, const Area& area);
  void draw_stack(Screen& screen, const Area& area);
  void draw_status(Screen& screen, int y);
  int draw_item(Screen& screen, int x, int y, int right, const VerdictItem& item, bool with_topic);

  void press(const Key& key);
  void type(const Key& key);
  bool press_special(Special special);
  void press_character(char32_t character);
  void click(const Click& click);
  void press_enter();
  void press_escape();
  void show_tab(Tab tab);
  void go(const Destination& to);
  void move_cursor(int columns);
  void zoom(double factor, std::optional<Nanoseconds> anchor = {});
  /// Moves the view so that the cursor is in it.
  void reveal_cursor();
  void move_row(std::int64_t by);
  void fold(bool all);
  void focus();
  void copy();
  void next_list_order(int by);
  void seek(int by);
  bool has_tab(Tab tab) const;
  /// The stack of the selected row.
  StackId selected_stack() const;
  void update_list(int width);
  void update_trees();
  void update_holders();
  void update_flame();
  void take_tree(Tab tab, HolderTree tree, bool is_classified);
  void mark_range();
  /// "allocated in the range of 1.25 s ..."; empty: no range is marked.
  std::string scope() const;
  void open_rank();
  void open(const std::filesystem::path& file);
  /// What the answer about the job says, once it is known.
  void take_answer();
  void forget();
  /// What a list is made of: it is made again only if that changes.
  struct ListKey {
    Tab tab = Tab::holders;
    std::shared_ptr<const HeapAt> heap;
    std::shared_ptr<const Findings> findings;
    std::shared_ptr<const Classification> known;
    std::shared_ptr<const Sieve> sieve;
    std::shared_ptr<const Document> document;
    std::shared_ptr<const AllocationList> listed;
    HeapId of = HeapId::none;
    std::optional<std::size_t> sorted_by;
    int width = 0;
    bool light = false;
    friend bool operator==(const ListKey&, const ListKey&) = default;
  };
  /// A tab that is a tree.
  struct TreePane {
    HolderTree tree{{Holder{}}};
    HolderView view;
    std::vector<HolderRow> rows;
    std::string selected_path;  // of the selected node
    bool opened_largest = false;
  };
  TreePane& pane(Tab tab) { return trees_.at(tab == Tab::flame ? 1 : 0); }
  /// The tab's; null if it is a list.
  TreePane* shown_tree() { return tab_ == Tab::holders || tab_ == Tab::flame ? &pane(tab_) : nullptr; }
  struct RangeKey {
    HolderRange range;
    std::uint32_t version = 0, classified = 0;
    std::shared_ptr<const Sieve> sieve;
    friend bool operator==(const RangeKey&, const RangeKey&) = default;
  };
  /// Of one trace.
  struct Jobs {
    Background<RangeKey, HolderTree> range;
    Background<WeightQuery, HolderTree> flame;
    Allocations allocations;
  };
  ListState& state() { return states_.at(static_cast<std::size_t>(tab_)); }

  std::unique_ptr<Session> session_;
  Look look_;
  Others others_;
  std::unique_ptr<Ranks> ranks_;  // null: a single file is open
  bool awaits_answer_ = false;    // about them, and nobody has chosen one
  Compare compare_;
  Tab tab_ = Tab::holders;
  std::array<ListState, tab_names.size()> states_;
  List list_;
  std::optional<ListKey> list_key_;  // none: made anew each time
  Timeline timeline_;
  Area plot_;
  int page_ = 10;  // rows of the list in view
  std::vector<Spot> spots_;

  std::array<TreePane, 2> trees_;
  // What the trees are made of.
  std::shared_ptr<const HeapAt> tree_heap_;
  std::shared_ptr<const Classification> tree_known_;
  std::shared_ptr<const Sieve> tree_sieve_;
  std::shared_ptr<const HolderTree> range_tree_, flame_tree_;
  bool only_kept_ = false;  // of the marked range
  bool renumbered_ = false;
  std::uint32_t begun_anew_ = 0;

  bool shows_verdict_ = true, shows_stack_ = false, shows_help_ = false, typing_ = false, quit_ = false;
  int stack_top_ = 0, help_top_ = 0;
  std::string typed_, said_;
  std::optional<std::string> copied_;
  std::unique_ptr<Jobs> jobs_ = std::make_unique<Jobs>();  // last member: jobs use the others
};

}  // namespace memreel::viewer::terminal
