// SPDX-License-Identifier: Apache-2.0
#include "viewer/panes/verdicts.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "analyzer/describe/own_frame.h"
#include "formats/model/quantity.h"
#include "viewer/model/heap_at.h"
#include "viewer/model/labels.h"
#include "viewer/model/whole_trace.h"

namespace memreel::viewer {

Colour verdict_colour(const Theme& theme, LeakVerdict verdict) {
  switch (verdict) {
    case LeakVerdict::leak:
      return theme.alarm;
    case LeakVerdict::suspected:
      return mix(theme.alarm, theme.panel, 0.4);
    case LeakVerdict::resident:
      return theme.hue(0);
    case LeakVerdict::cache:
      return theme.hue(2);
    case LeakVerdict::warm_up:
      return theme.hue(5);
    case LeakVerdict::sawtooth:
      return theme.hue(3);
    case LeakVerdict::unknown_before_attach:
    case LeakVerdict::unattributed:
      break;
  }
  return theme.hue(4);
}

// Before settings were replayed, which takes long, all but a setting is known. What was found before the file grew,
// settings included, is shown until that is so again.
std::shared_ptr<const Findings> Verdicts::known() {
  const std::shared_ptr<const Findings>& judged = findings_.value();
  if (findings_.is_current()) first_.reset();
  return judged || !first_ ? judged : first_->get();
}

std::size_t Verdicts::leaks() {
  const auto findings = known();
  return findings ? findings->leaks.causes.size() : 0;
}

bool Verdicts::knows_holders() {
  const auto findings = known();
  return findings && !findings->python_holders.empty();
}

bool Verdicts::knows_tags() {
  const auto findings = known();
  return findings && !findings->tags.empty();
}

bool Verdicts::is_too_long(const Scene& scene) { return scene.doc().event_count() > longest_in_memory; }

std::shared_ptr<const Findings> Verdicts::ask(Scene& scene) {
  if (is_too_long(scene) || !scene.judged || !scene.doc().complete) return nullptr;
  if (scene.classifying && !work_in_parallel()) {
    scene.busy = true;  // who holds the peak is named by category
    return known();
  }
  auto first = std::make_shared<FirstFindings>();
  const bool requested =
      findings_.request(scene.judged_events, [trace = scene.judged, first](const Progress& progress) {
        return judge_trace(*trace, progress, [&](Findings findings) { first->set(std::move(findings)); });
      });
  if (requested) first_ = std::move(first);
  if (!findings_.is_current()) scene.busy = true;
  return known();
}

std::shared_ptr<const Findings> Verdicts::get(Scene& scene, const char* name) {
  const auto say = [&](std::string_view what, std::string_view remedy = {}) {
    const Area area = take_area(name);
    note_place(scene, name, area);
    explain(scene, area, what, remedy);
    return std::shared_ptr<const Findings>();
  };
  if (is_too_long(scene)) return say("This trace is too long to judge here.", "Run: memreel report TRACE");
  if (!scene.judged || !scene.doc().complete) return say("Judged once the whole trace is read.");
  auto findings = ask(scene);
  draw_progress(scene, name);
  if (!findings) return say("Shows what leaks, what is unreleasable and why requests failed.");
  return findings;
}

LeaksPane::LeaksPane()
    : table_("leaks", {{"verdict", 110, false},
                       {"bytes", 100, true, 0},
                       {"count", 80, true, 1},
                       {"grows by", 110, true, 2},
                       {"who", 220, false},
                       {"because", 0, false}}) {}

void LeaksPane::look(const Scene& scene, const std::shared_ptr<const Findings>& findings) {
  const Document& document = scene.doc();
  const HeapId heap = scene.selection.heap;
  const auto [first_event, end_event] = scene.selection.listed(document);
  const std::uint32_t first = document.allocations_before(first_event);
  const std::uint32_t end = document.allocations_before(end_event);
  if (shown_ && shown_->of == findings && shown_->heap == heap && shown_->first == first && shown_->end == end &&
      shown_->sieve == scene.sieve)
    return;
  auto view = std::make_shared<InView>(
      InView{.of = findings, .heap = heap, .first = first, .end = end, .sieve = scene.sieve, .kept = {}});
  for (const LeakFinding& finding : findings->leaks.findings) {
    if (finding.heap != heap) continue;
    if (finding.allocations.empty() && scene.sieve && !scene.sieve->passes(finding.stack)) continue;
    Kept kept{.finding = &finding};
    for (const AllocationId id : finding.allocations) {
      if (index(id) < first || index(id) >= end || (scene.sieve && !scene.sieve->passes(index(id)))) continue;
      if (kept.count++ == 0) kept.example = index(id);
      kept.bytes += document.size_of(index(id));
    }
    // What has no allocations of its own is of no range of time.
    if (finding.allocations.empty()) kept = {.finding = &finding, .bytes = finding.bytes, .count = finding.count};
    if (kept.finding->allocations.empty() || kept.count != 0) view->kept.push_back(kept);
  }
  shown_ = std::move(view);
}

void LeaksPane::draw(Scene& scene, Verdicts& verdicts) {
  const auto findings = verdicts.get(scene, "leaks");
  if (!findings) return;
  if (findings->leaks.unrecorded) {
    const Area area = take_area("leaks");
    note_place(scene, "leaks", area);
    return explain(scene, area, "Leaks are " + std::string(leaks_not_judged) + ".",
                   "To see what grew between two instants: K at the first, then Compare.");
  }
  look(scene, findings);
  const std::vector<Kept>& shown = shown_->kept;
  Bytes accused{};
  for (const Kept& kept : shown)
    if (accuses(kept.finding->verdict)) accused += kept.bytes;
  std::string summary = accused > 0_B ? text_of(accused) + " leaked or suspected" : "";
  for (const HeapRounds& heap : findings->leaks.heaps)
    if (heap.heap == scene.selection.heap) {
      summary += !heap.rounds.suffice()
                     ? "   leaks are " + text_of(heap.rounds)
                     : (accused > 0_B ? "   judged over " : "No leak was found   judged over ") + text_of(heap.rounds);
      if (heap.steps_left)
        summary += "   memory runs out in " + text_of(static_cast<std::uint64_t>(std::llround(*heap.steps_left))) +
                   " more " + heap.rounds.unit() + "s";
    }
  ImGui::PushStyleColor(ImGuiCol_Text, accused > 0_B ? scene.theme.alarm : scene.theme.faint);
  ImGui::TextUnformatted(summary.c_str());
  ImGui::PopStyleColor();
  if (shown.empty()) {
    const Area area = take_area("leaks");
    note_place(scene, "leaks", area);
    explain(scene, area,
            scene.sieve ? "Nothing that passes the filter was live when the trace ended."
                        : "Nothing that was allocated in this time range was live when the trace ended.",
            scene.sieve ? "Esc clears the search." : "Zoom out with S, or press 0 for all of it.");
    return;
  }
  std::string unit = "step";
  for (const HeapRounds& heap : findings->leaks.heaps)
    if (heap.heap == scene.selection.heap) unit = heap.rounds.unit();
  Rows rows;
  rows.count = shown.size();
  rows.cell = [&](std::uint64_t row, int column) -> std::string {
    const LeakFinding& f = *shown[row].finding;
    switch (column) {
      case 0:
        return std::string(name_of(f.verdict));
      case 1:
        return text_of(shown[row].bytes);
      case 2:
        return text_of(shown[row].count);
      case 3:
        return accuses(f.verdict) ? text_of(Bytes{static_cast<std::uint64_t>(std::max(0.0, f.growth_bytes_per_step))}) +
                                        " per " + (f.unit == GrowsWith::steps ? unit : std::string(unit_of(f.unit)))
                                  : "";
      case 4:
        return stack_label(scene.tables(), f.stack);
      default:
        return evidence_of(*findings, f);
    }
  };
  rows.swatch = [&](std::uint64_t row) -> std::optional<Colour> {
    return verdict_colour(scene.theme, shown[row].finding->verdict);
  };
  const auto stack = [&](std::uint64_t row) { return shown[row].finding->stack; };
  rows.selected = [&](std::uint64_t row) { return scene.selection.stack == stack(row) && stack(row) != StackId::none; };
  rows.highlighted = [&](std::uint64_t row) { return scene.selection.highlights(scene.doc(), stack(row)); };
  rows.on_hover = [&](std::uint64_t row) { scene.selection.hover(stack(row)); };
  rows.on_click = [&](std::uint64_t row) {
    scene.selection.cursor = scene.doc().event_count();
    scene.selection.select(stack(row));  // all that it keeps
    scene.selection.remember();
  };
  rows.on_double_click = [&](std::uint64_t row) {
    if (shown[row].example) scene.selection.select(scene.doc(), *shown[row].example);
  };
  rows.of = shown_;
  rows.key = [&](std::uint64_t row, int sort) {
    const LeakFinding& f = *shown[row].finding;
    if (sort == 2) return accuses(f.verdict) ? std::max(0.0, f.growth_bytes_per_step) : -1;
    return static_cast<double>(sort == 1 ? shown[row].count : shown[row].bytes.count);
  };
  table_.draw(scene, rows);
}

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
          {{"peak by", 84, true, 0}, {"peak reserved", 100, true, 1}, {"failed", 84, true, 2}, {"with", 0, false}}) {}

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
      [trace = scene.doc().trace, key](const Progress& progress) -> std::optional<Judged> {
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
  const float button = button_width(scene, "fragmentation/go there") + scene.px(16);
  ImGui::PushTextWrapPos(std::max(ImGui::GetContentRegionMax().x - button, scene.px(100)));
  ImGui::TextUnformatted((text_of(peak.free()) + " of " + text_of(peak.reserved) + " were free at the reserved peak " +
                          scene.selection.listed_words() + ", " + text_of(peak.unreleasable) + " of them unreleasable")
                             .c_str());
  ImGui::PopTextWrapPos();
  ImGui::SameLine();
  if (push_button(scene, "fragmentation/go there")) {
    scene.selection.cursor = static_cast<std::uint32_t>(peak.events);
    scene.selection.remember();
  }
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

namespace {

/// How many requests fail with it: where the memory of the device is only known to have a limit, a replay tells the
/// least, and of the setting that is offered also the most.
std::string failed_words(const Findings& findings, const Remedy& remedy) {
  const std::uint64_t failed = remedy.outcome.failures();
  const Remedies& remedies = findings.remedies;
  if (remedies.least_devices.empty()) return text_of(failed);
  const auto& setting = findings.verdict.setting;
  if (!remedies.most_failures || !setting || setting->text != remedy.text) return text_of(failed) + " or more";
  return text_of(failed) + (*remedies.most_failures > failed ? " to " + text_of(*remedies.most_failures) : "");
}

}  // namespace

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
        return (back < 0   ? "+"
                : back > 0 ? "-"
                           : "") +
               text_of(Bytes{static_cast<std::uint64_t>(back < 0 ? -back : back)});
      case 1:
        return text_of(remedy.outcome.peak_reserved());
      case 2:
        return failed_words(*findings, remedy);
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

namespace {

void explain_none(Scene& scene) {
  const Area area = take_area("oom");
  note_place(scene, "oom", area);
  if (scene.doc().columns.failure.empty()) return explain(scene, area, "No request failed in this trace.");
  explain(scene, area, "No request failed in this time range.", "Zoom out with S, or press 0 for all of it.");
}

}  // namespace

FailuresPane::FailuresPane()
    : table_("oom", {{"requested", 100, true, 0},
                     {"at", 100, true, 1},
                     {"live then", 100, true, 2},
                     {"reserved then", 110, true, 3},
                     {"largest free", 100, true, 4},
                     {"verdict", 130, false},
                     {"survives with", 260, false},
                     {"who", 0, false}}) {}

void FailuresPane::look(const Scene& scene) {
  const Document& document = scene.doc();
  const auto [first, end] = scene.selection.listed(document);
  if (shown_.first == first && shown_.end == end && shown_.sieve == scene.sieve) return;
  shown_ = {.first = first, .end = end, .sieve = scene.sieve, .rows = {}};
  const ColumnView<std::uint32_t>& failures = document.columns.failure;
  for (std::uint32_t row = document.rows_before(failures, first); row < failures.size(); ++row) {
    const OtherEvent failure = document.other(failures[row]);
    if (failure.at >= end) break;
    if (!scene.sieve || scene.sieve->passes(failure.event.stack, failure.event.size)) shown_.rows.push_back(row);
  }
}

void FailuresPane::draw(Scene& scene, Verdicts& verdicts) {
  const Document& document = scene.doc();
  look(scene);
  const std::size_t count = shown_.rows.size();
  if (count == 0) return explain_none(scene);
  const auto failure = [&](std::uint64_t row) { return document.other(document.columns.failure[shown_.rows[row]]); };
  const auto metrics = [&](const OtherEvent& f) {
    const HeapSeries* const series = document.series(document.heap_of(f.event.origin));
    return series != nullptr ? document.metrics_after(*series, f.at) : Metrics{};
  };
  const auto findings = verdicts.get(scene, "oom");
  if (!findings) return;
  const auto judged = [&](std::uint64_t row) -> const OutOfMemory* { return findings->ooms.of_event(failure(row).at); };
  std::string sentence = "Click a failure to go to its moment and to see why it failed.";
  if (const auto& answer = findings->ooms.answer)
    sentence = findings->remedies.tried[answer->remedy].text + " serves " + text_of(answer->served) + " of the " +
               text_of(findings->ooms.fragmented) + " that failed because of fragmentation. " + sentence;
  for (std::uint64_t row = 0; row < count; ++row)
    if (failure(row).at + 1 == scene.selection.cursor)
      if (const OutOfMemory* const oom = judged(row)) sentence = explanation(*oom);
  ImGui::TextWrapped("%s", sentence.c_str());
  Rows rows;
  rows.count = count;
  rows.cell = [&](std::uint64_t row, int column) -> std::string {
    const OtherEvent f = failure(row);
    const OutOfMemory* const oom = judged(row);
    switch (column) {
      case 0:
        return text_of(f.event.size);
      case 1:
        return time_text(document.time(f.at) - document.first_time(), Nanoseconds{100'000});
      case 2:
        return text_of(Bytes{value_of(metrics(f), Metric::live)});
      case 3:
        return text_of(Bytes{value_of(metrics(f), Metric::reserved)});
      case 4:
        return oom != nullptr ? text_of(oom->largest_free) : "";
      case 5:
        return oom != nullptr ? std::string(name_of(oom->verdict)) : "not examined";
      case 6:
        return oom != nullptr ? survivor_text(findings->remedies, *oom) : "";
      default:
        return stack_label(scene.tables(), f.event.stack);
    }
  };
  rows.swatch = [&](std::uint64_t) { return scene.theme.alarm; };
  rows.selected = [&](std::uint64_t row) { return scene.selection.cursor == failure(row).at + 1; };
  rows.highlighted = [&](std::uint64_t row) { return scene.selection.highlights(document, failure(row).event.stack); };
  rows.on_hover = [&](std::uint64_t row) { scene.selection.hover(failure(row).event.stack); };
  rows.on_click = [&](std::uint64_t row) {
    const OtherEvent f = failure(row);
    scene.selection.heap = document.heap_of(f.event.origin);
    scene.selection.cursor = f.at + 1;  // it changed nothing; its instant is its flag's
    scene.selection.select(f.event.stack);
    scene.selection.remember();
  };
  rows.of = findings;
  rows.key = [&](std::uint64_t row, int sort) {
    const OtherEvent f = failure(row);
    switch (sort) {
      case 0:
        return static_cast<double>(f.event.size.count);
      case 1:
        return static_cast<double>(f.at);
      case 2:
        return static_cast<double>(value_of(metrics(f), Metric::live));
      case 3:
        return static_cast<double>(value_of(metrics(f), Metric::reserved));
      default:
        break;
    }
    const OutOfMemory* const oom = judged(row);
    return oom != nullptr ? static_cast<double>(oom->largest_free.count) : -1;
  };
  table_.draw(scene, rows);
}

}  // namespace memreel::viewer
