#include <algorithm>
#include <chrono>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/panes/list_panes.h"

namespace memreel::viewer {
namespace {

std::string lifetime(const Document& document, std::uint32_t id, Nanoseconds begin) {
  const std::uint32_t requested = document.requested(id);
  if (requested == never) return "to the end";
  const Nanoseconds lived = document.time(requested) - begin;
  return text_of_seconds(std::chrono::duration<double>(lived).count());
}

/// Whether the order of rows depends on categories.
bool is_by_purpose(std::optional<int> sort) {
  return sort == static_cast<int>(AllocationOrder::category) || sort == static_cast<int>(AllocationOrder::phase);
}

void explain_empty(Scene& scene) {
  const Area area = take_area("allocations");
  note_place(scene, "allocations", area);
  if (!scene.selection.search.empty())
    return explain(scene, area, "No allocation matches the search.", "Press Esc in the search field to clear it.");
  const std::string of = scene.selection.category
                             ? "Nothing of the category " + std::string(words_of(*scene.selection.category))
                             : "Nothing";
  explain(scene, area, of + " is allocated in this time range.", "Zoom out with S, or press 0 for all of it.");
}

/// The columns, in order.
enum class Shown : std::uint8_t { size, category, begin, lifetime, layer, phase, address, stream, who };

}  // namespace

AllocationsPane::AllocationsPane()
    : table_("allocations", {{"size", 90, true, static_cast<int>(AllocationOrder::size)},
                             {"category", 120, false, static_cast<int>(AllocationOrder::category)},
                             {"allocated at", 110, true, static_cast<int>(AllocationOrder::begin)},
                             {"lived", 90, true, static_cast<int>(AllocationOrder::lifetime)},
                             {"layer", 190, false},
                             {"phase", 75, false, static_cast<int>(AllocationOrder::phase)},
                             {"address", 130, true, static_cast<int>(AllocationOrder::address)},
                             {"stream", 150, false},
                             {"who", 0, false, static_cast<int>(AllocationOrder::stack)}}) {
  table_.set_sort(static_cast<int>(AllocationOrder::begin), false);
}

std::shared_ptr<const AllocationList> AllocationsPane::request(Scene& scene) {
  const Selection& selection = scene.selection;
  const Document& document = scene.doc();
  const auto [first, end] = selection.listed(document);
  const AllocationQuery query{.heap = selection.heap,
                              .first_event = first,
                              .end_event = end,
                              .sieve = scene.sieve,
                              .order = static_cast<AllocationOrder>(table_.sort().value_or(0)),
                              .descending = table_.descending(),
                              .version = document.event_count(),
                              .classified = is_by_purpose(table_.sort()) ? scene.classified() : 0};
  list_.request(query, [document = scene.document, known = scene.classification, query](const Progress& progress) {
    return list_allocations(*document, query, progress, known.get());
  });
  if (!list_.is_current()) scene.busy = true;
  return list_.value();
}

void AllocationsPane::step_match(Scene& scene, int by) {
  Selection& selection = scene.selection;
  matches_ = 0;
  if (selection.search.empty() || scene.doc().empty()) {
    step_ = 0;
    match_.reset();
    return;
  }
  if (by != 0) step_ = by;
  const auto list = request(scene);
  if (!list || !list_.is_current() || scene.sieving) return;
  matches_ = list->size();
  match_ = selection.allocation ? list->row_of(*selection.allocation) : std::nullopt;
  if (step_ == 0 || list->size() == 0) return;
  // From the selected match to its neighbour, wrapping around.
  std::uint32_t row = step_ > 0 ? 0 : list->size() - 1;
  if (match_) row = (*match_ + list->size() + (step_ > 0 ? 1 : list->size() - 1)) % list->size();
  step_ = 0;
  match_ = row;
  selection.select(scene.doc(), (*list)[row]);
  // It may have begun before the view.
  selection.cursor = std::max(scene.doc().begin_of((*list)[row]) + 1, selection.listed(scene.doc()).first);
  selection.remember();
}

std::string AllocationsPane::matches_text() const {
  if (matches_ == 0) return list_.key() && list_.key()->sieve ? "no match" : "";
  return (match_ ? text_of(std::uint64_t{*match_} + 1) + " of " : "") + text_of(matches_) +
         (match_ || matches_ != 1 ? "" : " match") + (match_ || matches_ == 1 ? "" : " matches");
}

const AllocationsPane::Labels& AllocationsPane::labels_of(const Scene& scene, std::uint32_t allocation) {
  constexpr std::size_t most_labels = 4096;
  if (labelled_ != scene.document->tables || classified_ != scene.classification || labels_.size() >= most_labels) {
    labels_.clear();
    labelled_ = scene.document->tables;
    classified_ = scene.classification;
  }
  const StackId stack = scene.doc().stack_of(allocation);
  const std::uint16_t call = scene.has_categories() ? scene.classification->call(allocation) : LayerCalls::none;
  const auto [labels, is_new] = labels_.try_emplace({stack, call});
  if (is_new)
    labels->second = {.who = stack_label(scene.tables(), stack),
                      .layer = scene.has_categories() ? scene.classification->layer(scene.tables(), stack, call) : ""};
  return labels->second;
}

void AllocationsPane::draw(Scene& scene) {
  Selection& selection = scene.selection;
  const Document& document = scene.doc();
  const auto list = request(scene);
  if (!list) {
    explain(scene, take_area("allocations"), "Listing\u2026");
    return;
  }
  if (list->size() == 0) return explain_empty(scene);
  const auto id_of = [&](std::uint64_t row) { return (*list)[static_cast<std::uint32_t>(row)]; };
  if (selection.allocation != followed_) {
    followed_ = selection.allocation;
    if (followed_)
      if (const auto row = list->row_of(*followed_)) table_.show(*row);
  }
  // Two cells of a row show its begin, which takes a search.
  std::optional<std::uint32_t> known;
  Nanoseconds began{};
  const auto begin_of = [&](std::uint32_t id) {
    if (known != id) began = document.time(document.begin_of(id));
    known = id;
    return began;
  };
  for (const Shown column : {Shown::category, Shown::layer, Shown::phase})
    table_.hide(static_cast<int>(column), !scene.has_categories());
  Rows rows;
  rows.count = list->size();
  rows.cell = [&](std::uint64_t row, int column) -> std::string {
    const std::uint32_t id = id_of(row);
    switch (static_cast<Shown>(column)) {
      case Shown::size:
        return text_of(document.size_of(id));
      case Shown::category:
        return scene.classification ? std::string(words_of(scene.classification->category(id))) : "";
      case Shown::begin:
        return time_text(begin_of(id) - document.first_time(), Nanoseconds{1000});
      case Shown::lifetime:
        return lifetime(document, id, begin_of(id));
      case Shown::layer:
        return labels_of(scene, id).layer;
      case Shown::phase:
        return scene.classification ? std::string(name_of(scene.classification->phase(id))) : "";
      case Shown::address:
        return address_text({document.columns.address[id]});
      case Shown::stream:
        return stream_label(scene.tables(), scene.tables()[document.origin_of(id)].stream);
      case Shown::who:
        break;
    }
    return labels_of(scene, id).who;
  };
  rows.swatch = [&](std::uint64_t row) {
    return scene.has_categories() && scene.colour() == MapColour::category
               ? scene.theme.category(scene.classification->category(id_of(row)))
               : scene.theme.shade(index(document.site_of(id_of(row))));
  };
  rows.selected = [&](std::uint64_t row) { return selection.allocation == id_of(row); };
  rows.highlighted = [&](std::uint64_t row) { return selection.highlights(document, id_of(row)); };
  rows.on_hover = [&](std::uint64_t row) { selection.hover(id_of(row)); };
  rows.on_click = [&](std::uint64_t row) {
    selection.select(document, id_of(row));
    followed_ = selection.allocation;
    selection.remember();
  };
  rows.on_double_click = [&](std::uint64_t row) { selection.cursor = document.begin_of(id_of(row)) + 1; };
  table_.draw(scene, rows);
}

}  // namespace memreel::viewer
