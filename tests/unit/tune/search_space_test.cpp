// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/tune/search_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "analyzer/replay/policies/torch_spec.h"
#include "analyzer/replay/registry.h"
#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

using testing::History;

PolicySpec defaults() { return spec_of(TorchSettings{}); }

Prepared program_of(std::initializer_list<Bytes> sizes) {
  History history;
  for (const Bytes size : sizes) history.free(history.alloc(size));
  return history.prepared();
}

const std::vector<std::string>* values(const std::vector<Dimension>& space, const std::string& parameter) {
  const auto found = std::ranges::find(space, parameter, &Dimension::parameter);
  return found == space.end() ? nullptr : &found->values;
}

bool has(const std::vector<std::string>& list, const std::string& value) {
  return std::ranges::find(list, value) != list.end();
}

TEST(SearchSpace, ThresholdsComeFromTheProgramsSizes) {
  const std::array heaps{program_of({3_MiB, 45_MiB, 300_MiB, 700_MiB})};
  const auto space = search_space(heaps, defaults(), false);
  const auto* thresholds = values(space, "max_split_size_mb");
  ASSERT_NE(thresholds, nullptr);
  for (const char* own : {"45", "300", "700"}) EXPECT_TRUE(has(*thresholds, own)) << own;
  for (const char* round : {"64", "128", "256", "512"}) EXPECT_TRUE(has(*thresholds, round)) << round;
  EXPECT_FALSE(has(*thresholds, "1024")) << "nothing is that large";
  EXPECT_FALSE(has(*thresholds, "3")) << "PyTorch refuses less than 20";
}

TEST(SearchSpace, LeavesOutWhatCanMakeNoDifference) {
  const std::array small{program_of({1_KiB, 512_KiB})};
  const auto space = search_space(small, defaults(), false);
  EXPECT_EQ(values(space, "max_split_size_mb"), nullptr);
  EXPECT_EQ(values(space, "large_segment_size_mb"), nullptr) << "no request shares a large segment";
  EXPECT_EQ(values(space, "garbage_collection_threshold"), nullptr) << "there is no limit";
  EXPECT_NE(values(search_space(small, defaults(), true), "garbage_collection_threshold"), nullptr);
  const std::array medium{program_of({5_MiB})};
  EXPECT_NE(values(search_space(medium, defaults(), false), "large_segment_size_mb"), nullptr);
}

TEST(SearchSpace, UndoesWhatTheProgramWasRunWith) {
  PolicySpec baseline = defaults();
  baseline.parameters["max_split_size_mb"] = "128";
  baseline.parameters["expandable_segments"] = "True";
  const std::array heaps{program_of({300_MiB})};
  const auto space = search_space(heaps, baseline, false);
  EXPECT_EQ(values(space, "max_split_size_mb")->front(), "unlimited");
  EXPECT_FALSE(has(*values(space, "max_split_size_mb"), "128"));
  EXPECT_EQ(*values(space, "expandable_segments"), std::vector<std::string>{"False"});
}

TEST(SearchSpace, EveryCandidateIsOneThatThePolicyTakes) {
  const std::array heaps{program_of({3_MiB, 45_MiB, 300_MiB, 700_MiB, 40_GiB})};
  const auto space = search_space(heaps, defaults(), true);
  auto specs = single_changes(defaults(), space);
  const auto combined = combined_changes(defaults(), std::span(space).first(2));
  specs.insert(specs.end(), combined.begin(), combined.end());
  for (const PolicySpec& spec : specs) {
    const auto bound = bind_policy(spec);
    EXPECT_TRUE(bound) << spec.text() << ": " << (bound ? "" : bound.error().message());
  }
}

TEST(SearchSpace, SinglesChangeOneAndCombinationsSeveral) {
  const std::array<Dimension, 3> dimensions{
      {{"expandable_segments", {"True"}}, {"max_split_size_mb", {"64", "128"}}, {"large_segment_size_mb", {"64"}}}};
  const auto singles = single_changes(defaults(), dimensions);
  EXPECT_EQ(singles.size(), 4U);
  for (const PolicySpec& spec : singles) EXPECT_EQ(changes(defaults(), spec), 1U);
  const auto combined = combined_changes(defaults(), dimensions);
  EXPECT_EQ(combined.size(), 2U * 3U * 2U - 1 - 4);
  for (const PolicySpec& spec : combined) EXPECT_GE(changes(defaults(), spec), 2U);
}

TEST(Conf, IsWhatTheVariableTakes) {
  EXPECT_EQ(conf_of(defaults()), "");
  PolicySpec spec = defaults();
  spec.parameters["max_split_size_mb"] = "128";
  spec.parameters["expandable_segments"] = "True";
  EXPECT_EQ(conf_of(spec), "expandable_segments:True,max_split_size_mb:128");
  EXPECT_EQ(export_line(conf_of(spec)),
            "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:128");
}

TEST(Conf, TablesAreShortMeanTheSameAndAreQuoted) {
  for (const char* table : {"[256:1,512:2,1024:4,>:8]", "[64:1,128:4,>:4]", "[8:1,16:8,>:8]", "[1:2,4:8,32768:16]"}) {
    PolicySpec asked = defaults();
    asked.parameters["roundup_power2_divisions"] = table;
    const PolicySpec resolved = bind_policy(asked)->spec;  // a value for each size
    const std::string conf = conf_of(resolved);
    PolicySpec again = defaults();
    again.parameters["roundup_power2_divisions"] = conf.substr(conf.find(':') + 1);
    EXPECT_EQ(bind_policy(again)->spec, resolved) << conf;
    EXPECT_EQ(export_line(conf), "export PYTORCH_CUDA_ALLOC_CONF='" + conf + "'");
  }
  PolicySpec asked = defaults();
  asked.parameters["roundup_power2_divisions"] = "[64:1,128:4,>:4]";
  EXPECT_EQ(conf_of(bind_policy(asked)->spec), "roundup_power2_divisions:[64:1,>:4]");
}

TEST(Conf, SaysWhichReleaseItNeeds) {
  PolicySpec spec = defaults();
  EXPECT_EQ(needs_release(spec), "");
  spec.parameters["max_non_split_rounding_mb"] = "100";
  EXPECT_EQ(needs_release(spec), "2.6");
  spec.parameters["large_segment_size_mb"] = "64";
  EXPECT_EQ(needs_release(spec), "2.11");
}

// Programs that don't say which release they ran on are judged by the rules of the default.
TEST(Conf, AReleaseThatTheProgramStatedHasItsSettings) {
  const PolicySpec large_segments = spec_of({.large_segment = 32_MiB});
  ASSERT_EQ(needs_release(large_segments), TorchRelease{}.text());
  EXPECT_FALSE(is_widely_usable(large_segments, defaults(), false));
  EXPECT_TRUE(is_widely_usable(large_segments, defaults(), true));
  const PolicySpec older = spec_of({.large_segment = 32_MiB, .release = {TorchRelease{}.minor - 1}});
  EXPECT_FALSE(is_widely_usable(older, defaults(), true));
}

}  // namespace
}  // namespace memreel
