// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/compare.h"

#include <algorithm>

#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
#include "viewer/model/labels.h"

namespace memreel::viewer::terminal {
namespace {

ListRow change_row(std::int64_t change, Bytes a, Bytes b, std::string who) {
  ListRow row;
  row.cells = {text_of_growth(change), text_of(a), text_of(b), std::move(who)};
  row.numbers = {static_cast<double>(change), static_cast<double>(a.count), static_cast<double>(b.count)};
  return row;
}

/// What a side is, and how much is live in it.
std::string described(const std::string& name, const SideFacts& facts) {
  return name + ": " + text_of(facts.live) + " live";
}

/// The heap to compare `heap` with. Ranks of a job use different devices: without a counterpart on the same one, the
/// largest of the same kind.
HeapId other_heap(const Document& document, HeapId heap, const Document& other) {
  if (const HeapId same = counterpart(document, heap, other); same != HeapId::none) return same;
  const Tables &ours = *document.tables, &theirs = *other.tables;
  const HeapSeries* largest = nullptr;
  for (const HeapSeries& series : other.heaps) {
    const Heap &a = ours[heap], &b = theirs[series.heap];
    if (a.level != b.level || ours[a.name] != theirs[b.name]) continue;
    if (largest == nullptr || series.peak_live > largest->peak_live) largest = &series;
  }
  return largest == nullptr ? HeapId::none : largest->heap;
}

}  // namespace

void Compare::set_other(const std::filesystem::path& file) {
  other_ = file;
  source_ = file.empty() ? nullptr : std::make_unique<Source>(file, wake_, memory_limit_);
  other_known_.give_up();
  other_sieve_.give_up();
}

std::string Compare::find_moments(const Session& session, MomentPair& moments) {
  const Selection& selection = session.selection;
  const auto& document = session.shared_document();
  if (other_.empty()) {
    if (!selection.kept) return "k keeps the cursor's instant; it is then compared with the cursor.";
    moments = {{document, selection.heap, std::min(*selection.kept, document->event_count())},
               {document, selection.heap, selection.cursor}};
    return {};
  }
  const SourceStatus status = source_->status();
  const std::string name(base_name(other_.native()));
  if (status.stage == Stage::failed && status.error) return name + " can't be read: " + status.error->what;
  const auto other = source_->document();
  if (!document->complete || !other->complete) {
    waits_ = true;
    return "Compared once both traces are read.";
  }
  const HeapId heap = other_heap(*document, selection.heap, *other);
  const HeapSeries* const series = other->series(heap);
  if (series == nullptr || other->empty()) return name + " has no heap comparable with this one.";
  moments = {{document, selection.heap, selection.cursor}, {other, heap, series->peak_live_event}};
  return {};
}

void Compare::update(const Session& session) {
  waits_ = false;
  reason_ = find_moments(session, moments_);
  if (!reason_.empty()) return;
  Key key{.moments = moments_,
          .known = {session.classification(), session.classification()},
          .sieves = {session.sieve(), session.sieve()}};
  if (!other_.empty()) {
    const auto document = moments_.b.document;
    if (session.classification() && document->whole && can_be_classified(*document))
      other_known_.request(document->event_count(), [whole = document->whole](const Progress& progress) {
        return classify_trace(*whole, progress);
      });
    key.known.b = other_known_.value();
    waits_ = !other_known_.is_current();
    if (waits_) return;
    if (session.sieve()) {
      SieveKey wanted{.filter = session.sieve()->filter(), .version = document->event_count()};
      if (key.known.b && wanted.filter.category) wanted.classified = key.known.b->count();
      other_sieve_.request(wanted, [document, filter = wanted.filter, known = key.known.b](const Progress&) {
        return std::optional<Sieve>(std::in_place, document, filter, known);
      });
      waits_ = !other_sieve_.is_current();
      if (waits_) return;
      key.sieves.b = other_sieve_.value();
    }
  }
  if (!key.known.a || !key.known.b) key.known = {};
  comparison_.request(
      key, [key](const Progress& progress) { return compare(key.moments, key.known, key.sieves, progress); });
}

std::string Compare::doing() { return waits_ || comparison_.running() ? "comparing" : ""; }

List Compare::list(const Look& look) {
  List list;
  list.columns = {{"change", 11}, {"A", 10}, {"B", 10}, {"who", 0, false, true}};
  list.empty = reason_;
  if (!reason_.empty()) return list;
  const auto comparison = comparison_.value();
  list.empty = comparison ? "Nothing changed." : "Being compared.";
  if (!comparison) return list;
  const bool is_same_trace = other_.empty();
  list.caption =
      described(is_same_trace ? "A, the kept instant" : "A, the cursor", comparison->facts_a) + "   " +
      described(is_same_trace ? "B, the cursor" : "B, the peak of " + std::string(base_name(other_.native())),
                comparison->facts_b);
  for (const CategoryChange& change : comparison->categories) {
    ListRow row = change_row(static_cast<std::int64_t>(change.b.count - change.a.count), change.a, change.b,
                             std::string(words_of(change.category)));
    row.swatch = look.category(change.category);
    row.letter = letter_of(change.category);
    list.rows.push_back(std::move(row));
    for (const PlaceChange& place : comparison->places) {
      if (place.category != change.category) continue;
      ListRow part = change_row(place.change(), place.a, place.b, place.place);
      part.indent = 4;
      list.rows.push_back(std::move(part));
    }
  }
  if (!comparison->categories.empty() && !comparison->changes.empty()) {
    ListRow heading;
    heading.cells = {"", "", "", "by stack:"};
    heading.is_faint = true;
    list.rows.push_back(std::move(heading));
  }
  for (const StackChange& change : comparison->changes) {
    ListRow row = change_row(change.change(), Bytes{change.bytes_a}, Bytes{change.bytes_b}, change.label);
    row.stack = is_same_trace && change.stack_a == StackId::none ? change.stack_b : change.stack_a;
    list.rows.push_back(std::move(row));
  }
  return list;
}

}  // namespace memreel::viewer::terminal
