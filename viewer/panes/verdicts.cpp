#include "viewer/panes/verdicts.h"

#include "formats/reader/load.h"

namespace memreel::viewer {
namespace {

constexpr std::uint32_t most_events = 50'000'000;  // the analyzer holds the whole trace: 37 bytes for each event

std::optional<Findings> judge(const std::shared_ptr<ByteFile>& file, Bytes memory_limit, const Progress& progress) {
  Findings findings;
  const auto trace = load_checked(file, "the trace", memory_limit);
  if (!trace) {
    findings.problem = trace.error().message();
    return findings;
  }
  progress.set(0.2);
  if (progress.cancelled()) return std::nullopt;
  findings.leaks = find_leaks(*trace);
  findings.of_allocation.resize(trace->allocation_events.size());
  for (const LeakFinding& finding : findings.leaks.findings)
    for (const AllocationId id : finding.allocations) findings.of_allocation[index(id)] = finding.verdict;
  progress.set(0.4);
  if (progress.cancelled()) return std::nullopt;
  const RecordedBlocks blocks = recorded_blocks(*trace);
  findings.fragmentation = find_fragmentation(*trace, blocks);
  progress.set(0.6);
  if (progress.cancelled()) return std::nullopt;
  findings.remedies = replay_remedies(*trace);
  findings.ooms = judge_failures(*trace, blocks, findings.remedies);
  return findings;
}

}  // namespace

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

std::shared_ptr<const Findings> Verdicts::ask(Scene& scene) {
  if (scene.doc().event_count() > most_events || !scene.file || !scene.doc().complete) return nullptr;
  findings_.request(scene.doc().event_count(), [file = scene.file, limit = scene.memory_limit](
                                                   const Progress& progress) { return judge(file, limit, progress); });
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
  if (scene.doc().event_count() > most_events)
    return say("This trace is too long to be judged here.", "Run: memreel report TRACE");
  if (!scene.file || !scene.doc().complete) return say("Judged when all of the trace is read.");
  auto findings = ask(scene);
  draw_job(scene, name, "Judging", findings_);
  if (!findings) return say("Shows what leaks, what is unreleasable and why requests failed.");
  if (!findings->problem.empty()) return say(findings->problem);
  return findings;
}

}  // namespace memreel::viewer
