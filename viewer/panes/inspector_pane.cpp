#include "viewer/panes/inspector_pane.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "analyzer/report/own_frame.h"
#include "analyzer/report/shortcomings.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
#include "viewer/model/labels.h"
#include "viewer/panes/categories.h"

namespace memreel::viewer {
namespace {

constexpr std::uintmax_t largest_source = 4U << 20U;

std::string when(const Document& document, std::uint32_t event) {
  if (event == never) return "not in this trace";
  const Nanoseconds since = document.time(event) - document.first_time();
  return time_text(since, std::max(since / 100'000, Nanoseconds{1})) + "   event " + text_of(std::uint64_t{event});
}

std::string seconds(Nanoseconds time) { return text_of_seconds(std::chrono::duration<double>(time).count()); }

}  // namespace

std::vector<std::string> shortcomings(const Document& document) {
  return memreel::shortcomings(document.losses, document.read, document.complete ? Bytes{document.bytes} : Bytes{});
}

void InspectorPane::draw(Scene& scene) {
  const ImVec2 at = ImGui::GetCursorScreenPos(), size = ImGui::GetContentRegionAvail();
  note_place(scene, "inspector", {at.x, at.y, at.x + size.x, at.y + size.y});
  const Selection& selection = scene.selection;
  const std::uint32_t count = scene.doc().allocation_count();
  if (selection.allocation && *selection.allocation < count)
    draw_allocation(scene, *selection.allocation);
  else if (!selection.stack)
    draw_trace(scene);
  if (selection.stack) draw_stack(scene, *selection.stack);
}

void InspectorPane::draw_trace(Scene& scene) {
  const Document& document = scene.doc();
  const float column = scene.px(120);
  ImGui::TextWrapped("%s", document.header.source_name.c_str());
  ImGui::Spacing();
  if (scene.has_categories()) {
    ImGui::TextDisabled("live at the cursor");
    draw_categories(scene, scene.live, "inspector");
    ImGui::Spacing();
  }
  property("source", document.header.source, column);
  property("events", text_of(std::uint64_t{document.event_count()}), column);
  property("allocations", text_of(std::uint64_t{document.allocation_count()}), column);
  property("time", seconds(document.last_time() - document.first_time()), column);
  property("stacks", text_of(std::uint64_t{scene.tables().stacks.size() - 1}), column);
  if (const HeapSeries* const series = scene.series()) {
    ImGui::Spacing();
    property("peak live", text_of(Bytes{series->peak_live}), column);
    if (series->has_segments) property("peak reserved", text_of(Bytes{series->peak_reserved}), column);
    property("failures", text_of(series->failures), column);
    if (ImGui::SmallButton("go to the live peak")) scene.selection.cursor = series->peak_live_event;
    ImGui::SameLine();
    if (series->has_segments && ImGui::SmallButton("to the reserved peak"))
      scene.selection.cursor = series->peak_reserved_event;
  }
  if (scene.classification && !scene.classification->problem.empty()) {
    ImGui::TextWrapped("What allocations are for is not known: %s", scene.classification->problem.c_str());
  }
  ImGui::Spacing();
  const std::vector<std::string> lacking = shortcomings(document);
  ImGui::TextDisabled("%s", lacking.empty() ? "Nothing is known to be missing." : "What this trace lacks:");
  for (const std::string& line : lacking) ImGui::TextWrapped("%s", line.c_str());
  ImGui::Spacing();
  ImGui::PushStyleColor(ImGuiCol_Text, scene.theme.faint);
  ImGui::TextWrapped("Click an allocation in the map, the heap or a table to see who made it. Press ? for the keys.");
  ImGui::PopStyleColor();
}

/// What the allocation is for, and how that is known.
void InspectorPane::draw_purpose(Scene& scene, const Allocation& a) {
  const Classification& known = *scene.classification;
  const float column = scene.px(120);
  const EvidenceRow& evidence = row_of(known.evidence(index(a.id)));
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float size = scene.px(9), drop = (ImGui::GetTextLineHeight() - size) / 2;
  const float left = at.x + column - ImGui::GetCursorPosX() - scene.px(15);
  ImGui::GetWindowDrawList()->AddRectFilled({left, at.y + drop}, {left + size, at.y + drop + size},
                                            scene.theme.category(evidence.category), scene.px(2));
  property("category", std::string(words_of(evidence.category)), column);
  note_item(scene, "inspector/category");
  ImGui::PushStyleColor(ImGuiCol_Text, scene.theme.faint);
  ImGui::PushTextWrapPos();
  ImGui::SetCursorPosX(column);
  std::string reason(evidence.reason);
  if (evidence.confidence > 0) reason += ", confidence " + std::to_string(evidence.confidence).substr(0, 4);
  ImGui::TextUnformatted(reason.c_str());
  ImGui::PopTextWrapPos();
  ImGui::PopStyleColor();
  property("phase", std::string(name_of(known.phase(index(a.id)))), column);
  const std::string layer = known.layer(scene.tables(), a.stack, known.call(index(a.id)));
  property("layer", layer.empty() ? "in no module" : layer, column);
}

void InspectorPane::draw_allocation(Scene& scene, std::uint32_t id) {
  const Document& document = scene.doc();
  const Tables& tables = scene.tables();
  const Allocation a = document.allocation(id);
  const Origin& origin = tables[a.origin];
  const float column = scene.px(120);
  ImGui::TextUnformatted((text_of(a.size) + "   allocation " + text_of(std::uint64_t{id})).c_str());
  ImGui::Spacing();
  if (scene.has_categories()) draw_purpose(scene, a);
  property("address", address_text(a.address), column);
  property("bytes", text_of(std::uint64_t{a.size.count}), column);
  if (const auto rounding = scene.rounding.value();
      rounding && rounding->is_known(origin.heap) && id < rounding->extra.size())
    property("rounding", text_of(rounding->of(id)) + " more", column);
  property("allocated", when(document, a.begin), column);
  property("free requested", a.requested == never ? "never" : when(document, a.requested), column);
  if (a.requested != never) {
    property("lived",
             seconds(document.time(a.requested) - document.time(a.begin)) + ",  " +
                 text_of(std::uint64_t{a.requested - a.begin}) + " events",
             column);
    if (a.completed != never && a.completed > a.requested + 1)
      property("then awaiting free", seconds(document.time(a.completed) - document.time(a.requested)), column);
  }
  property("pool", pool_label(tables, origin.pool), column);
  property("stream", stream_label(tables, origin.stream), column);
  property("thread", thread_label(tables, origin.thread), column);
  if (const HeldSegment* const segment = scene.heap.segment_at(a.address))
    property("segment", text_of(segment->size) + " at " + address_text(segment->address), column);

  // Its life in the whole trace.
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
  if (ImGui::SmallButton("begin")) scene.selection.cursor = a.begin + 1;
  ImGui::SameLine();
  if (a.requested != never && ImGui::SmallButton("end")) scene.selection.cursor = a.requested + 1;
  ImGui::SameLine();
  if (ImGui::SmallButton("show its life")) {
    const Nanoseconds from = document.time(a.begin);
    const Nanoseconds to = a.requested == never ? document.last_time() : document.time(a.requested);
    const Nanoseconds margin = (to - from) / 5 + Nanoseconds{10};
    scene.selection.look_at(document, {from - margin, to + margin});
    scene.selection.remember();
  }
  ImGui::Separator();
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

void InspectorPane::draw_stack(Scene& scene, StackId stack) {
  const std::vector<FrameText> frames = frames_of(scene.tables(), stack);
  if (frames.empty()) {
    ImGui::TextDisabled("No stack was recorded for it.");
    return;
  }
  const FrameText own = own_frame(frames);
  ImGui::TextDisabled("stack, innermost first");
  ImGui::SameLine();
  if (ImGui::SmallButton("copy")) {
    std::string all;
    for (const FrameText& frame : frames) all += text_of(frame) + "\n";
    ImGui::SetClipboardText(all.c_str());
  }
  ImGui::BeginChild("frames", {0, 0}, false, ImGuiWindowFlags_HorizontalScrollbar);
  for (const FrameText& frame : frames) {
    const bool mine = frame.function == own.function && frame.file == own.file && frame.line == own.line;
    const bool library = is_library_file(frame.file);
    ImGui::PushStyleColor(ImGuiCol_Text, mine ? scene.theme.accent : library ? scene.theme.faint : scene.theme.text);
    ImGui::TextUnformatted(std::string(frame.function.empty() ? "(unknown)" : frame.function).c_str());
    ImGui::PopStyleColor();
    if (frame.file.empty()) continue;
    ImGui::SameLine();
    const std::string where = std::string(mine ? frame.file : file_name(frame.file)) +
                              (frame.line != 0 ? ":" + std::to_string(frame.line) : "");
    ImGui::TextDisabled("%s", where.c_str());
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", text_of(frame).c_str());
    if (const std::string& line = source_line(std::string(frame.file), frame.line); !line.empty() && !library) {
      const std::size_t begin = line.find_first_not_of(" \t");
      if (begin != std::string::npos) ImGui::TextDisabled("      %s", line.c_str() + begin);
    }
  }
  ImGui::EndChild();
}

}  // namespace memreel::viewer
