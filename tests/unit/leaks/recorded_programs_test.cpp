// SPDX-License-Identifier: Apache-2.0
// Programs recorded by PyTorch: labelled ones, and all other histories, of which only `leak` leaks.
#include <gtest/gtest.h>

#include "analyzer/analysis/insight/leaks.h"
#include "analyzer/describe/own_frame.h"
#include "formats/import/import.h"
#include "formats/model/stack_text.h"
#include "tests/histories.h"
#include "tests/leak_score.h"

namespace memreel::test {
namespace {

std::vector<LabelledHistory> all_labelled() {
  std::vector<LabelledHistory> all = labelled_histories(source_directory() / "tests" / "data" / "leaks");
  if (const auto directory = history_directory()) {
    for (const char* const folder :
         {"leaks", "asrecorded/leaks/all", "asrecorded/leaks/nomark", "asrecorded/leaks/late", "asrecorded/leaks/ring"})
      for (LabelledHistory& history : labelled_histories(*directory / folder)) {
        history.name = std::string(folder) + "/" + history.name;
        all.push_back(std::move(history));
      }
  }
  return all;
}

TEST(RecordedPrograms, OfLabelledOnesExactlyWhatLeaksIsAccused) {
  const std::vector<LabelledHistory> all = all_labelled();
  ASSERT_GE(all.size(), 20U);
  for (const LabelledHistory& history : all) {
    const Result<Trace> trace = open_any(history.file);
    ASSERT_TRUE(trace) << trace.error().message();
    const LeakScore s = score(*trace, test::leaks_of(*trace), history.truth);
    EXPECT_TRUE(s.holds()) << history.name << ": recall " << s.byte_recall() << ", precision " << s.byte_precision();
    if (!history.truth.empty()) {
      EXPECT_EQ(s.rank, 1U) << history.name;
    }
  }
}

TEST(RecordedPrograms, AreJudgedTheSameWhenTheirEndIsRecorded) {
  for (const LabelledHistory& history : all_labelled()) {
    const Result<Trace> trace = open_any(history.file);
    ASSERT_TRUE(trace) << trace.error().message();
    const LeakReport whole = test::leaks_of(freed_to_the_end(*trace, LastFrees::newest_first));
    EXPECT_EQ(accused_of(whole), accused_of(test::leaks_of(*trace))) << history.name;
  }
}

/// One program leaks, and the ninth of a job's 16 ranks, as its truth.jsonl says; both of its recordings are included.
bool is_known_to_leak(const std::string& name) {
  return name == "leak" || name == "fleet16/rank9" || name == "fleet16/rank09";
}

TEST(RecordedPrograms, OfTheOthersNoneIsAccusedButThoseThatLeak) {
  for (const History& history : histories()) {
    // The larger random ones add nothing to the smaller.
    if (history.name.find("leaks/") != std::string::npos || history.name == "random_2m") continue;
    const Result<Trace> trace = open_any(history.file);
    if (!trace) continue;
    std::string accused;
    for (const LeakFinding& finding : test::leaks_of(*trace).findings) {
      if (accuses(finding.verdict)) accused += finding.evidence + "\n";
    }
    EXPECT_EQ(!accused.empty(), is_known_to_leak(history.name)) << history.name << "\n" << accused;
  }
}

TEST(RecordedPrograms, TheFirstAccusedStackNamesTheLineOfTheCulprit) {
  const auto directory = source_directory() / "tests" / "data" / "leaks";
  for (const auto& [name, function] : std::map<std::string, std::string>{
           {"cache_by_step", "step"}, {"closures", "step"}, {"one_of_many", "scratch"}, {"exceptions", "fails"}}) {
    const Result<Trace> trace = open_any(directory / (name + ".reel"));
    ASSERT_TRUE(trace);
    const LeakReport report = test::leaks_of(*trace);
    ASSERT_FALSE(report.findings.empty());
    const FrameText frame = own_frame(frames_of(trace->tables, report.findings.front().stack));
    EXPECT_EQ(frame.function, function) << name;
    EXPECT_EQ(frame.file, "leak_programs.py") << name;
  }
}

}  // namespace
}  // namespace memreel::test
