// SPDX-License-Identifier: Apache-2.0
// What the first screen says of a trace, and the user's input, in the model's terms.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/sample_trace.h"
#include "tests/unit/viewer/opened.h"
#include "viewer/model/findings.h"
#include "viewer/model/labels.h"
#include "viewer/model/typed_input.h"
#include "viewer/model/verdict_strip.h"

namespace memreel::viewer {
namespace {

TEST(Decisions, FailuresComeBeforeLeaksAndLeaksBeforeFragmentation) {
  Verdict verdict;
  EXPECT_EQ(decision_of(verdict), Decision::peak);
  verdict.decides = Verdict::Decides{};
  verdict.fragmentation = Verdict::Fragments{.share = 0.3};
  verdict.setting =
      Verdict::Setting{.is_torch = true, .text = "expandable_segments:True", .peak = 97_MiB, .saved = 3_MiB};
  EXPECT_EQ(decision_of(verdict), Decision::peak) << "three percent decide nothing";
  verdict.setting->saved = 10_MiB;
  EXPECT_EQ(decision_of(verdict), Decision::fragmentation);
  verdict.leaks = Verdict::Leaks{.steps = 10, .bytes = 1_KiB};
  EXPECT_EQ(decision_of(verdict), Decision::leak);
  verdict.decides->failed = 1;
  EXPECT_EQ(decision_of(verdict), Decision::out_of_memory);
}

TEST(Strip, OneInstantHasNoPeak) {
  Findings findings;
  findings.verdict.is_instant = true;
  findings.verdict.decides = Verdict::Decides{.peak_live = 4_GiB, .peak_reserved = 5_GiB};
  findings.verdict.holders = Holders{.by = "category", .parts = {{"activations", 4_GiB, {}}}, .total = 4_GiB};
  const VerdictStrip instant = verdict_strip(Document(), findings);
  EXPECT_EQ(name_of(instant.decides), "instant");
  EXPECT_EQ(instant.headline.text, "5.00 GiB reserved, 4.00 GiB live");
  EXPECT_EQ(instant.held_text, "4.00 GiB live:");
  findings.verdict.is_instant = false;
  const VerdictStrip peak = verdict_strip(Document(), findings);
  EXPECT_EQ(name_of(peak.decides), "peak");
  EXPECT_EQ(peak.held_text, "4.00 GiB live at the peak:");
}

TEST(Strip, NamesTheLargestHoldersWithTheirCategoryAndTheirMoment) {
  const Document document;
  Findings findings;
  findings.verdict.decides = Verdict::Decides{.peak_live = 4_GiB, .peak_reserved = 5_GiB};
  findings.verdict.holders = Holders{.by = "category",
                                     .parts = {{"activations", 3_GiB, "forward (model.py:7)"},
                                               {"parameters", 512_MiB, std::string(preexisting_frame), true},
                                               {"gradients", 256_MiB, {}},
                                               {"inputs", 256_MiB, {}}},
                                     .total = 4_GiB};
  const VerdictStrip strip = verdict_strip(document, findings);
  ASSERT_EQ(strip.holders.size(), VerdictStrip::most_holders);
  EXPECT_EQ(strip.holders[0].text, "activations 3.00 GiB, 75.0 %, most at forward (model.py:7)");
  EXPECT_EQ(strip.holders[0].to.category, Category::activation);
  EXPECT_EQ(strip.holders[1].to.category, Category::parameter);
  EXPECT_EQ(strip.holders[1].text, "parameters 512.00 MiB, 12.5 % (by their sizes)")
      << "as a report says, and no place";
  EXPECT_EQ(strip.holders[1].brief, strip.holders[1].text);
  EXPECT_EQ(strip.held, 4_GiB);
  EXPECT_EQ(strip.headline.text, "5.00 GiB reserved, 4.00 GiB live");
}

/// Everything that a strip says beside its holders.
std::vector<std::string> texts_of(const VerdictStrip& strip) {
  std::vector<std::string> texts{strip.headline.text};
  for (const VerdictItem& item : strip.others) texts.push_back(item.text);
  if (strip.offer) texts.push_back(strip.offer->item.text);
  if (strip.no_offer) texts.push_back(strip.no_offer->text);
  return texts;
}

/// Of a heap whose earlier code left `releasable` cached.
Verdict verdict_with_cache(Bytes releasable) {
  Verdict verdict;
  verdict.decides = Verdict::Decides{.peak_live = 9_GiB, .peak_reserved = 10_GiB};
  verdict.fragmentation = Verdict::Fragments{.reserved = 10_GiB,
                                             .allocated = 9_GiB,
                                             .requested = 9_GiB,
                                             .cached = 1_GiB,
                                             .share = 0.1,
                                             .inherited = true,
                                             .most_used = 9_GiB,
                                             .releasable = releasable};
  return verdict;
}

TEST(Strip, HasEveryLineThatAReportOpensWith) {
  const Verdict::Setting setting{
      .is_torch = true, .text = "a:1", .change = "a:1", .peak = 9_GiB, .saved = 1_GiB, .tried = 3};
  std::vector<Verdict> verdicts{verdict_with_cache(800_MiB), verdict_with_cache(800_MiB), verdict_with_cache(0_B),
                                verdict_with_cache(0_B), verdict_with_cache(0_B)};
  verdicts[0].is_instant = true;  // gives back, without any setting
  verdicts[1].setting = setting;  // no setting is better than giving back what earlier code left
  verdicts[2].setting = setting;
  verdicts[3].setting = Verdict::Setting{.is_torch = true, .peak = 10_GiB, .tried = 7};
  // More lines than fit, so that the one on fragmentation, which decides, is left out.
  verdicts[4].setting = setting;
  verdicts[4].fragmentation->inherited = false;
  verdicts[4].holders = Holders{.by = "category",
                                .parts = {{"activations", 9_GiB, {}}},
                                .total = 9_GiB,
                                .graphs = {.running = 2_GiB, .earlier = 2_GiB}};
  verdicts[4].others = {{.device = 1, .live = 1_GiB}};
  verdicts.push_back(verdicts[2]);
  verdicts.back().device = Verdict::Device{.held = 14_GiB, .parts = {{"NCCL", 3_GiB, {}}, {"PyTorch", 10_GiB, {}}}};
  verdicts.back().holders = verdicts[4].holders;

  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    Findings findings;
    findings.verdict = verdicts[i];
    const VerdictStrip strip = verdict_strip(Document(), findings);
    const std::vector<std::string> texts = texts_of(strip);
    EXPECT_FALSE(strip.headline.text.empty()) << i;
    for (const VerdictLine& line : lines_of(verdicts[i])) {
      const bool are_holders = line.topic == "held by" && !verdicts[i].device;
      EXPECT_TRUE(are_holders ||
                  std::ranges::any_of(texts, [&](const std::string& text) { return text.starts_with(line.text); }))
          << i << ": " << line.topic << ' ' << line.text;
    }
  }
}

TEST(Strip, PeaksWithASettingDoNotContradictItsEffect) {
  Findings findings;
  findings.verdict = verdict_with_cache(0_B);
  findings.remedies.baseline_peak = 10_GiB;
  findings.verdict.setting = Verdict::Setting{
      .is_torch = true, .text = "a:1", .change = "a:1", .peak = 9_GiB, .saved = 1_GiB, .tried = 3, .exact = true};
  Verdict::Setting& setting = *findings.verdict.setting;
  const auto text = [&] { return verdict_strip(Document(), findings).offer->item.text; };
  EXPECT_EQ(text(), "a:1 saves 1.00 GiB (10 %), exact replay; reserved peak 10.00 GiB \u2192 9.00 GiB");
  findings.remedies.baseline_peak = 9984_MiB;  // which is not what the line above says
  setting.saved = 768_MiB;
  setting.exact = false;
  EXPECT_EQ(text(), "a:1 saves 768.00 MiB (7.7 %), by replay; replayed peak 9.75 GiB \u2192 9.00 GiB");
  setting.late_range = {768 << 20, 1 << 30};
  EXPECT_EQ(text(), "a:1 saves 768.00 MiB to 1.00 GiB, recorded late") << "one end is not the answer";
  setting.late_range.reset();
  findings.verdict.decides->failed = setting.failed_before = 48;
  setting.failed = 34;
  EXPECT_EQ(text(), "a:1: 34 fail instead of 48, by replay");
}

TEST(Policies, SettingsAreTakenAsTheyArePasted) {
  EXPECT_EQ(as_policies("max_split_size_mb:300"), "torch.native{max_split_size_mb:300}");
  EXPECT_EQ(as_policies("export PYTORCH_CUDA_ALLOC_CONF='roundup_power2_divisions:[256:1,>:8],max_split_size_mb:90'"),
            "torch.native{roundup_power2_divisions:[256:1,>:8],max_split_size_mb:90}");
  EXPECT_EQ(as_policies(" PYTORCH_ALLOC_CONF=expandable_segments:True\n"), "torch.native{expandable_segments:True}");
  EXPECT_EQ(as_policies("max_split_size_mb:300,cuda.malloc"), "torch.native{max_split_size_mb:300},cuda.malloc");
  for (const char* const list : {"torch.native{max_split_size_mb=128},fit.best", "bound.live", "torch.native{a:b}"})
    EXPECT_EQ(as_policies(list), list);
  EXPECT_EQ(as_policies("fit.best,"), "fit.best,") << "what is wrong stays wrong, and is told so";
}

TEST(StackLines, NativeFramesWithoutNamesArePlacesInModules) {
  Tables tables;
  const auto string = [&](const char* text) {
    tables.strings.emplace_back(text);
    return StringId{static_cast<std::uint32_t>(tables.strings.size() - 1)};
  };
  tables.modules.push_back({.path = string("/opt/lib/libwork.so.2"), .build_id = {}});
  tables.frames.push_back({.module = ModuleId{1}, .module_offset = 0x1234});
  tables.frames.push_back({.function = string("step"), .file = string("/job/train.py"), .line = 7});
  tables.stacks.push_back({.frame = FrameId{2}, .caller = StackId::none});
  tables.stacks.push_back({.frame = FrameId{1}, .caller = StackId{1}});
  const std::vector<StackLine> lines = stack_lines(tables, StackId{2});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].name, "libwork.so.2+0x1234");
  EXPECT_TRUE(lines[0].unnamed);
  EXPECT_EQ(copied_stack(lines), "libwork.so.2+0x1234\nstep (/job/train.py:7)\n");
}

}  // namespace
}  // namespace memreel::viewer
