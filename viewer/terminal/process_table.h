// SPDX-License-Identifier: Apache-2.0
// The live table of recorded processes: what is on screen, and what keys and the mouse do. Knows no terminal.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "formats/model/result.h"
#include "viewer/terminal/list.h"
#include "viewer/terminal/open_trace.h"
#include "viewer/terminal/recorded.h"
#include "viewer/terminal/screen.h"
#include "viewer/terminal/tty.h"

namespace memreel::viewer::terminal {

class ProcessTable {
 public:
  /// What is known now; null: nothing more will be, as what asks the processes has ended.
  using Latest = std::function<std::shared_ptr<const Recorded>()>;
  ProcessTable(Latest latest, RecordedOrder order, Look look);

  void update(Clock::time_point now);
  Screen draw(int width, int height);
  void handle(const Input& input);

  /// Also to open a trace.
  bool wants_to_quit() const { return quit_ || opened_; }
  static bool is_busy() { return false; }
  static std::optional<Error> failure() { return std::nullopt; }
  std::optional<std::string> take_copied() { return std::exchange(copied_, std::nullopt); }
  /// The trace of a process to be browsed, once; none: the user wants to quit.
  std::optional<std::filesystem::path> take_opened() { return std::exchange(opened_, std::nullopt); }
  /// In the line at the bottom, until the next key.
  void say(std::string text) { said_ = std::move(text); }

 private:
  void press(const Key& key);
  void press_character(char32_t character);
  void click(const Click& click);
  void open();
  void order_by(RecordedOrder order);
  void move_row(std::int64_t by);
  void seek(int by);
  /// What the row is about, across updates: the process, and its how-manieth row.
  std::pair<int, std::size_t> key_of(std::size_t row) const;

  Latest latest_;
  RecordedOrder order_;
  Look look_;
  std::shared_ptr<const Recorded> recorded_ = std::make_shared<const Recorded>();
  List list_;
  ListState state_;
  std::optional<std::pair<int, std::size_t>> selected_;
  Area rows_;
  std::size_t first_row_ = 0;
  bool has_ended_ = false, typing_ = false, shows_help_ = false, quit_ = false;
  int help_top_ = 0;
  std::string typed_, said_;
  std::optional<std::string> copied_;
  std::optional<std::filesystem::path> opened_;
};

}  // namespace memreel::viewer::terminal
