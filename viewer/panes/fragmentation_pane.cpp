#include <algorithm>
#include <string>
#include <unordered_set>

#include "analyzer/report/labels.h"
#include "formats/model/quantity.h"
#include "formats/reader/load.h"
#include "viewer/model/heap_at.h"
#include "viewer/panes/verdicts.h"

namespace memreel::viewer {
namespace {

/// The sites that have matching blocks after `events` events.
std::unordered_set<std::string> passing_sites(const Scene& scene, std::uint32_t events) {
  std::unordered_set<StackId> stacks;
  for (const std::uint32_t id : held_at(scene.doc(), scene.selection.heap, events))
    if (scene.sieve->passes(id)) stacks.insert(scene.doc().stack_of(id));
  std::unordered_set<std::string> sites;
  for (const StackId stack : stacks) sites.insert(site_label(scene.tables(), stack));
  return sites;
}

}  // namespace

FragmentationPane::FragmentationPane()
    : sites_("pins", {{"pins", 84, true, 0},
                      {"alone", 84, true, 1},
                      {"segments", 74, true, 2},
                      {"blocks", 60, true, 3},
                      {"who", 0, false}}),
      remedies_(
          "remedies",
          {{"saves", 84, true, 0}, {"peak reserved", 100, true, 1}, {"failed", 50, true, 2}, {"with", 0, false}}) {}

std::shared_ptr<const FragmentationPane::Judged> FragmentationPane::judge(
    Scene& scene, const std::shared_ptr<const Findings>& findings, const Key& key) {
  // The judgement at the overall peak is among the verdicts.
  if (key.event + 1 == scene.series()->peak_reserved_event) {
    if (at_peak_of_ != findings || at_peak_heap_ != key.heap) {
      const auto found = std::ranges::find(findings->fragmentation, key.heap, &Fragmentation::heap);
      at_peak_ = std::make_shared<const Judged>(found == findings->fragmentation.end() ? Judged() : Judged(*found));
      at_peak_of_ = findings;
      at_peak_heap_ = key.heap;
    }
    return at_peak_;
  }
  elsewhere_.request(
      key,
      [file = scene.file, limit = scene.memory_limit, key](const Progress& progress) -> std::optional<Judged> {
        const auto trace = load_checked(file, "the trace", limit);
        if (!trace) return Judged();
        progress.set(0.4);
        if (progress.cancelled()) return std::nullopt;
        const RecordedBlocks blocks = recorded_blocks(*trace);
        progress.set(0.6);
        if (progress.cancelled()) return std::nullopt;
        return fragmentation_at(*trace, blocks, key.heap, key.event);
      },
      false);
  if (!elsewhere_.is_current()) scene.busy = true;
  draw_job(scene, "fragmentation/moment", "Judging", elsewhere_);
  auto latest = elsewhere_.value();
  return latest && elsewhere_.key()->heap == key.heap ? latest : nullptr;
}

void FragmentationPane::draw(Scene& scene, Verdicts& verdicts) {
  const auto findings = verdicts.get(scene, "fragmentation");
  if (!findings) return;
  const auto say = [&](std::string_view what, std::string_view remedy = {}) {
    const Area area = take_area("fragmentation");
    note_place(scene, "fragmentation", area);
    explain(scene, area, what, remedy);
  };
  const Document& document = scene.doc();
  const HeapSeries* const series = scene.series();
  if (series == nullptr || !series->has_segments) return say("Not known: no segments were recorded.");
  const auto [first, end] = scene.selection.listed(document);
  const auto none = [&] {
    say("Nothing was reserved and allocated in this time range.", "Zoom out with S, or press 0 for all of it.");
  };
  if (first >= end) return none();
  const Key key{.heap = series->heap,
                .event = document.highest(*series, Metric::reserved, first, end),
                .version = document.event_count()};
  const auto judged = judge(scene, findings, key);
  if (!judged)
    return say(std::string("Shows what keeps free memory from being released at the reserved peak ") +
               scene.selection.listed_words() + ".");
  if (!*judged) return none();
  const FragmentationPoint& peak = (*judged)->at_peak;
  const float button = ImGui::CalcTextSize("go there").x + scene.px(24);
  ImGui::PushTextWrapPos(std::max(ImGui::GetContentRegionMax().x - button, scene.px(100)));
  ImGui::TextUnformatted((text_of(peak.free()) + " of " + text_of(peak.reserved) + " were free at the reserved peak " +
                          scene.selection.listed_words() + ", " + text_of(peak.unreleasable) + " of them unreleasable")
                             .c_str());
  ImGui::PopTextWrapPos();
  ImGui::SameLine();
  if (ImGui::SmallButton("go there")) {
    scene.selection.cursor = static_cast<std::uint32_t>(peak.events);
    scene.selection.remember();
  }
  note_item(scene, "fragmentation/go there");
  const float width = ImGui::GetContentRegionAvail().x;
  ImGui::BeginChild("pinning", {std::max(width * 0.48F, 1.0F), 0});
  draw_sites(scene, judged);
  ImGui::EndChild();
  ImGui::SameLine(0, scene.px(16));
  ImGui::BeginChild("helping", {0, 0});
  draw_remedies(scene, findings);
  ImGui::EndChild();
}

void FragmentationPane::draw_sites(Scene& scene, const std::shared_ptr<const Judged>& judged) {
  const FragmentationPoint& peak = (*judged)->at_peak;
  if (listed_of_ != judged || listed_sieve_ != scene.sieve) {
    listed_ = std::make_shared<std::vector<PinningSite>>((*judged)->sites);
    if (scene.sieve) {
      const auto passing = passing_sites(scene, static_cast<std::uint32_t>(peak.events));
      std::erase_if(*listed_, [&](const PinningSite& site) { return !passing.contains(site.label); });
    }
    listed_of_ = judged;
    listed_sieve_ = scene.sieve;
  }
  const std::vector<PinningSite>& sites = *listed_;
  Rows rows;
  rows.count = sites.size();
  rows.cell = [&](std::uint64_t row, int column) -> std::string {
    const PinningSite& site = sites[row];
    switch (column) {
      case 0:
        return text_of(site.unreleasable);
      case 1:
        return text_of(site.alone);
      case 2:
        return text_of(site.segments);
      case 3:
        return text_of(site.blocks);
      default:
        return site.label;
    }
  };
  rows.selected = [&](std::uint64_t row) { return scene.selection.stack == sites[row].stack; };
  rows.highlighted = [&](std::uint64_t row) { return scene.selection.highlights(scene.doc(), sites[row].stack); };
  rows.on_hover = [&](std::uint64_t row) { scene.selection.hover(sites[row].stack); };
  rows.on_click = [&](std::uint64_t row) {
    scene.selection.select(sites[row].stack);
    scene.selection.cursor = static_cast<std::uint32_t>(peak.events);
    scene.selection.remember();
  };
  rows.of = listed_;
  rows.key = [&](std::uint64_t row, int sort) {
    const PinningSite& site = sites[row];
    return static_cast<double>(sort == 0   ? site.unreleasable.count
                               : sort == 1 ? site.alone.count
                               : sort == 2 ? std::uint64_t{site.segments}
                                           : std::uint64_t{site.blocks});
  };
  sites_.draw(scene, rows);
}

/// Settings and policies are replayed over the whole trace, regardless of the view.
void FragmentationPane::draw_remedies(Scene& scene, const std::shared_ptr<const Findings>& findings) {
  const Remedies& remedies = findings->remedies;
  // The program's own settings come first, as the reference for the others.
  const std::uint64_t failed = findings->verdict.setting ? findings->verdict.setting->failed_before : 0;
  Rows other;
  other.count = remedies.tried.empty() ? 0 : remedies.tried.size() + 1;
  other.cell = [&, failed](std::uint64_t row, int column) -> std::string {
    if (row == 0)
      return column == 0   ? ""
             : column == 1 ? text_of(remedies.baseline_peak)
             : column == 2 ? text_of(failed)
                           : "as recorded";
    const Remedy& remedy = remedies.tried[row - 1];
    const std::int64_t back = remedies.gives_back(remedy);
    switch (column) {
      case 0:
        return (back < 0 ? "-" : "") + text_of(Bytes{static_cast<std::uint64_t>(back < 0 ? -back : back)});
      case 1:
        return text_of(remedy.outcome.peak_reserved());
      case 2:
        return text_of(remedy.outcome.failures());
      default:
        return remedy.text;
    }
  };
  other.of = findings;
  other.swatch = [&](std::uint64_t row) { return row == 0 ? std::optional(scene.theme.accent) : std::nullopt; };
  other.key = [&, failed](std::uint64_t row, int sort) {
    if (row == 0) return sort == 0 ? 0.0 : static_cast<double>(sort == 1 ? remedies.baseline_peak.count : failed);
    const Remedy& remedy = remedies.tried[row - 1];
    if (sort == 0) return static_cast<double>(remedies.gives_back(remedy));
    return static_cast<double>(sort == 1 ? remedy.outcome.peak_reserved().count
                                         : std::uint64_t{remedy.outcome.failures()});
  };
  remedies_.draw(scene, other);
}

}  // namespace memreel::viewer
