// SPDX-License-Identifier: Apache-2.0
// What the first screen says of a trace, and the user's input, in the model's terms.
#include <gtest/gtest.h>

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

TEST(Strip, NamesTheLargestHoldersWithTheirCategoryAndTheirMoment) {
  const Document document;
  Findings findings;
  findings.verdict.decides = Verdict::Decides{.peak_live = 4_GiB, .peak_reserved = 5_GiB};
  findings.verdict.holders = Holders{.by = "category",
                                     .parts = {{"activations", 3_GiB, "forward (model.py:7)"},
                                               {"parameters", 512_MiB, {}},
                                               {"gradients", 256_MiB, {}},
                                               {"inputs", 256_MiB, {}}},
                                     .total = 4_GiB};
  const VerdictStrip strip = verdict_strip(document, findings);
  ASSERT_EQ(strip.holders.size(), VerdictStrip::most_holders);
  EXPECT_EQ(strip.holders[0].text, "activations 3.00 GiB, 75.0 %, most at forward (model.py:7)");
  EXPECT_EQ(strip.holders[0].to.category, Category::activation);
  EXPECT_EQ(strip.holders[1].to.category, Category::parameter);
  EXPECT_EQ(strip.held, 4_GiB);
  EXPECT_EQ(strip.headline.text, "5.00 GiB reserved, 4.00 GiB live");
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
