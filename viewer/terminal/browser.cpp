// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/browser.h"

#include <algorithm>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"

namespace memreel::viewer::terminal {

Browser::Browser(std::unique_ptr<Session> session, Look look, Others others)
    : session_(std::move(session)),
      look_(look),
      others_(std::move(others)),
      compare_(others_.wake, others_.memory_limit) {
  states_.at(static_cast<std::size_t>(Tab::allocations)).sorted_by = 0;  // by size
  if (others_.files.size() > 1 || others_.is_job) {
    ranks_ = std::make_unique<Ranks>(others_.files, others_.wake, others_.memory_limit);
    awaits_answer_ = true;
    if (others_.files.size() > 1) tab_ = Tab::ranks;
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
  if (awaits_answer_) take_answer();
  session_->update(now);
  const Document& document = session_->document();
  const bool is_another = std::exchange(begun_anew_, document.begun_anew) != document.begun_anew;
  if (std::exchange(renumbered_, document.renumbered) != document.renumbered || is_another)
    jobs_ = std::make_unique<Jobs>();  // their keys may be those of another trace
  update_trees();
  if (tab_ == Tab::compare) compare_.update(*session_);
  if (tab_ == Tab::allocations) jobs_->allocations.update(*session_, state().sorted_by);
}

std::string Browser::doing() {
  std::string what = session_->doing();
  if (what.empty() && tab_ == Tab::compare) what = compare_.doing();
  if (what.empty() && tab_ == Tab::allocations) what = jobs_->allocations.doing();
  if (what.empty() && (jobs_->range.running() || jobs_->flame.running())) what = "weighing";
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
  awaits_answer_ = false;
  open(file);
  show_tab(Tab::holders);
}

void Browser::open(const std::filesystem::path& file) {
  if (file == session_->path()) return;
  session_ = std::make_unique<Session>(file, others_.wake, others_.memory_limit);
  forget();
}

void Browser::take_answer() {
  const auto overview = ranks_->overview();
  if (!overview) return;
  awaits_answer_ = false;
  if (overview->jobs.empty()) return;
  const JobOverview& job = overview->jobs.front();
  if (ranks_->files().size() == 1) {
    if (job.misses_ranks) said_ = job.headline;
    return;
  }
  if (tab_ != Tab::ranks || !job.decider) return;
  open(ranks_->files()[*job.decider]);
  // Any trace has the instants that can be named before it is read.
  if (!others_.at.empty()) static_cast<void>(session_->go_to(others_.at));
}

/// What is known of the trace that was open.
void Browser::forget() {
  jobs_ = std::make_unique<Jobs>();
  trees_ = {};
  tree_heap_.reset();
  tree_known_.reset();
  tree_sieve_.reset();
  range_tree_.reset();
  flame_tree_.reset();
}

bool Browser::has_tab(Tab tab) const {
  return (tab != Tab::ranks || ranks_ != nullptr) &&
         (tab != Tab::failures || !session_->document().columns.failure.empty()) &&
         (tab != Tab::variables || (session_->findings() && !session_->findings()->python_holders.empty()));
}

void Browser::update_trees() {
  if (session_->document().empty()) return;
  update_holders();
  if (tab_ == Tab::flame) update_flame();
}

void Browser::update_holders() {
  const auto& known = session_->classification();
  const auto& document = session_->shared_document();
  const Selection& selection = session_->selection;
  if (selection.marked) {
    const auto [first, end] = selection.listed(*document);
    const RangeKey key{.range = {.heap = selection.heap, .first = first, .end = end, .only_kept = only_kept_},
                       .version = document->event_count(),
                       .classified = known ? known->count() : 0,
                       .sieve = session_->sieve()};
    jobs_->range.request(key, [document, known, key](const Progress& progress) {
      return holders_in(*document, key.range, known.get(), key.sieve.get(), progress);
    });
    const auto made = jobs_->range.value();
    if (!made || made == range_tree_ || !jobs_->range.is_current()) return;
    range_tree_ = made;
    tree_heap_.reset();
    return take_tree(Tab::holders, *made, std::exchange(tree_known_, known) != known);
  }
  range_tree_.reset();
  if (tree_heap_ == session_->heap() && tree_known_ == known && tree_sieve_ == session_->sieve()) return;
  tree_heap_ = session_->heap();
  const bool is_classified = tree_known_ != known;
  tree_known_ = known;
  tree_sieve_ = session_->sieve();
  take_tree(Tab::holders, holders_at(*document, *tree_heap_, known.get(), tree_sieve_.get()), is_classified);
}

void Browser::update_flame() {
  const auto& document = session_->shared_document();
  const Selection& selection = session_->selection;
  WeightQuery query{.heap = selection.heap, .end_event = selection.cursor, .sieve = session_->sieve()};
  if (selection.marked) {
    const auto [first, end] = selection.listed(*document);
    query.weighing = only_kept_ ? Weighing::kept : Weighing::allocated;
    query.first_event = first;
    query.end_event = end;
    query.version = document->event_count();
  }
  jobs_->flame.request(query, [document, query](const Progress& progress) -> std::optional<HolderTree> {
    const auto weights = weigh_stacks(*document, query, progress);
    if (!weights) return std::nullopt;
    return flame_tree(*document->tables, *weights);
  });
  const auto made = jobs_->flame.value();
  if (!made || made == flame_tree_ || !jobs_->flame.is_current()) return;
  flame_tree_ = made;
  take_tree(Tab::flame, *made, false);
}

/// `is_classified`: it has other nodes than the one before.
void Browser::take_tree(Tab tab, HolderTree tree, bool is_classified) {
  TreePane& shown = pane(tab);
  shown.tree = std::move(tree);
  if (!node_at(shown.tree, shown.view.focus)) shown.view.focus.clear();
  // Once, so that the line that holds most is in view; what the user opens or closes later stays.
  if ((!shown.opened_largest || is_classified) && shown.tree.nodes.size() > 1) {
    if (is_classified) shown.view.open.clear();
    open_largest(shown.tree, shown.view);
    shown.opened_largest = true;
  }
  shown.rows = rows_of(shown.tree, shown.view);
  const auto same = std::ranges::find_if(
      shown.rows, [&](const HolderRow& row) { return shown.tree.nodes[row.node].path == shown.selected_path; });
  if (same != shown.rows.end())
    states_.at(static_cast<std::size_t>(tab)).selected = static_cast<std::size_t>(same - shown.rows.begin());
}

std::string Browser::scope() const {
  const Selection& selection = session_->selection;
  const HeapSeries* const series = session_->series();
  const Document& document = session_->document();
  if (!selection.marked || series == nullptr || document.empty()) return {};
  const auto live = [&](std::uint32_t events) {
    return static_cast<std::int64_t>(value_of(document.metrics_after(*series, events), Metric::live));
  };
  const auto [first, end] = selection.listed(document);
  const std::int64_t change = live(end) - live(first);
  const Nanoseconds length = selection.marked->length();
  return std::string(only_kept_ ? "kept of" : "allocated in") + " the range of " + time_text(length, length / 1000) +
         ", live " + text_of_growth(change) + " over it   (m: " + (only_kept_ ? "allocated" : "kept") +
         ", Esc: at the cursor)";
}

void Browser::update_list(int width) {
  // These are cheap, or change by themselves.
  const bool is_kept = shown_tree() == nullptr && tab_ != Tab::compare && tab_ != Tab::ranks;
  const bool shows_categories = tab_ == Tab::heap || tab_ == Tab::allocations;
  // Only the heap's list shows the cursor's instant.
  ListKey key{.tab = tab_,
              .heap = tab_ == Tab::heap ? session_->heap() : nullptr,
              .findings = session_->findings(),
              .known = shows_categories ? session_->classification() : nullptr,
              .sieve = session_->sieve(),
              .document = session_->shared_document(),
              .listed = tab_ == Tab::allocations ? jobs_->allocations.listed() : nullptr,
              .of = session_->selection.heap,
              .sorted_by = state().sorted_by,
              .width = width,
              .light = look_.light};
  if (is_kept && list_key_ == key) return;
  list_key_ = is_kept ? std::optional(std::move(key)) : std::nullopt;
  switch (tab_) {
    case Tab::allocations:
      list_ = jobs_->allocations.list(*session_, look_);
      break;
    case Tab::holders:
    case Tab::flame: {
      TreePane& shown = pane(tab_);
      shown.rows = rows_of(shown.tree, shown.view);
      list_ = holders_list(shown.tree, shown.view, shown.rows, look_, scope(),
                           tab_ == Tab::flame ? TreeLook::bars : TreeLook::plain);
      return;
    }
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
    case Tab::variables:
      list_ = variables_list(*session_, look_);
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
