// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/allocations.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"

namespace memreel::viewer::terminal {
namespace {

struct AllocationColumn {
  AllocationOrder order;
  const char* name;
};

/// Those that can be sorted by.
constexpr std::array<AllocationColumn, 3> sortable_columns{{{AllocationOrder::size, "largest"},
                                                            {AllocationOrder::lifetime, "longest-lived"},
                                                            {AllocationOrder::begin, "latest"}}};
constexpr std::uint32_t most_rows = 10'000;

const char* which(const std::optional<AllocationQuery>& query) {
  const bool is_sorted = query && query->descending;
  if (!is_sorted) return "first";
  return std::ranges::find(sortable_columns, query->order, &AllocationColumn::order)->name;
}

}  // namespace

void Allocations::update(const Session& session, std::optional<std::size_t> sorted_by) {
  const Selection& selection = session.selection;
  const auto& document = session.shared_document();
  if (document->empty()) return listed_.reset();
  const auto [first, end] = selection.listed(*document);
  const bool is_sorted = sorted_by && *sorted_by < sortable_columns.size();
  const AllocationQuery query{.heap = selection.heap,
                              .first_event = first,
                              .end_event = end,
                              .sieve = session.sieve(),
                              .order = is_sorted ? sortable_columns.at(*sorted_by).order : AllocationOrder::begin,
                              .descending = is_sorted,
                              .version = document->event_count()};
  work_.request(query,
                [document, query](const Progress& progress) { return list_allocations(*document, query, progress); });
  listed_ = work_.value();
}

List Allocations::list(const Session& session, const Look& look) const {
  List list;
  list.columns = {{"size", 10}, {"lived", 11}, {"at", 12}, {"who", 0, false, true}};
  list.empty = listed_ ? "Nothing is allocated here that matches." : "Being listed.";
  const Document& document = session.document();
  if (!listed_ || document.empty()) return list;
  const std::uint32_t count = std::min(listed_->size(), most_rows);
  list.caption = text_of(std::uint64_t{listed_->size()}) + " allocations " + session.selection.listed_words();
  if (count < listed_->size())
    list.caption += ", of which these are the " + text_of(std::uint64_t{count}) + " " + which(work_.key()) +
                    ": zoom in or search for others";
  const Classification* const known = session.classification().get();
  std::map<StackId, std::string> labels;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t id = (*listed_)[i];
    if (id >= document.allocation_count()) break;  // of another document
    const std::uint32_t requested = document.requested(id);
    const Nanoseconds begin = document.time(document.begin_of(id)), since = begin - document.first_time();
    const Nanoseconds end = requested == never ? document.last_time() + Nanoseconds{1} : document.time(requested);
    const Nanoseconds lived = std::max(end - begin, Nanoseconds{});
    const StackId stack = document.stack_of(id);
    const auto [label, is_new] = labels.try_emplace(stack);
    if (is_new) label->second = stack_label(*document.tables, stack);
    ListRow row;
    row.cells = {text_of(document.size_of(id)),
                 requested == never ? "to the end" : text_of_seconds(std::chrono::duration<double>(lived).count()),
                 time_text(since, Nanoseconds{1000}), label->second};
    row.numbers = {static_cast<double>(document.size_of(id).count), static_cast<double>(lived.count()),
                   static_cast<double>(since.count())};
    if (known != nullptr && known->knows_any) {
      row.swatch = look.category(known->category(id));
      row.letter = letter_of(known->category(id));
    }
    row.stack = stack;
    row.allocation = id;
    row.instant = document.begin_of(id) + 1;
    row.copied = address_text({document.columns.address[id]}) + "\t" + row_text(row);
    list.rows.push_back(std::move(row));
  }
  return list;
}

}  // namespace memreel::viewer::terminal
