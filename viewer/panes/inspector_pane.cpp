// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
#include "viewer/model/labels.h"
#include "viewer/panes/draw.h"
#include "viewer/panes/instant_panes.h"
#include "viewer/panes/widgets.h"

namespace memreel::viewer {
namespace {

constexpr std::uintmax_t largest_source = 4U << 20U;

std::string when(const Document& document, std::uint32_t event) {
  if (event == never) return "not in this trace";
  const Nanoseconds since = document.time(event) - document.first_time();
  return time_text(since, std::max(since / 100'000, Nanoseconds{1})) + "   event " + text_of(std::uint64_t{event});
}

/// The next button is beside the last one, or below it if there is no room.
void place_button(const Scene& scene, std::string_view place) {
  const float width = button_width(scene, place);
  const float right = ImGui::GetWindowPos().x + ImGui::GetContentRegionMax().x;
  if (ImGui::GetItemRectMax().x + ImGui::GetStyle().ItemSpacing.x + width <= right) ImGui::SameLine();
}

/// The address of an allocation, if it is held in a segment of the heap.
std::optional<Address> place_of(const Document& document, const HeapAt& heap, std::uint32_t id) {
  const Address at = document.address_of(id);
  const HeldBlock* const block = heap.block_at(at);
  const bool is_here = block != nullptr && block->allocation == id && heap.segment_at(at) != nullptr;
  return is_here ? std::optional(at) : std::nullopt;
}

std::string seconds(Nanoseconds time) { return time_text(time, std::max(time / 1000, Nanoseconds{1})); }

}  // namespace

void InspectorPane::draw(Scene& scene) {
  const ImVec2 at = ImGui::GetCursorScreenPos(), size = ImGui::GetContentRegionAvail();
  note_place(scene, "inspector", {at.x, at.y, at.x + size.x, at.y + size.y});
  ImGui::BeginChild("inspector");  // which scrolls
  draw_selected(scene);
  ImGui::EndChild();
}

void InspectorPane::draw_selected(Scene& scene) {
  const ImVec2 size = ImGui::GetContentRegionAvail();
  const Selection& selection = scene.selection;
  const std::uint32_t count = scene.doc().allocation_count();
  const std::optional<std::uint32_t> allocation =
      selection.allocation && *selection.allocation < count ? selection.allocation : std::nullopt;
  const std::uint32_t id = allocation.value_or(0);
  if (allocation) draw_heading(scene, id);
  const std::optional<Address> space =
      selection.space || !allocation ? selection.space : place_of(scene.doc(), scene.heap, id);
  const bool is_known = allocation || selection.stack;
  if (!is_known && !space) draw_trace(scene);
  // The stack gets the full height, beside the details only if there is room for both.
  const bool has_both = allocation && selection.stack;
  constexpr float least_lines = 6;  // of a stack
  const float line = ImGui::GetTextLineHeightWithSpacing();
  const float details = details_height_ > 0 ? details_height_ * scene.scale : 15 * line;
  const bool shows_both = has_both && size.y > 2 * line + details + least_lines * line;
  if (is_known && (space || (has_both && !shows_both))) choose_part(scene, shows_both || !has_both, space.has_value());
  shows_space_ = space && (!is_known || wants_space_);
  if (shows_space_) return space_.draw(scene, *space);
  if (allocation && (shows_both || !selection.stack || !shows_stack_)) draw_allocation(scene, id);
  if (selection.stack && (shows_both || !has_both || shows_stack_)) draw_stack(scene, *selection.stack);
}

/// `whole`: the allocation is one part.
void InspectorPane::choose_part(Scene& scene, bool whole, bool offers_space) {
  const auto part = [&](const char* place, bool chosen) {
    const bool clicked = radio_button(scene, place, chosen);
    ImGui::SameLine();
    return clicked;
  };
  const bool space = offers_space && wants_space_;
  if (whole) {
    if (part("inspector/allocation", !space)) wants_space_ = false;
  } else {
    for (const bool stack : {true, false})
      if (part(stack ? "inspector/stack" : "inspector/details", !space && shows_stack_ == stack)) {
        shows_stack_ = stack;
        wants_space_ = false;
      }
  }
  if (offers_space && part("inspector/segment", space)) wants_space_ = true;
  ImGui::NewLine();
}

/// Describes an allocation in one line.
void InspectorPane::draw_heading(Scene& scene, std::uint32_t id) {
  ImGui::TextUnformatted(text_of(scene.doc().size_of(id)).c_str());
  ImGui::SameLine(0, scene.px(14));
  if (scene.has_categories()) {
    const Category category = scene.classification->category(id);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float size = scene.px(9), drop = (ImGui::GetTextLineHeight() - size) / 2;
    ImGui::GetWindowDrawList()->AddRectFilled({at.x, at.y + drop}, {at.x + size, at.y + drop + size},
                                              scene.theme.category(category), scene.px(2));
    ImGui::SetCursorScreenPos({at.x + scene.px(15), at.y});
    ImGui::TextUnformatted(std::string(words_of(category)).c_str());
    note_item(scene, "inspector/category");
    ImGui::SameLine(0, scene.px(14));
  }
  ImGui::TextDisabled("allocation %s", text_of(std::uint64_t{id}).c_str());
}

void InspectorPane::draw_trace(Scene& scene) {
  const Document& document = scene.doc();
  const float column = scene.px(120);
  constexpr float most_lines = 8;  // a command line may have megabytes, more than ImGui can draw
  ImGui::TextWrapped(
      "%s", fitting(document.trace->header.source_name, most_lines * ImGui::GetContentRegionAvail().x).c_str());
  ImGui::Spacing();
  if (scene.has_categories()) {
    ImGui::TextDisabled("live at the cursor");
    draw_categories(scene, scene.live, "inspector");
    ImGui::Spacing();
  }
  if (scene.selection.marked) draw_range(scene, *scene.selection.marked);
  property(scene, "source", document.trace->header.source, column);
  property(scene, "events", text_of(std::uint64_t{document.event_count()}), column);
  property(scene, "allocations", text_of(std::uint64_t{document.allocation_count()}), column);
  property(scene, "time", seconds(document.last_time() - document.first_time()), column);
  property(scene, "stacks", text_of(std::uint64_t{scene.tables().stacks.size() - 1}), column);
  if (const HeapSeries* const series = scene.series()) {
    ImGui::Spacing();
    property(scene, "peak live", text_of(Bytes{series->peak_live}), column);
    if (series->has_segments) property(scene, "peak reserved", text_of(Bytes{series->peak_reserved}), column);
    property(scene, "failures", text_of(series->failures), column);
    command_button(scene, "inspector/live peak");
    if (series->has_segments) {
      place_button(scene, "inspector/reserved peak");
      command_button(scene, "inspector/reserved peak");
    }
  }
  if (scene.classification && !scene.classification->problem.empty()) {
    ImGui::TextWrapped("Categories are not known: %s", scene.classification->problem.c_str());
  }
  ImGui::Spacing();
  const std::vector<std::string> lacking = document.shortcomings();
  ImGui::TextDisabled("%s", lacking.empty() ? "Nothing is known to be missing." : "What this trace lacks:");
  for (const std::string& line : lacking) ImGui::TextWrapped("%s", line.c_str());
  ImGui::Spacing();
  ImGui::PushStyleColor(ImGuiCol_Text, scene.theme.faint);
  ImGui::TextWrapped("Click an allocation in the map, the heap or a table to see who made it. Press ? for the keys.");
  ImGui::PopStyleColor();
}

/// What happened to the heap in the marked range.
void InspectorPane::draw_range(Scene& scene, TimeRange range) {
  const Document& document = scene.doc();
  const HeapSeries* const series = scene.series();
  const auto [first, end] = Selection::events_in(document, range);
  if (series == nullptr || first >= end) return;
  const float column = scene.px(120);
  const Metrics before = document.metrics_after(*series, first), after = document.metrics_after(*series, end);
  const Extent extent = document.extent(*series, first, end);
  const auto change = [&](Metric metric) {
    return text_of_growth(Bytes{value_of(before, metric)}, Bytes{value_of(after, metric)}) + ", at most " +
           text_of(Bytes{value_of(extent.max, metric)});
  };
  ImGui::TextDisabled("marked range; lists show only it");
  property(scene, "length", seconds(range.length()) + ",  " + counted(end - first, "event"), column);
  property(scene, "live", change(Metric::live), column);
  if (series->has_segments) property(scene, "reserved", change(Metric::reserved), column);
  note_item(scene, "inspector/range");
  ImGui::Spacing();
}

/// The category of the allocation, and the evidence for it.
void InspectorPane::draw_purpose(Scene& scene, const Allocation& a) {
  const Classification& known = *scene.classification;
  const float column = scene.px(120);
  const EvidenceRow& evidence = row_of(known.evidence(index(a.id)));
  property(scene, "category", std::string(words_of(evidence.category)), column);
  ImGui::PushStyleColor(ImGuiCol_Text, scene.theme.faint);
  ImGui::PushTextWrapPos();
  ImGui::SetCursorPosX(column);
  std::string reason(evidence.reason);
  if (evidence.confidence > 0) reason += ", confidence " + std::to_string(evidence.confidence).substr(0, 4);
  ImGui::TextUnformatted(reason.c_str());
  ImGui::PopTextWrapPos();
  ImGui::PopStyleColor();
  property(scene, "phase", std::string(name_of(known.phase(index(a.id)))), column);
  const std::string layer = known.layer(scene.tables(), a.stack, known.call(index(a.id)));
  property(scene, "layer", layer.empty() ? "in no module" : layer, column);
}

void InspectorPane::draw_allocation(Scene& scene, std::uint32_t id) {
  const Document& document = scene.doc();
  const Tables& tables = scene.tables();
  const Allocation a = document.allocation(id);
  const Origin& origin = tables[a.origin];
  const float column = scene.px(120), top = ImGui::GetCursorPosY();
  if (scene.has_categories()) draw_purpose(scene, a);
  property(scene, "address", address_text(a.address), column);
  property(scene, "bytes", text_of(std::uint64_t{a.size.count}), column);
  if (const auto rounding = scene.rounding.value();
      rounding && rounding->is_known(origin.heap) && id < rounding->extra.size())
    property(scene, "rounding", text_of(rounding->of(id)) + " more", column);
  property(scene, "allocated", when(document, a.begin), column);
  property(scene, "free requested", a.requested == never ? "never" : when(document, a.requested), column);
  if (a.requested != never) {
    property(
        scene, "lived",
        seconds(document.time(a.requested) - document.time(a.begin)) + ",  " + counted(a.requested - a.begin, "event"),
        column);
    if (a.completed != never && a.completed > a.requested + 1)
      property(scene, "then awaiting free", seconds(document.time(a.completed) - document.time(a.requested)), column);
  }
  property(scene, "pool", pool_label(tables, origin.pool), column);
  property(scene, "stream", stream_label(tables, origin.stream), column);
  property(scene, "thread", thread_label(tables, origin.thread), column);
  if (const HeldSegment* const segment = scene.heap.segment_at(a.address))
    property(scene, "segment", text_of(segment->size) + " at " + address_text(segment->address), column);

  // Its lifetime within the whole trace.
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ImGui::GetContentRegionAvail().x, height = scene.px(6);
  const double span = std::max(1.0, static_cast<double>((document.last_time() - document.first_time()).count()));
  const auto x_of = [&](std::uint32_t event) {
    if (event == never) return at.x + width;
    return at.x +
           static_cast<float>(static_cast<double>((document.time(event) - document.first_time()).count()) / span) *
               width;
  };
  ImDrawList& list = *ImGui::GetWindowDrawList();
  fill(list, {at.x, at.y + scene.px(3), at.x + width, at.y + scene.px(3) + height}, scene.theme.line);
  fill(list,
       {x_of(a.begin), at.y + scene.px(3), std::max(x_of(a.requested), x_of(a.begin) + 2), at.y + scene.px(3) + height},
       scene.theme.accent);
  ImGui::Dummy({width, height + scene.px(8)});
  if (push_button(scene, "inspector/begin")) scene.selection.cursor = a.begin + 1;
  if (a.requested != never) {
    place_button(scene, "inspector/end");
    if (push_button(scene, "inspector/end")) scene.selection.cursor = a.requested + 1;
  }
  place_button(scene, "inspector/lifetime");
  if (push_button(scene, "inspector/lifetime")) {
    const Nanoseconds from = document.time(a.begin);
    const Nanoseconds to = a.requested == never ? document.last_time() : document.time(a.requested);
    const Nanoseconds margin = (to - from) / 5 + Nanoseconds{10};
    scene.selection.look_at(document, {from - margin, to + margin});
    scene.selection.remember();
  }
  ImGui::Separator();
  details_height_ = (ImGui::GetCursorPosY() - top) / scene.scale;
}

const std::string& InspectorPane::source_line(const std::string& file, std::uint32_t line) {
  static const std::string none;
  const auto [found, is_new] = files_.try_emplace(file);
  if (is_new) {
    std::error_code problem;
    const std::filesystem::path path(file);
    if (path.is_absolute() && std::filesystem::is_regular_file(path, problem) &&
        std::filesystem::file_size(path, problem) <= largest_source) {
      std::ifstream stream(path);
      for (std::string text; std::getline(stream, text);) found->second.push_back(text);
    }
  }
  const std::vector<std::string>& lines = found->second;
  return line >= 1 && line <= lines.size() ? lines[line - 1] : none;
}

void InspectorPane::draw_frame(Scene& scene, const StackLine& line) {
  ImGui::PushStyleColor(ImGuiCol_Text, line.own                       ? scene.theme.accent
                                       : line.library || line.unnamed ? scene.theme.faint
                                                                      : scene.theme.text);
  ImGui::TextUnformatted(line.name.c_str());
  ImGui::PopStyleColor();
  const FrameText& frame = line.frame;
  if (frame.file.empty()) return;
  ImGui::SameLine();
  const std::string where = std::string(line.own ? frame.file : base_name(frame.file)) +
                            (frame.line != 0 ? ":" + std::to_string(frame.line) : "");
  ImGui::TextDisabled("%s", where.c_str());
  if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", text_of(frame).c_str());
  if (line.library) return;
  const std::string& source = source_line(std::string(frame.file), frame.line);
  const std::size_t begin = source.find_first_not_of(" \t");
  if (begin != std::string::npos) ImGui::TextDisabled("      %s", source.c_str() + begin);
}

void InspectorPane::draw_stack(Scene& scene, StackId stack) {
  if (lines_of_ != stack || lines_tables_ != scene.doc().tables) {
    lines_ = stack_lines(scene.tables(), stack);
    lines_of_ = stack;
    lines_tables_ = scene.doc().tables;
  }
  if (lines_.empty()) {
    ImGui::TextDisabled("No stack was recorded for it.");
    const std::optional<std::uint32_t> id = scene.selection.allocation;
    if (id && scene.has_categories() && scene.classification->phase(*id) != Phase::other)
      ImGui::TextWrapped("It was not allocated by the program's own code: %s.",
                         no_stack_label(scene.classification->phase(*id)).c_str());
    return;
  }
  // The line that the reader can change comes first.
  if (const auto own = std::ranges::find(lines_, true, &StackLine::own); own != lines_.end() && !own->library) {
    draw_frame(scene, *own);
    ImGui::Separator();
  }
  ImGui::TextDisabled("stack, innermost first");
  ImGui::SameLine();
  if (push_button(scene, "inspector/copy stack")) ImGui::SetClipboardText(copied_stack(lines_).c_str());
  const auto folded = std::ranges::count(lines_, true, &StackLine::wrapper);
  if (folded != 0) {
    ImGui::SameLine();
    const std::string what = (unfolded_ ? "fold " : "show ") + std::to_string(folded) + " wrapper frame(s)";
    if (push_button(scene, "inspector/fold", {.says = what})) unfolded_ = !unfolded_;
  }
  if (const auto unnamed = std::ranges::count(lines_, true, &StackLine::unnamed); unnamed != 0) {
    ImGui::PushStyleColor(ImGuiCol_Text, scene.theme.faint);
    ImGui::TextWrapped("%s unnamed: memreel symbols TRACE -o NAMED.reel adds the names.",
                       unnamed == 1 ? "A native frame is" : (std::to_string(unnamed) + " native frames are").c_str());
    ImGui::PopStyleColor();
    note_item(scene, "inspector/unnamed");
  }
  ImGui::BeginChild("frames", {0, 0}, false, ImGuiWindowFlags_HorizontalScrollbar);
  const ImVec2 at = ImGui::GetWindowPos(), size = ImGui::GetWindowSize();
  note_place(scene, "inspector/frames", {at.x, at.y, at.x + size.x, at.y + size.y});
  for (const StackLine& line : lines_)
    if (unfolded_ || !line.wrapper || line.own) draw_frame(scene, line);
  ImGui::EndChild();
}

namespace {

std::string instant(const Document& document, std::uint32_t event) {
  const Nanoseconds since = document.time(event) - document.first_time();
  return time_text(since, std::max(since / 1000, Nanoseconds{1}));
}

std::string until_text(const Document& document, std::uint32_t event) {
  return event == never ? "to the end" : instant(document, event);
}

double order_of(std::uint32_t until) {
  return until == never ? std::numeric_limits<double>::max() : static_cast<double>(until);
}

void wrapped(const Scene& scene, const std::string& what) {
  ImGui::PushStyleColor(ImGuiCol_Text, scene.theme.faint);
  ImGui::TextWrapped("%s", what.c_str());
  ImGui::PopStyleColor();
}

}  // namespace

SpaceView::SpaceView()
    : places_("pinned by",
              {{"bytes", 78, true, 0}, {"last until", 78, true, 1}, {"blocks", 56, true, 2}, {"who", 0, false}}),
      blocks_("segment blocks",
              {{"size", 78, true, 0}, {"until", 78, true, 1}, {"category", 96, false}, {"who", 0, false}}) {
  places_.set_sort(1, true);
  blocks_.set_sort(1, true);
}

void SpaceView::draw(Scene& scene, Address address) {
  const Key key{scene.document, scene.heap.heap, scene.heap.event, scene.heap.rounding.has_value(), address};
  if (!(key == key_)) {
    key_ = key;
    auto found = space_at(scene.doc(), scene.heap, address);
    space_ = found ? std::make_shared<const Space>(*std::move(found)) : nullptr;
  }
  if (space_ == nullptr) {
    ImGui::TextDisabled("nothing is reserved at %s now", address_text(address).c_str());
    return;
  }
  if (space_->hole) draw_hole(scene);
  draw_segment(scene);
  if (space_->blocks.empty()) return;
  draw_places(scene);
  draw_blocks(scene);
}

void SpaceView::draw_hole(const Scene& scene) const {
  const Hole& hole = *space_->hole;
  ImGui::TextUnformatted((text_of(hole.size) + " free").c_str());
  ImGui::SameLine(0, scene.px(14));
  ImGui::TextDisabled("at %s", address_text(hole.address).c_str());
  const PoolStreamKey& whose = space_->pool_stream;
  std::string serves;
  if (!hole.largest_request)
    serves = "Could serve requests of up to " + text_of(hole.size) + ", if this allocator splits such blocks";
  else if (*hole.largest_request == 0_B)
    serves = "Serves no request: those of the large pools are above " + text_of(TorchSettings::max_small);
  else
    serves = "Serves requests of up to " + text_of(*hole.largest_request);
  serves += ", of pool " + pool_label(scene.tables(), whose.pool) + ", stream " +
            stream_label(scene.tables(), whose.stream) + " only.";
  wrapped(scene, serves);
  ImGui::Spacing();
}

void SpaceView::draw_segment(Scene& scene) const {
  const HeldSegment& segment = space_->segment;
  const Document& document = scene.doc();
  ImGui::TextUnformatted((text_of(segment.size) + (segment.mapped ? " mapped" : " segment")).c_str());
  ImGui::SameLine(0, scene.px(14));
  ImGui::TextDisabled("at %s, since %s", address_text(segment.address).c_str(),
                      instant(document, segment.begin).c_str());
  note_item(scene, "inspector/space");
  const Bytes used = segment.held + segment.rounding, free = segment.size - std::min(used, segment.size);
  std::string what = text_of(used) + " in use, " + text_of(free) + " free";
  if (space_->largest_hole.size > 0_B && !space_->hole)
    what += ", at most " + text_of(space_->largest_hole.size) + " in one piece";
  wrapped(scene, what);
  if (space_->blocks.empty()) {
    ImGui::TextWrapped("Nothing is in it: empty_cache() would release it.");
    return;
  }
  std::string frees =
      space_->blocks.size() == 1
          ? "It can be released once its one block is freed"
          : "It can be released once all " + text_of(std::uint64_t{space_->blocks.size()}) + " blocks are freed";
  frees += space_->empty_from == never ? ", which does not happen in this trace."
                                       : ": at " + instant(document, space_->empty_from) + ".";
  if (segment.mapped && free > space_->unreleasable)
    frees += " " + text_of(free - space_->unreleasable) + " of it can be unmapped before.";
  ImGui::TextWrapped("%s", frees.c_str());
}

void SpaceView::draw_places(Scene& scene) {
  const std::vector<SpacePlace>& places = space_->places;
  if (places.empty()) return;
  Selection& selection = scene.selection;
  constexpr std::size_t most = 5;  // on screen; the rest by scrolling
  const float row = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
  ImGui::Spacing();
  ImGui::TextDisabled("pinned by %s", counted(places.size(), "place").c_str());
  ImGui::BeginChild("places", {0, row * static_cast<float>(std::min(places.size(), most) + 1) + scene.px(4)}, false,
                    ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse);
  Rows rows;
  rows.count = places.size();
  rows.cell = [&](std::uint64_t i, int column) -> std::string {
    const SpacePlace& place = places[i];
    switch (column) {
      case 0:
        return text_of(place.site.bytes);
      case 1:
        return until_text(scene.doc(), place.until);
      case 2:
        return text_of(place.site.blocks);
      default:
        return maker_label(scene, place.largest);
    }
  };
  rows.key = [&](std::uint64_t i, int sort) {
    const SpacePlace& place = places[i];
    return sort == 0   ? static_cast<double>(place.site.bytes.count)
           : sort == 1 ? order_of(place.until)
                       : static_cast<double>(place.site.blocks);
  };
  rows.of = space_;
  const auto stack = [&](std::uint64_t i) { return scene.doc().stack_of(places[i].largest); };
  rows.swatch = [&](std::uint64_t i) -> std::optional<Colour> {
    if (!scene.has_categories()) return scene.theme.shade(index(scene.doc().site_of(places[i].largest)));
    return scene.theme.category(scene.classification->category(places[i].largest));
  };
  rows.highlighted = [&](std::uint64_t i) { return selection.highlights(scene.doc(), stack(i)); };
  rows.on_hover = [&](std::uint64_t i) { selection.hover(stack(i)); };
  rows.on_click = [&](std::uint64_t i) {
    selection.select(scene.doc(), places[i].largest);
    selection.remember();
  };
  places_.draw(scene, rows);
  ImGui::EndChild();
}

void SpaceView::draw_blocks(Scene& scene) {
  const std::vector<SpaceBlock>& blocks = space_->blocks;
  Selection& selection = scene.selection;
  ImGui::Spacing();
  ImGui::TextDisabled("%s, the last to go first", counted(blocks.size(), "block").c_str());
  blocks_.hide(2, !scene.has_categories());
  Rows rows;
  rows.count = blocks.size();
  const auto id = [&](std::uint64_t i) { return blocks[i].block.allocation; };
  rows.cell = [&](std::uint64_t i, int column) -> std::string {
    switch (column) {
      case 0:
        return text_of(blocks[i].block.size);
      case 1:
        return until_text(scene.doc(), blocks[i].until);
      case 2:
        return scene.has_categories() ? std::string(words_of(scene.classification->category(id(i)))) : "";
      default:
        return maker_label(scene, id(i));
    }
  };
  rows.key = [&](std::uint64_t i, int sort) {
    return sort == 0 ? static_cast<double>(blocks[i].block.size.count) : order_of(blocks[i].until);
  };
  rows.of = space_;
  rows.swatch = [&](std::uint64_t i) -> std::optional<Colour> {
    if (!scene.has_categories()) return scene.theme.shade(index(scene.doc().site_of(id(i))));
    return scene.theme.category(scene.classification->category(id(i)));
  };
  rows.highlighted = [&](std::uint64_t i) { return selection.hovered_allocation == id(i); };
  rows.on_hover = [&](std::uint64_t i) { selection.hover(id(i)); };
  rows.on_click = [&](std::uint64_t i) {
    selection.select(scene.doc(), id(i));
    selection.remember();
  };
  blocks_.draw(scene, rows);
}

}  // namespace memreel::viewer
