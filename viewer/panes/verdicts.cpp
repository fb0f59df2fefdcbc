#include "viewer/panes/verdicts.h"

#include "viewer/model/completed_file.h"

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

std::size_t Verdicts::leaks() {
  const auto findings = findings_.value();
  return findings ? findings->leaks.causes.size() : 0;
}

bool Verdicts::is_too_long(const Scene& scene) { return scene.doc().event_count() > longest_in_memory; }

std::shared_ptr<const Findings> Verdicts::ask(Scene& scene) {
  if (is_too_long(scene) || !scene.file || !scene.doc().complete) return nullptr;
  if (scene.classifying) {
    scene.busy = true;  // who holds the peak is named by category
    return findings_.value();
  }
  findings_.request(scene.judged_events,
                    [file = scene.file, limit = scene.memory_limit, known = scene.classification](
                        const Progress& progress) { return judge_file(file, limit, known, progress); });
  if (!findings_.is_current()) scene.busy = true;
  return findings_.value();
}

std::shared_ptr<const Findings> Verdicts::get(Scene& scene, const char* name) {
  const auto say = [&](std::string_view what, std::string_view remedy = {}) {
    const Area area = take_area(name);
    note_place(scene, name, area);
    explain(scene, area, what, remedy);
    return std::shared_ptr<const Findings>();
  };
  if (is_too_long(scene)) return say("This trace is too long to judge here.", "Run: memreel report TRACE");
  if (!scene.file || !scene.doc().complete) return say("Judged once the whole trace is read.");
  auto findings = ask(scene);
  draw_progress(scene, name);
  if (!findings) return say("Shows what leaks, what is unreleasable and why requests failed.");
  if (!findings->problem.empty()) return say(findings->problem);
  return findings;
}

}  // namespace memreel::viewer
