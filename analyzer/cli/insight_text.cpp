#include "analyzer/cli/insight_text.h"

#include <algorithm>
#include <chrono>

#include "analyzer/tune/setting_facts.h"
#include "formats/model/origin_text.h"
#include "formats/model/quantity.h"

namespace memreel::cli {

std::string heap_title(const Tables& tables, HeapId heap) {
  const std::string& name = tables[tables[heap].name];
  return tables[heap].device < 0 ? name : name + ", device " + std::to_string(tables[heap].device);
}

std::string place_of(const Tables& tables, const PoolStreamKey& pool_stream) {
  std::string text = "stream " + stream_label(tables, pool_stream.stream);
  if (pool_stream.pool != PoolId::default_pool) text += ", pool " + pool_label(tables, pool_stream.pool);
  if (pool_stream.small) text += ", small";
  return text;
}

std::string text_of_time(Nanoseconds duration) {
  return text_of_seconds(std::max(0.0, std::chrono::duration<double>(duration).count()));
}

Nanoseconds since_start(const Trace& trace, Nanoseconds time) {
  return trace.events.count() == 0 ? Nanoseconds{} : time - trace.events.time.front();
}

std::string oom_setting_text(const Report& report) {
  const OutOfMemories& ooms = report.ooms;
  if (ooms.fragmented == 0) return {};
  const std::string of = ooms.fragmented == 1 ? "the request" : "the " + text_of(ooms.fragmented) + " requests";
  if (!ooms.answer) return "None of the settings tried serves " + of + " that failed by fragmentation.";
  const std::string setting = report.remedies.tried[ooms.answer->remedy].text;
  if (ooms.answer->served == ooms.fragmented)
    return setting + " serves " + (ooms.fragmented == 1 ? of : "all of " + of) +
           " that failed by fragmentation, by replay.";
  return setting + " serves most: " + text_of(ooms.answer->served) + " of " + of +
         " that failed by fragmentation, by replay.";
}

namespace {

std::string side_effects_text(const Report& report, std::size_t remedy) {
  const std::string effects = report.remedies.is_torch ? side_effects_of(report.remedies.baseline.policy,
                                                                         report.remedies.tried[remedy].outcome.policy)
                                                       : "";
  return effects.empty() ? effects : " Side effects of the first: " + effects;
}

}  // namespace

std::string step_plan_text(const Report& report) {
  if (!report.step_plan || report.step_plan->saves() <= step_plan_margin) return "";
  const StepPlan& plan = *report.step_plan;
  return "A static plan of step " + text_of(plan.step) + ", in which most is live, needs " + text_of(plan.peak) + ", " +
         text_of_share(plan.saves()) + " less than " +
         (plan.least_by.empty() ? "with the recorded settings" : plan.least_by) +
         ", the least that an allocator needs (" + text_of(plan.least_reserved) + "): see memreel plan.";
}

std::string survivors_text(const Report& report, const OutOfMemory& oom) {
  static constexpr std::size_t most_named = 5;
  if (oom.verdict == OomVerdict::larger_than_device) return "No setting and no allocator serves it.";
  if (oom.level == Level::driver) return "No settings tried: the program asked the driver directly.";
  if (!oom.capacity) return "No settings tried: the capacity is unknown.";
  if (report.remedies.tried.empty()) return "No settings tried: memreel knows none for this allocator.";
  if (oom.verdict == OomVerdict::lack_of_memory) return "No setting helps: " + remedy_for_lack(oom) + ".";
  const std::string at = " at " + text_of(*oom.capacity);
  if (!oom.serve_only.empty() && oom.survivors.empty()) {
    std::string text =
        oom.rest
            ? "Serve this request" + at + ", by replay, but not the rest of the step as earlier ones went on: "
            : "Serve this request" + at + ", by replay; what the program would have requested next is not recorded: ";
    for (std::size_t i = 0; i < std::min(most_named, oom.serve_only.size()); ++i) {
      const OutOfMemory::Served& served = oom.serve_only[i];
      text += (i > 0 ? "; " : "") + report.remedies.tried[served.remedy].text;
      if (!oom.rest) text += " (" + text_of(served.spare) + " to spare)";
    }
    return text + "." + side_effects_text(report, oom.serve_only.front().remedy);
  }
  if (oom.survivors.empty())
    return "None of the " + text_of(std::uint64_t{report.remedies.tried.size()}) +
           " settings tried would have survived" + at + ".";
  std::string text =
      std::string(oom.is_last ? "Would have survived this request and the rest of the step" : "Would have survived") +
      at + ", by replay: ";
  for (std::size_t i = 0; i < std::min(most_named, oom.survivors.size()); ++i)
    text += (i > 0 ? "; " : "") + report.remedies.tried[oom.survivors[i]].text;
  if (oom.survivors.size() > most_named)
    text += "; and " + text_of(std::uint64_t{oom.survivors.size() - most_named}) + " more";
  return text + "." + side_effects_text(report, oom.survivors.front());
}

}  // namespace memreel::cli
