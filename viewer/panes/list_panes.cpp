// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/list_panes.h"

#include <algorithm>
#include <numeric>

#include "formats/model/quantity.h"
#include "viewer/model/labels.h"
#include "viewer/panes/widgets.h"

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
  table_.set_sort(static_cast<int>(AllocationOrder::size), true);
  opened_by_ = {table_.sort(), true};
}

void AllocationsPane::choose_order(const Document& document) {
  constexpr std::uint32_t most_sorted = 2'000'000;  // the order of time takes neither memory nor a wait
  if (opened_by_ != std::pair(table_.sort(), table_.descending())) return;
  const bool by_size = document.allocation_count() <= most_sorted;
  table_.set_sort(static_cast<int>(by_size ? AllocationOrder::size : AllocationOrder::begin), by_size);
  opened_by_ = {table_.sort(), by_size};
}

std::shared_ptr<const AllocationList> AllocationsPane::request(Scene& scene) {
  const Selection& selection = scene.selection;
  const Document& document = scene.doc();
  const auto [first, end] = selection.listed(document);
  choose_order(document);
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
  const Document& document = scene.doc();
  const auto is_live = [&](std::uint32_t row) {
    const std::uint32_t id = (*list)[row];
    return document.begin_of(id) < selection.cursor && document.requested(id) >= selection.cursor;
  };
  // From the selected match to its neighbour, wrapping around; at first to one that is live at the cursor.
  constexpr std::uint32_t most_tried = 100'000;
  std::uint32_t row = step_ > 0 ? 0 : list->size() - 1;
  if (match_) {
    row = (*match_ + list->size() + (step_ > 0 ? 1 : list->size() - 1)) % list->size();
  } else if (step_ > 0) {
    for (std::uint32_t live = 0; live < std::min(list->size(), most_tried); ++live)
      if (is_live(live)) {
        row = live;
        break;
      }
  }
  step_ = 0;
  match_ = row;
  const bool stays = is_live(row);
  selection.select(document, (*list)[row]);
  // What is live at the cursor is on screen already; another may have begun before the view.
  if (!stays) selection.cursor = std::max(document.begin_of((*list)[row]) + 1, selection.listed(document).first);
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
  for (const Shown column : {Shown::category, Shown::phase})
    table_.hide(static_cast<int>(column), !scene.has_categories());
  table_.hide(static_cast<int>(Shown::layer), !scene.has_categories() || !scene.classification->knows_layers);
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
        return address_text(document.address_of(id));
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

void WeighingChoice::draw(Scene& scene) {
  const bool has_range = scene.selection.marked.has_value();
  Weighing& chosen = has_range ? in_range_ : at_instant_;
  const auto choice = [&](Weighing weighing, const std::string& name) {
    if (radio_button(scene, "weigh/" + name, chosen == weighing)) chosen = weighing;
    ImGui::SameLine();
  };
  const std::string where = scene.selection.listed_words();
  choice(Weighing::live_at_cursor, "live at the cursor");
  choice(Weighing::peak, "at the peak " + where);
  choice(Weighing::allocated, "allocated " + where);
  if (has_range) choice(Weighing::kept, "kept of the range");
  choice(Weighing::leaked, "leaked");
  if (!scene.doc().trace->folded.empty()) choice(Weighing::folded, "summed up " + where);
  ImGui::NewLine();
}

WeightQuery weight_query(const Scene& scene, Weighing weighing) {
  const Selection& selection = scene.selection;
  WeightQuery query{
      .weighing = weighing, .heap = selection.heap, .version = scene.doc().event_count(), .sieve = scene.sieve};
  if (weighing == Weighing::live_at_cursor) {
    query.end_event = selection.cursor;
    query.version = 0;  // longer versions agree on it
  } else {
    const auto [first, end] = selection.listed(scene.doc());
    query.first_event = first;
    query.end_event = end;
  }
  if (weighing == Weighing::folded) {
    const TimeRange range = selection.marked.value_or(selection.view);
    query.begin = range.begin;
    query.end = range.end;
  }
  return query;
}

std::optional<WeightWork> weight_work(Scene& scene, Verdicts& verdicts, const WeightQuery& query) {
  if (query.weighing != Weighing::leaked)
    return [document = scene.document, query](const Progress& progress) {
      return weigh_stacks(*document, query, progress);
    };
  const auto findings = verdicts.ask(scene);
  if (!findings) return std::nullopt;
  return [document = scene.document, findings, query](const Progress& progress) {
    std::vector<std::uint32_t> ids;
    const std::uint32_t first = document->allocations_before(query.first_event),
                        end = document->allocations_before(query.end_event);
    for (const LeakFinding& finding : findings->leaks.findings)
      if (accuses(finding.verdict) && finding.heap == query.heap)
        for (const AllocationId id : finding.allocations)
          if (index(id) >= first && index(id) < end && (!query.sieve || query.sieve->passes(index(id))))
            ids.push_back(index(id));
    return weigh_allocations(*document, ids, progress);
  };
}

void explain_no_weights(Scene& scene, const Area& area, Weighing weighing, bool is_ready) {
  if (!is_ready && weighing == Weighing::leaked)
    return explain(scene, area, "Weighed once leaks are judged.", "The leaks pane shows the progress.");
  if (!is_ready) return explain(scene, area, "Weighing\u2026");
  switch (weighing) {
    case Weighing::live_at_cursor:
      return explain(scene, area, "Nothing is live at the cursor.", "Click the timeline where memory is in use.");
    case Weighing::leaked:
      return explain(scene, area, "Nothing allocated up to here was judged a leak.",
                     "The leaks pane says what is kept, and why it is not a leak.");
    case Weighing::kept:
      return explain(scene, area, "Nothing that was allocated in the range was live at its end.");
    case Weighing::folded:
      return explain(scene, area, "The flight recorder has no sums for this time range.",
                     "They cover the time left of the dashed line.");
    case Weighing::allocated:
    case Weighing::peak:
      break;
  }
  explain(scene, area, "Nothing is allocated in this time range.", "Zoom out with S, or press 0 for all of it.");
}

StacksPane::StacksPane()
    : table_("stacks", {{"bytes", 100, true, 0},
                        {"share", 70, true},
                        {"count", 90, true, 1},
                        {"largest", 100, true, 2},
                        {"who", 0, false}}) {
  table_.set_sort(0, true);
}

std::uint64_t StacksPane::shown_bytes() const {
  return std::accumulate(sorted_.begin(), sorted_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const StackWeight& w) { return sum + w.bytes; });
}

