// SPDX-License-Identifier: Apache-2.0
// The user's selection and view: the only channel between panes.
#pragma once

#include <algorithm>

#include "analyzer/analysis/category/category.h"
#include "viewer/model/allocation_map.h"
#include "viewer/model/axis.h"
#include "viewer/model/document.h"
#include "viewer/model/stacked_series.h"

namespace memreel::viewer {

struct TimeRange {
  Nanoseconds begin{}, end{};
  Nanoseconds length() const { return end - begin; }
  friend bool operator==(const TimeRange&, const TimeRange&) = default;
};

class Selection {
 public:
  HeapId heap = HeapId::none;
  TimeRange view;                           // limits every pane
  AxisScale axis;                           // the unit of the time axis in every pane that has one
  std::uint32_t cursor = 0;                 // panes show the state after this many events
  std::optional<std::uint32_t> kept;        // A: the instant that B, the cursor, is compared with
  std::optional<TimeRange> marked;          // by M or a drag with Shift: the scope of lists
  std::optional<Nanoseconds> marking_from;  // start of the current drag with Shift
  std::optional<std::uint32_t> allocation;  // selected
  std::optional<StackId> stack;             // selected; the allocation's, if one is selected
  std::optional<Address> space;             // selected in the heap: the segment there, and the hole if it is free
  std::optional<Category> category;         // selected: lists and pictures are limited to it
  std::optional<MapColour> colour;          // none: not chosen by the user
  std::optional<SplitBy> split;             // none: not chosen by the user
  std::string search;

  /// What the pointer is on, in any pane: panes highlight what was hovered in the previous frame.
  std::optional<std::uint32_t> hovered_allocation;
  std::optional<StackId> hovered_stack;
  std::optional<Category> hovered_category;
  std::optional<Nanoseconds> hovered_time;
  void hover(std::uint32_t allocation_id) { next_hovered_allocation_ = allocation_id; }
  void hover(StackId stack_id) { next_hovered_stack_ = stack_id; }
  void hover(Category one) { next_hovered_category_ = one; }
  void hover(Nanoseconds time) { next_hovered_time_ = time; }
  void end_frame() {
    hovered_allocation = std::exchange(next_hovered_allocation_, std::nullopt);
    hovered_stack = std::exchange(next_hovered_stack_, std::nullopt);
    hovered_category = std::exchange(next_hovered_category_, std::nullopt);
    hovered_time = std::exchange(next_hovered_time_, std::nullopt);
  }

  void select(const Document& document, std::uint32_t allocation_id) {
    allocation = allocation_id;
    stack = document.stack_of(allocation_id);
    space.reset();
  }
  void select(StackId stack_id) {
    allocation.reset();
    stack = stack_id;
    space.reset();
  }
  /// What is at an address of the heap.
  void select(Address address) {
    allocation.reset();
    stack.reset();
    space = address;
  }
  /// Deselects the category.
  void toggle(Category one) { category = category == one ? std::nullopt : std::optional(one); }
  void clear() {
    allocation.reset();
    stack.reset();
    space.reset();
    category.reset();
    marked.reset();
  }

  /// To be called when events and allocations are renumbered.
  void renumber() {
    allocation.reset();
    hovered_allocation.reset();
    kept.reset();
    history_.clear();
    here_ = 0;
  }

  /// Whether an allocation is selected or pointed at.
  bool highlights(const Document& document, std::uint32_t id) const {
    return hovered_allocation == id || (hovered_stack && document.site_of(id) == document.site_of(*hovered_stack));
  }
  /// Whether the pointer is on this stack, or on an allocation that it made.
  bool highlights(const Document& document, StackId id) const {
    if (id == StackId::none) return false;
    if (hovered_stack && document.site_of(*hovered_stack) == document.site_of(id)) return true;
    return hovered_allocation && *hovered_allocation < document.allocation_count() &&
           document.site_of(*hovered_allocation) == document.site_of(id);
  }

  /// The user's choice, else by category if any is known.
  SplitBy split_by(bool knows_categories) const {
    return split.value_or(knows_categories ? SplitBy::category : SplitBy::nothing);
  }
  MapColour colour_by(bool knows_categories) const {
    return colour.value_or(knows_categories ? MapColour::category : MapColour::stack);
  }
  /// The highlighted stack, with all others pale: pointed at, or selected as a whole.
  std::optional<StackId> lit_stack() const { return hovered_stack ? hovered_stack : allocation ? std::nullopt : stack; }
  /// The highlighted category, with all others pale.
  std::optional<Category> lit_category() const { return hovered_category ? hovered_category : category; }

