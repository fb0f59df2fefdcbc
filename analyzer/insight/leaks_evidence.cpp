#include "analyzer/insight/leaks_evidence.h"

#include "analyzer/report/labels.h"
#include "analyzer/report/own_frame.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

namespace memreel {
namespace {

std::string count_of(std::uint64_t count, const std::string& what) {
  return text_of(count) + " " + what + (count == 1 ? "" : "s");
}

std::string place_of(const Trace& trace, StackId stack) {
  const std::vector<FrameText> frames = frames_of(trace.tables, stack);
  if (frames.empty()) return "where no stack was recorded";
  const FrameText own = own_frame(frames);
  return (own.file.empty() ? "in " : "at ") + line_label(own);
}

/// Which of the site's allocations were freed, as evidence for or against a leak.
std::string fate_of_others(const LeakFinding& finding, const Population& population, const std::string& unit) {
  if (population.frees == 0) return "nothing allocated there was ever freed";
  return count_of(population.frees, "other") + " allocated there " + (population.frees == 1 ? "was" : "were") +
         " freed, " +
         (finding.growth.longest_life == 0 ? "each in the " + unit + " that allocated it"
                                           : "after at most " + count_of(finding.growth.longest_life, unit));
}

}  // namespace

std::string evidence_of(const Trace& trace, const LeakFinding& finding, const Population& population,
                        const Intervals& intervals) {
  const std::string unit = intervals.unit();
  const Growth& growth = finding.growth;
  const std::string place = place_of(trace, finding.stack);
  const std::string total = text_of(finding.bytes) + " in " + count_of(finding.count, "allocation");
  switch (finding.verdict) {
    case LeakVerdict::leak:
    case LeakVerdict::suspected: {
      if (finding.swelling) {
        return "what is held " + place + " was replaced by something larger in " +
               text_of(std::uint64_t{growth.intervals}) + " of " + count_of(finding.intervals, unit) + ": " +
               text_of(finding.swelling->at_first) + " after " + unit + " " + text_of(std::uint64_t{growth.first} + 1) +
               ", " + text_of(finding.swelling->at_last) + " at the end; nothing else in the program grows with it";
      }
      const Bytes each{finding.bytes.count / std::max(1U, growth.intervals)};
      return text_of(std::uint64_t{growth.intervals}) + " of " + count_of(finding.intervals, unit) + " kept " +
             text_of(each) + " allocated " + place + "; " + fate_of_others(finding, population, unit);
    }
    case LeakVerdict::warm_up:
      return total + " " + place + " was allocated in " + count_of(growth.intervals, unit) + " up to " + unit + " " +
             text_of(std::uint64_t{growth.last} + 1) + " of " + text_of(std::uint64_t{finding.intervals}) +
             "; nothing has been added since";
    case LeakVerdict::sawtooth:
      return total + " " + place + " is freed in batches, so far after at most " + count_of(growth.longest_life, unit);
    case LeakVerdict::cache:
      return total + " " + place + " no longer grows; " + fate_of_others(finding, population, unit);
    case LeakVerdict::unknown_before_attach:
      return total + " was allocated before the recording began";
    case LeakVerdict::unattributed:
      return text_of(finding.bytes) +
             " of the device is not explained by the recording: contexts, code, other processes";
    default:
      return total + " " + place + " " +
             (growth.intervals <= 1 ? "dates from " + unit + " " + text_of(std::uint64_t{growth.first} + 1) + " of " +
                                          text_of(std::uint64_t{finding.intervals})
                                    : "was allocated in " + count_of(growth.intervals, unit)) +
             (population.frees == 0 ? " and stays" : "; " + fate_of_others(finding, population, unit));
  }
}

}  // namespace memreel