void StacksPane::draw(Scene& scene, Verdicts& verdicts) {
  Selection& selection = scene.selection;
  weighing_.draw(scene);
  const Weighing weighing = weighing_.of(selection);
  const WeightQuery query = weight_query(scene, weighing);
  const auto work = weight_work(scene, verdicts, query);
  if (work) weights_.request(query, *work, false);
  if (!weights_.is_current()) scene.busy = true;
  const auto weights = weights_.value();
  // The last complete weights stay on screen, but never under another quantity's name.
  const bool is_ready = work && weights && weights_.key()->weighing == weighing;
  if (!is_ready || weights->empty()) {
    const Area area = take_area("stacks");
    note_place(scene, "stacks", area);
    explain_no_weights(scene, area, weighing, is_ready);
    return;
  }
  if (weights != sorted_from_ || sorted_by_ != table_.sort() || sorted_descending_ != table_.descending()) {
    sorted_ = *weights;
    sorted_from_ = weights;
    sorted_by_ = table_.sort();
    sorted_descending_ = table_.descending();
    const auto key = [&](const StackWeight& w) {
      return sorted_by_ == 1 ? w.count : sorted_by_ == 2 ? w.largest : w.bytes;
    };
    std::ranges::stable_sort(sorted_, [&](const StackWeight& a, const StackWeight& b) {
      return sorted_descending_ ? key(a) > key(b) : key(a) < key(b);
    });
  }
  const std::uint64_t total = shown_bytes();
  ImGui::SameLine();
  ImGui::SetCursorPosY(ImGui::GetCursorPosY());
  summary_ = text_of(Bytes{total}) + " in " + counted(sorted_.size(), "stack");
  ImGui::TextDisabled("   %s", summary_.c_str());

  Rows rows;
  rows.count = sorted_.size();
  rows.cell = [&](std::uint64_t row, int column) -> std::string {
    const StackWeight& w = sorted_[row];
    switch (column) {
      case 0:
        return text_of(Bytes{w.bytes});
      case 1:
        return text_of_share(static_cast<double>(w.bytes) / static_cast<double>(std::max<std::uint64_t>(total, 1)));
      case 2:
        return text_of(w.count);
      case 3:
        return w.largest == 0 ? "" : text_of(Bytes{w.largest});
      default:
        // Its maker is unknown; the phase may be known.
        return w.example != never ? maker_label(scene, w.example) : stack_label(scene.tables(), w.stack);
    }
  };
  rows.swatch = [&](std::uint64_t row) { return scene.theme.shade(index(scene.doc().site_of(sorted_[row].stack))); };
  rows.selected = [&](std::uint64_t row) { return selection.stack == sorted_[row].stack; };
  rows.highlighted = [&](std::uint64_t row) { return selection.highlights(scene.doc(), sorted_[row].stack); };
  rows.on_hover = [&](std::uint64_t row) { selection.hover(sorted_[row].stack); };
  rows.on_click = [&](std::uint64_t row) {
    selection.select(sorted_[row].stack);
    selection.remember();
  };
  rows.on_double_click = [&](std::uint64_t row) {
    if (sorted_[row].example != never) selection.select(scene.doc(), sorted_[row].example);
  };
  table_.draw(scene, rows);
}

