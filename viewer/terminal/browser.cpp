// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/browser.h"

#include <algorithm>
#include <utility>

#include "viewer/model/labels.h"

namespace memreel::viewer::terminal {

Browser::Browser(std::unique_ptr<Session> session, Look look, Others others)
    : session_(std::move(session)),
      look_(look),
      others_(std::move(others)),
      compare_(others_.wake, others_.memory_limit) {
  if (others_.files.size() > 1) {
    ranks_ = std::make_unique<Ranks>(others_.files, others_.wake, others_.memory_limit);
    tab_ = Tab::ranks;
  }
  if (!others_.compare.empty()) {
    compare_.set_other(others_.compare);
    tab_ = Tab::compare;
  }
}

std::optional<Error> Browser::failure() const {
  const SourceStatus status = session_->status();
  return status.stage == Stage::failed ? status.error : std::nullopt;
}

void Browser::update(Clock::time_point now) {
  session_->update(now);
  update_tree();
  if (tab_ == Tab::compare) compare_.update(*session_);
}

std::string Browser::doing() {
  std::string what = session_->doing();
  if (what.empty() && tab_ == Tab::compare) what = compare_.doing();
  if (what.empty() && ranks_ && !ranks_->complete()) what = "reading ranks";
  return what;
}

void Browser::open_rank() {
  const ListRow* const row = selected_row(state(), list_);
  if (row == nullptr || !ranks_) return;
  const std::filesystem::path& file = ranks_->files()[row->item];
  const auto series = ranks_->series(row->item);
  if (series && !series->problem.empty()) {
    said_ = series->problem;
    return;
  }
  if (file != session_->path()) {
    session_ = std::make_unique<Session>(file, others_.wake, others_.memory_limit);
    forget();
  }
  show_tab(Tab::holders);
}

/// What is known of the trace that was open.
void Browser::forget() {
  tree_ = {{Holder{}}};
  tree_heap_.reset();
  tree_known_.reset();
  tree_sieve_.reset();
  view_ = {};
  rows_.clear();
  selected_path_.clear();
  opened_largest_ = false;
}

bool Browser::has_tab(Tab tab) const {
  return (tab != Tab::ranks || ranks_ != nullptr) &&
         (tab != Tab::failures || !session_->document().columns.failure.empty());
}

void Browser::update_tree() {
  const auto& known = session_->classification();
  if (tree_heap_ == session_->heap() && tree_known_ == known && tree_sieve_ == session_->sieve()) return;
  tree_heap_ = session_->heap();
  const bool is_classified = tree_known_ != known;
  tree_known_ = known;
  tree_sieve_ = session_->sieve();
  tree_ = holders_at(session_->document(), *tree_heap_, known.get(), tree_sieve_.get());
  if (!node_at(tree_, view_.focus)) view_.focus.clear();
  // Once, so that the line that holds most is in view; what the user opens or closes later stays.
  if ((!opened_largest_ || is_classified) && tree_.nodes.size() > 1) {
    if (is_classified) view_.open.clear();
    open_largest(tree_, view_);
    opened_largest_ = true;
  }
  rows_ = rows_of(tree_, view_);
  const auto same =
      std::ranges::find_if(rows_, [&](const HolderRow& row) { return tree_.nodes[row.node].path == selected_path_; });
  ListState& tree_state = states_.at(static_cast<std::size_t>(Tab::holders));
  if (same != rows_.end()) tree_state.selected = static_cast<std::size_t>(same - rows_.begin());
}

void Browser::update_list(int width) {
  // These are cheap, or change by themselves.
  const bool is_kept = tab_ != Tab::holders && tab_ != Tab::compare && tab_ != Tab::ranks;
  // Only the heap's list shows the cursor's instant.
  ListKey key{.tab = tab_,
              .heap = tab_ == Tab::heap ? session_->heap() : nullptr,
              .findings = session_->findings(),
              .known = tab_ == Tab::heap ? session_->classification() : nullptr,
              .sieve = session_->sieve(),
              .document = session_->shared_document(),
              .of = session_->selection.heap,
              .sorted_by = state().sorted_by,
              .width = width,
              .light = look_.light};
  if (is_kept && list_key_ == key) return;
  list_key_ = is_kept ? std::optional(std::move(key)) : std::nullopt;
  switch (tab_) {
    case Tab::holders:
      rows_ = rows_of(tree_, view_);
      list_ = holders_list(tree_, view_, rows_, look_);
      return;
    case Tab::heap:
      list_ = heap_list(*session_, look_, width);
      break;
    case Tab::leaks:
      list_ = leaks_list(*session_, look_);
      break;
    case Tab::fragmentation:
      list_ = fragmentation_list(*session_, look_);
      break;
    case Tab::failures:
      list_ = failures_list(*session_, look_);
      break;
    case Tab::settings:
      list_ = settings_list(*session_, look_);
      break;
    case Tab::compare:
      list_ = compare_.list(look_);
      break;
    case Tab::ranks:
      list_ = ranks_ ? ranks_list(*ranks_, session_->path(), look_, width) : List();
      break;
  }
  sort_rows(list_, state());
}

StackId Browser::selected_stack() const {
  const ListRow* const row = selected_row(states_.at(static_cast<std::size_t>(tab_)), list_);
  return row == nullptr ? StackId::none : row->stack;
}

}  // namespace memreel::viewer::terminal
