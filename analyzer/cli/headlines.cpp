#include "analyzer/cli/headlines.h"

#include <algorithm>

#include "analyzer/cli/insight_words.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel::cli {
namespace {

constexpr std::size_t most_causes = 3;

void add_leaks(const Trace& trace, const LeakReport& leaks, std::vector<Headline>& lines) {
  for (std::size_t i = 0; i < std::min(most_causes, leaks.causes.size()); ++i) {
    const LeakCause& cause = leaks.causes[i];
    const std::string where =
        cause.frame == FrameId::none ? "" : " at " + text_of(frame_text(trace.tables, cause.frame));
    lines.push_back({true, "Leak" + where + ": " + text_of(cause.bytes) + " kept in " + text_of(cause.count) +
                               " allocations, about " +
                               text_of(Bytes{static_cast<std::uint64_t>(std::max(0.0, cause.growth_bytes_per_round))}) +
                               " more each step."});
  }
  if (leaks.causes.size() > most_causes)
    lines.push_back({true, text_of(std::uint64_t{leaks.causes.size() - most_causes}) + " more causes of leaks."});
}

void add_failures(const Report& report, std::vector<Headline>& lines) {
  const OutOfMemories& ooms = report.ooms;
  if (ooms.count == 0) return;
  const auto fragmented = static_cast<std::uint64_t>(
      std::ranges::count(ooms.examined, OomVerdict::fragmentation, [](const OutOfMemory& oom) { return oom.verdict; }));
  std::string text = text_of(ooms.count) + (ooms.count == 1 ? " request failed" : " requests failed");
  text += fragmented > 0 ? ", " + text_of(fragmented) + " of them because of fragmentation."
                         : ": there was too little memory.";
  const OutOfMemory& first = ooms.examined.front();
  if (!first.survivors.empty())
    text += " The first would have been served with " + report.remedies.tried[first.survivors.front()].text + ".";
  lines.push_back({true, std::move(text)});
}

void add_fragmentation(const Trace& trace, const Report& report, std::vector<Headline>& lines) {
  for (const Fragmentation& found : report.fragmentation) {
    if (found.at_peak.fragmentation() < 0.02) continue;
    std::string text = text_of_share(found.at_peak.fragmentation()) + " of the " + text_of(found.at_peak.reserved) +
                       " that " + heap_title(trace.tables, found.heap) + " reserved at its peak was not allocated";
    if (found.at_peak.hostage > 0_B) text += "; " + text_of(found.at_peak.hostage) + " of it is pinned";
    if (!found.sites.empty() && found.sites.front().alone > 0_B)
      text += ", most of all by " + found.sites.front().label;
    lines.push_back({false, text + "."});
  }
  if (!report.sections.fragmentation || report.remedies.tried.empty()) return;
  const Remedy& best = report.remedies.tried.front();
  const std::int64_t saved = report.remedies.gives_back(best);
  if (saved > 0)
    lines.push_back({false, best.text + " gives back " + text_of(Bytes{static_cast<std::uint64_t>(saved)}) +
                                " of the peak of " + text_of(report.remedies.baseline_peak) + ", by replay."});
}

}  // namespace

std::vector<Headline> headlines(const Trace& trace, const Report& report) {
  std::vector<Headline> lines;
  add_leaks(trace, report.leaks, lines);
  add_failures(report, lines);
  add_fragmentation(trace, report, lines);
  if (lines.empty()) lines.push_back({false, "Nothing leaks, nothing failed, and hardly anything is fragmented."});
  return lines;
}

}  // namespace memreel::cli