SegmentsPane::SegmentsPane()
    : table_("segments", {{"size", 100, true, 0},
                          {"in use", 100, true, 1},
                          {"rounding", 90, true, 5},
                          {"blocks", 80, true, 2},
                          {"largest free", 110, true, 3},
                          {"address", 140, true, 4},
                          {"kind", 70, false},
                          {"pool", 140, false},
                          {"stream", 0, false}}) {
  table_.set_sort(0, true);
}

const HeapAt& SegmentsPane::heap_shown(Scene& scene) {
  const Document& document = scene.doc();
  const HeapSeries* const series = scene.series();
  if (!scene.selection.marked || series == nullptr) return scene.heap;
  const auto [first, end] = scene.selection.listed(document);
  if (first >= end) return scene.heap;
  const std::uint32_t event = document.highest(*series, Metric::reserved, first, end) + 1;
  const auto rounding = scene.rounding.value();
  if (fullest_.event != event || fullest_.heap != series->heap || fullest_version_ != document.event_count() ||
      fullest_rounding_ != rounding) {
    fullest_ = heap_at(document, series->heap, event, rounding.get());
    fullest_version_ = document.event_count();
    fullest_rounding_ = rounding;
  }
  return fullest_;
}

void SegmentsPane::draw(Scene& scene) {
  const HeapAt& heap = heap_shown(scene);
  shown_event_ = heap.event;
  const std::vector<HeldSegment>& segments = heap.segments;
  if (segments.empty()) {
    const Area area = take_area("segments");
    note_place(scene, "segments", area);
    explain(scene, area, scene.selection.marked ? "No segments in the range." : "No segments at the cursor.",
            "Click the timeline where memory is reserved.");
    return;
  }
  if (scene.selection.marked)
    ImGui::TextDisabled("at the reserved peak of the range: %s", event_text(heap.event).c_str());
  std::vector<std::uint32_t> order(segments.size());
  std::iota(order.begin(), order.end(), 0U);
  const int by = table_.sort().value_or(0);
  const auto key = [&](std::uint32_t i) -> std::uint64_t {
    const HeldSegment& s = segments[i];
    switch (by) {
      case 1:
        return s.held.count;
      case 2:
        return s.blocks;
      case 3:
        return s.largest_gap_size.count;
      case 4:
        return s.address.value;
      case 5:
        return s.rounding.count;
      default:
        return s.size.count;
    }
  };
  std::ranges::stable_sort(
      order, [&](std::uint32_t a, std::uint32_t b) { return table_.descending() ? key(a) > key(b) : key(a) < key(b); });
  Rows rows;
  rows.count = order.size();
  rows.cell = [&](std::uint64_t row, int column) -> std::string {
    const HeldSegment& s = segments[order[row]];
    const Origin& origin = scene.tables()[s.origin];
    switch (column) {
      case 0:
        return text_of(s.size);
      case 1:
        return text_of(s.held);
      case 2:
        return heap.rounding ? text_of(s.rounding) : "not known";
      case 3:
        return text_of(std::uint64_t{s.blocks});
      case 4:
        return text_of(s.largest_gap_size);
      case 5:
        return address_text(s.address);
      case 6:
        return s.mapped ? "mapped" : "segment";
      case 7:
        return pool_label(scene.tables(), origin.pool);
      default:
        return stream_label(scene.tables(), origin.stream);
    }
  };
  rows.highlighted = [&](std::uint64_t row) {
    if (!scene.selection.hovered_allocation) return false;
    const HeldSegment& s = segments[order[row]];
    const Address at = scene.doc().address_of(*scene.selection.hovered_allocation);
    return at >= s.address && at < s.end();
  };
  rows.selected = [&](std::uint64_t row) {
    const HeldSegment& s = segments[order[row]];
    return scene.selection.space && *scene.selection.space >= s.address && *scene.selection.space < s.end();
  };
  rows.on_click = [&](std::uint64_t row) {
    if (&heap != &scene.heap) scene.selection.cursor = heap.event;  // what is in it is told at the cursor
    scene.selection.select(address_to_select(heap, segments[order[row]]));
    scene.selection.remember();
  };
  table_.draw(scene, rows);
}

