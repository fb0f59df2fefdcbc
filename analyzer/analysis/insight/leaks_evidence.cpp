// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/leaks_evidence.h"

#include <algorithm>

#include "analyzer/describe/own_frame.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

std::string place_of(const Trace& trace, StackId stack) {
  const std::vector<FrameText> frames = frames_of(trace.tables, stack);
  if (frames.empty()) return "where no stack was recorded";
  const FrameText own = own_frame(frames);
  return (own.file.empty() ? "in " : "at ") + line_label(own);
}

/// "60 MiB in 30 allocations".
std::string total_of(const LeakFinding& finding) {
  return text_of(finding.bytes) + " in " + counted(finding.count, "allocation");
}

/// Which of the site's allocations were freed, as evidence for or against a leak.
std::string fate_of_others(const LeakFinding& finding, const Population& population, const std::string& unit) {
  if (population.frees == 0 && population.earlier_frees != 0)
    return "nothing allocated there was freed since the events that are kept begin";
  if (population.frees == 0)
    return finding.freed_at_end ? "nothing allocated there was freed before the last " + unit + " had ended"
                                : "nothing allocated there was ever freed";
  const std::string freed =
      counted(population.frees, "other") + " allocated there " + (population.frees == 1 ? "was" : "were") + " freed";
  if (finding.rounds == 0) return freed;
  return freed + ", " +
         (finding.growth.longest_life == 0 ? "each in the " + unit + " that allocated it"
                                           : "after at most " + counted(finding.growth.longest_life, unit)) +
         (finding.freed_at_end ? ", these only after the last" : "");
}

}  // namespace

std::string evidence_of(const Trace& trace, const LeakFinding& finding, const Population& population,
                        const Rounds& rounds, const Judged& judged) {
  const std::string unit = rounds.unit();
  const Growth& growth = finding.growth;
  const std::string place = place_of(trace, finding.stack) +
                            (population.note == StringId::none ? "" : " (" + trace.tables[population.note] + ")");
  const std::string total = total_of(finding);
  const bool is_kept = finding.verdict == LeakVerdict::resident || finding.verdict == LeakVerdict::cache ||
                       finding.verdict == LeakVerdict::warm_up;
  const bool is_earlier = !judged.kept.empty() && judged.kept.front().earlier;
  if (is_earlier && !accuses(finding.verdict))
    return total + " " + place + " was allocated before the events that are kept; " +
           fate_of_others(finding, population, unit);
  if (is_kept && growth.first >= finding.rounds) {
    const std::string when = finding.rounds == 0 ? "is held at the end"
                             : rounds.unfinished ? "is of the last " + unit + ", which is not recorded to its end"
                                                 : "was allocated after the last " + unit;
    return total + " " + place + " " + when + "; " + fate_of_others(finding, population, unit);
  }
  switch (finding.verdict) {
    case LeakVerdict::leak:
    case LeakVerdict::suspected: {
      if (finding.swelling) {
        return "what is held " + place + " was replaced by something larger in " +
               text_of(std::uint64_t{growth.rounds}) + " of " + counted(finding.rounds, unit) + ": " +
               text_of(finding.swelling->at_first) + " after " + unit + " " + text_of(std::uint64_t{growth.first} + 1) +
               ", " + text_of(finding.swelling->at_last) + " at the end; nothing else in the program grows with it";
      }
      const Bytes each{finding.bytes.count / std::max(1U, growth.rounds)};
      return text_of(std::uint64_t{growth.rounds}) + " of " + counted(finding.rounds, unit) + " kept " + text_of(each) +
             " allocated " + place + (judged.earlier.empty() ? "; " : ", as earlier ones did; ") +
             fate_of_others(finding, population, unit);
    }
    case LeakVerdict::warm_up:
      return total + " " + place + " was allocated in " + counted(growth.rounds, unit) + " up to " + unit + " " +
             text_of(std::min(std::uint64_t{growth.last} + 1, std::uint64_t{finding.rounds})) + " of " +
             text_of(std::uint64_t{finding.rounds}) + "; nothing has been added since";
    case LeakVerdict::sawtooth:
      return total + " " + place + " is freed in batches, so far after at most " + counted(growth.longest_life, unit);
    case LeakVerdict::cache:
      if (population.frees == 0)
        return total + " " + place + " was added less and less often; " + fate_of_others(finding, population, unit);
      return total + " " + place + " no longer grows; " + fate_of_others(finding, population, unit);
    case LeakVerdict::unknown_before_attach:
      return total + " was allocated before the recording began";
    case LeakVerdict::unattributed:
      return text_of(finding.bytes) +
             " of the device is not explained by the recording: contexts, code, other processes";
    default:
      return total + " " + place + " " +
             (growth.rounds <= 1 ? "dates from " + unit + " " + text_of(std::uint64_t{growth.first} + 1) + " of " +
                                       text_of(std::uint64_t{finding.rounds})
                                 : "was allocated in " + counted(growth.rounds, unit)) +
             (population.frees == 0 ? " and stays" : "; " + fate_of_others(finding, population, unit));
  }
}

std::string evidence_of_replacement(const Trace& trace, const LeakFinding& finding) {
  return total_of(finding) + " " + place_of(trace, finding.stack) +
         " takes the place of what was freed: live memory has grown less";
}

std::string evidence_of_calls(const Trace& trace, const LeakFinding& finding, const KeptByCalls& kept,
                              const std::string& line) {
  Bytes bytes;
  for (const Held& held : kept.judged.kept) bytes += held.size;
  const Bytes each{bytes.count / std::max(1U, finding.growth.rounds)};
  return text_of(std::uint64_t{finding.growth.rounds}) + " of " + counted(kept.calls, "call") + " of the model" +
         (line.empty() ? "" : " at " + line) + " after the last step kept " + text_of(each) + " allocated " +
         place_of(trace, finding.stack) + (kept.earlier.empty() ? "" : ", as earlier ones did") + "; " +
         fate_of_others(finding, kept.population, "call");
}

}  // namespace memreel