  /// The events in a range, as the numbers of events before its ends.
  struct Events {
    std::uint32_t first = 0, end = 0;
  };
  static Events events_in(const Document& document, TimeRange range) {
    return {range.begin <= document.first_time() ? 0 : document.events_until(range.begin),
            document.events_until(range.end)};
  }
  Events viewed(const Document& document) const { return events_in(document, view); }
  /// The scope of lists: the marked range, else the view.
  Events listed(const Document& document) const { return events_in(document, marked.value_or(view)); }
  const char* listed_words() const { return marked ? "in the range" : "in view"; }

  /// Shows `range`, clamped to the trace; keeps at least 10 ns on screen.
  void look_at(const Document& document, TimeRange range) {
    constexpr Nanoseconds least{10};
    const Nanoseconds first = document.first_time();
    const Nanoseconds last = std::max(document.last_time() + Nanoseconds{1}, first + least);
    const Nanoseconds length = std::clamp(range.length(), least, last - first);
    range.begin = std::clamp(range.begin, first, last - length);
    view = {range.begin, range.begin + length};
  }
  void look_at_all(const Document& document) {
    look_at(document, {document.first_time(), document.last_time() + Nanoseconds{1}});
  }
  /// Zooms so that `anchor` stays where it is on screen; factor < 1 shows less.
  void zoom(const Document& document, double factor, Nanoseconds anchor) {
    if (axis.by() != AxisBy::time) {
      const double at = axis.position_of(anchor);
      return look_between(document, at - (at - axis.position_of(view.begin)) * factor,
                          at + (axis.position_of(view.end) - at) * factor);
    }
    const auto scaled = [&](Nanoseconds from) {
      constexpr double most = 4e18;  // 130 years
      return Nanoseconds{
          static_cast<std::int64_t>(std::clamp(static_cast<double>(from.count()) * factor, -most, most))};
    };
    const Nanoseconds before = std::min(scaled(anchor - view.begin), anchor - document.first_time());
    const Nanoseconds after = std::min(scaled(view.end - anchor), document.last_time() + Nanoseconds{1} - anchor);
    look_at(document, {anchor - before, anchor + after});
  }
  void pan(const Document& document, double share) {
    if (axis.by() != AxisBy::time) {
      const double begin = axis.position_of(view.begin), end = axis.position_of(view.end);
      const double least = axis.position_of(document.first_time()) - begin;
      const double most = axis.position_of(document.last_time() + Nanoseconds{1}) - end;
      const double by = std::clamp(share * (end - begin), std::min(least, 0.0), std::max(most, 0.0));
      return look_between(document, begin + by, end + by);
    }
    const Nanoseconds by{static_cast<std::int64_t>(static_cast<double>(view.length().count()) * share)};
    look_at(document, {view.begin + by, view.end + by});
  }

  // Alt+arrows: the history of views.
  void remember() {
    if (!history_.empty() && history_[here_] == place()) return;
    if (!history_.empty()) history_.resize(here_ + 1);
    history_.push_back(place());
    here_ = history_.size() - 1;
  }
  bool go_back() {
    remember();
    if (here_ == 0) return false;
    return go_to(here_ - 1);
  }
  bool go_forward() {
    if (here_ + 1 >= history_.size()) return false;
    return go_to(here_ + 1);
  }

 private:
  /// Shows the range between two positions of the axis.
  void look_between(const Document& document, double begin, double end) {
    const Nanoseconds first = document.first_time(), last = document.last_time() + Nanoseconds{1};
    look_at(document, {std::clamp(axis.time_at(begin), first, last), std::clamp(axis.time_at(end), first, last)});
  }

  struct Place {
    HeapId heap = HeapId::none;
    TimeRange view;
    std::uint32_t cursor = 0;
    std::optional<std::uint32_t> allocation;
    std::optional<StackId> stack;
    std::optional<Address> space;
    friend bool operator==(const Place&, const Place&) = default;
  };
  Place place() const { return {heap, view, cursor, allocation, stack, space}; }
  bool go_to(std::size_t i) {
    here_ = i;
    const Place& p = history_[i];
    heap = p.heap;
    view = p.view;
    cursor = p.cursor;
    allocation = p.allocation;
    stack = p.stack;
    space = p.space;
    return true;
  }

  std::optional<std::uint32_t> next_hovered_allocation_;
  std::optional<StackId> next_hovered_stack_;
  std::optional<Category> next_hovered_category_;
  std::optional<Nanoseconds> next_hovered_time_;
  std::vector<Place> history_;
  std::size_t here_ = 0;
};

}  // namespace memreel::viewer