void PoolsPane::draw(Scene& scene, Verdicts& verdicts) {
  listed_ = 0;
  const auto findings = verdicts.get(scene, "pools");
  if (!findings) return;
  const auto found = std::ranges::find(findings->pools, scene.selection.heap, &HeapPools::heap);
  if (found == findings->pools.end()) {
    const Area area = take_area("pools");
    note_place(scene, "pools", area);
    return explain(scene, area, "This heap has no private pools.",
                   "CUDA graphs and torch.cuda.MemPool have pools of their own.");
  }
  const std::vector<PrivatePool>& pools = found->pools;
  listed_ = pools.size();
  Rows rows = rows_of<PrivatePool>(scene.tables(), pools);
  rows.of = findings;
  // Where the pool was first used: of a CUDA graph, its capture.
  rows.on_click = [&](std::uint64_t row) {
    const PoolUse& first = pools[row].uses.front();
    scene.selection.cursor = static_cast<std::uint32_t>(first.event) + 1;
    scene.selection.select(first.stack);
    scene.selection.remember();
  };
  table_.draw(scene, rows);
}

void HoldersPane::draw(Scene& scene, Verdicts& verdicts) {
  listed_ = 0;
  const auto findings = verdicts.get(scene, "holders");
  if (!findings) return;
  const PythonHolders& holders = findings->python_holders;
  listed_ = holders.rows.size();
  ImGui::PushStyleColor(ImGuiCol_Text, scene.theme.faint);
  ImGui::TextUnformatted(("walked " + walk_words(holders)).c_str());
  ImGui::PopStyleColor();
  Rows rows = rows_of<PythonHolder>(scene.tables(), holders.rows);
  rows.of = findings;
  rows.on_click = [&](std::uint64_t row) {
    scene.selection.cursor = scene.doc().event_count();  // the walk was made where the recording ends
    if (const auto largest = largest_kept(scene.doc(), scene.selection.heap, holders, static_cast<std::uint32_t>(row)))
      scene.selection.select(scene.doc(), *largest);
    scene.selection.remember();
  };
  table_.draw(scene, rows);
}

}  // namespace memreel::viewer
