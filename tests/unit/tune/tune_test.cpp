// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/tune/tune.h"
#include "analyzer/replay/prepare.h"

#include <gtest/gtest.h>

#include <array>

#include "analyzer/replay/policies/torch_spec.h"
#include "analyzer/replay/tune/search_space.h"
#include "tests/bench/synthetic.h"
#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

using testing::History;

TuneResult tuned(std::span<const Prepared> heaps, const TuneOptions& options = {}) {
  auto result = tune(heaps, spec_of(TorchSettings{}), options);
  EXPECT_TRUE(result) << (result ? "" : result.error().message());
  return *std::move(result);
}

/// Growing batches: without expandable segments none fits where the previous one was.
Prepared growing_batches() {
  History history;
  for (std::uint64_t mib = 100; mib <= 800; mib += 50) {
    const auto a = history.alloc(1_MiB * mib);
    const auto b = history.alloc(1_MiB * mib);
    history.free(a);
    history.free(b);
  }
  return history.prepared();
}

TEST(Tune, FindsWhatHelps) {
  const std::array heaps{growing_batches()};
  const TuneResult result = tuned(heaps);
  const Outcome* const best = result.recommended();
  ASSERT_NE(best, nullptr);
  EXPECT_EQ(conf_of(best->policy), "expandable_segments:True");
  EXPECT_LE(best->peak_reserved(), 1640_MiB);
  EXPECT_GT(result.baseline.peak_reserved(), 3_GiB);
  EXPECT_NE(verdict(result).find("saves"), std::string::npos);
}

TEST(Tune, SaysWhenEverythingIsLive) {
  History history;
  for (int i = 0; i < 10; ++i) history.alloc(100_MiB);
  const std::array heaps{history.prepared()};
  const TuneResult result = tuned(heaps);
  EXPECT_EQ(result.recommended(), nullptr);
  EXPECT_NE(verdict(result).find("100.0 % of the peak is live"), std::string::npos) << verdict(result);
  for (const Outcome& outcome : result.settings) EXPECT_LE(outcome.changes, 1U) << "combinations can't be better";
}

TEST(Tune, WhatItRecommendsIsWhatAPlainReplaySays) {
  const std::array heaps{prepare(synthetic_trace({.events = 30'000, .live = 300, .streams = 2})).at(0)};
  const TuneResult result = tuned(heaps);
  for (const Outcome& outcome : result.settings) {
    const auto plain = replay(heaps, std::span(&outcome.policy, 1));
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->at(0).peak_reserved, outcome.peak_reserved()) << outcome.policy.text();
    EXPECT_EQ(plain->at(0).driver_calls, outcome.driver_calls()) << outcome.policy.text();
    EXPECT_FALSE(outcome.gave_up());
  }
}

TEST(Tune, NothingIsGivenUpThatCouldHaveWon) {
  const std::array heaps{prepare(synthetic_trace({.events = 30'000, .live = 300, .streams = 2, .seed = 5})).at(0)};
  const TuneResult result = tuned(heaps);
  const auto space = search_space(heaps, result.baseline.policy, false);
  const double least = static_cast<double>(result.settings.front().peak_reserved().count);
  // Any combination of two settings that is better was in the search, or is not better by the margin.
  for (const PolicySpec& spec : single_changes(result.baseline.policy, space)) {
    const auto plain = replay(heaps, std::span(&spec, 1));
    EXPECT_GE(static_cast<double>(plain->at(0).peak_reserved.count), least * (1 - peak_margin)) << spec.text();
  }
  EXPECT_GT(result.tried, 0U);
}

TEST(Tune, IsTheSameOnOneThreadAndOnMany) {
  const std::array heaps{prepare(synthetic_trace({.events = 20'000, .live = 300, .streams = 2})).at(0)};
  const TuneResult one = tuned(heaps, {.threads = 1}), many = tuned(heaps, {.threads = 4});
  ASSERT_EQ(one.settings.size(), many.settings.size());
  for (std::size_t i = 0; i < one.settings.size(); ++i) EXPECT_EQ(one.settings[i].policy, many.settings[i].policy);
  EXPECT_EQ(one.given_up, many.given_up);
}

TEST(Tune, WithACapacityItLooksForWhatSurvives) {
  const std::array heaps{growing_batches()};
  // At most 1600 MiB are live; the last of them can't be allocated in pieces.
  const TuneOptions options{.device = DeviceModel{.kind = DeviceModel::Kind::capacity, .capacity = 1700_MiB}};
  const TuneResult result = tuned(heaps, options);
  EXPECT_TRUE(result.limited);
  EXPECT_EQ(result.baseline.failures(), 0U) << "it gives back what it cached and tries again";
  EXPECT_EQ(result.recommended(), nullptr);
  EXPECT_EQ(verdict(result), "Nothing needs to be set: the settings in use serve every request.");
  ASSERT_TRUE(result.baseline.min_capacity);
  EXPECT_LE(*result.baseline.min_capacity, 1700_MiB);
}

/// Large blocks that are kept whole take most memory where it is plentiful, and least where it is not.
TEST(Tune, WithACapacityItTellsWhatFitsInLess) {
  History history;
  for (std::uint64_t mib = 1000; mib >= 400; mib -= 100) history.free(history.alloc(1_MiB * mib));
  history.alloc(300_MiB);  // stays, in the first of them unless that is kept whole
  history.alloc(1000_MiB);
  const std::array heaps{history.prepared()};
  const TuneResult result =
      tuned(heaps, {.device = DeviceModel{.kind = DeviceModel::Kind::capacity, .capacity = 2100_MiB}});
  EXPECT_EQ(result.baseline.failures(), 0U);
  EXPECT_GE(*result.baseline.min_capacity, 2000_MiB);
  const auto whole = std::ranges::find_if(result.settings, [](const Outcome& outcome) {
    return outcome.changes == 1 && conf_of(outcome.policy).starts_with("max_split_size_mb");
  });
  ASSERT_NE(whole, result.settings.end());
  ASSERT_TRUE(whole->min_capacity);
  EXPECT_LE(*whole->min_capacity, 1500_MiB);
  ASSERT_NE(result.fits_in_less(), nullptr);
  EXPECT_LE(*result.fits_in_less()->min_capacity, *whole->min_capacity);
  EXPECT_NE(verdict(result).find(" With less memory: "), std::string::npos) << verdict(result);
}

/// A replay ends where the recording does, and says nothing of what would have followed.
TEST(Tune, OfARecordingThatEndsInAFailureItsRequestsAreServed) {
  std::array heaps{growing_batches()};
  Prepared& heap = heaps.front();
  const auto last = std::find(heap.op.rbegin(), heap.op.rend(), Op::alloc).base() - 1;
  heap.op.resize(static_cast<std::size_t>(last - heap.op.begin()) + 1);
  heap.op.back() = Op::alloc_failed;
  for (auto* const column : {&heap.slot, &heap.pool_stream, &heap.event}) column->resize(heap.op.size());
  heap.size.resize(heap.op.size());
  const TuneResult result =
      tuned(heaps, {.device = DeviceModel{.kind = DeviceModel::Kind::capacity, .capacity = 4_GiB}});
  EXPECT_TRUE(result.ends_in_failure);
  EXPECT_EQ(
      verdict(result),
      "Nothing needs to be set: the settings in use serve every request of the recording. The recording ends in a "
      "failed request: whether the rest of its step fits is another question (memreel report --oom).");
}

TEST(Tune, NoSettingFitsWhatTheProgramItselfDoesNot) {
  const std::array heaps{growing_batches()};
  const TuneOptions options{.device = DeviceModel{.kind = DeviceModel::Kind::capacity, .capacity = 1_GiB}};
  const TuneResult result = tuned(heaps, options);
  EXPECT_EQ(result.recommended(), nullptr);
  EXPECT_NE(verdict(result).find("whatever the allocator"), std::string::npos) << verdict(result);
}

/// Two cached segments are each partly used, so neither can be released; expandable segments merge the free parts.
TEST(Tune, RecommendsWhatSurvivesWhereTheSettingsInUseFail) {
  History history;
  const auto a = history.alloc(40_MiB);
  const auto b = history.alloc(40_MiB);
  history.free(a);
  history.free(b);
  history.alloc(22_MiB);
  history.alloc(22_MiB);
  history.alloc(70_MiB);
  const std::array heaps{history.prepared()};
  const TuneOptions options{.device = DeviceModel{.kind = DeviceModel::Kind::capacity, .capacity = 140_MiB}};
  const TuneResult result = tuned(heaps, options);
  EXPECT_GT(result.baseline.failures(), 0U);
  const Outcome* const best = result.recommended();
  ASSERT_NE(best, nullptr) << verdict(result);
  EXPECT_EQ(best->failures(), 0U);
  EXPECT_LE(*best->min_capacity, 140_MiB);
}

TEST(Tune, SeveralDevicesGetOneSettingForTheWorst) {
  std::array heaps{growing_batches(), growing_batches()};
  heaps[1].device = 1;
  const TuneResult result = tuned(heaps);
  ASSERT_NE(result.recommended(), nullptr);
  EXPECT_EQ(result.recommended()->heaps.size(), 2U);
  EXPECT_EQ(result.recommended()->driver_calls().map, 2 * result.recommended()->heaps[0].driver_calls.map);
}

TEST(Tune, HeapsOfADeviceShareItsCapacityIfTheyAreSaidTo) {
  std::array heaps{growing_batches(), growing_batches()};
  TuneOptions options{.device = DeviceModel{.kind = DeviceModel::Kind::capacity, .capacity = 1700_MiB}};
  EXPECT_EQ(tuned(heaps, options).baseline.failures(), 0U) << "each has it for itself";
  options.around = Surroundings{};
  const TuneResult both = tuned(heaps, options);
  EXPECT_GT(both.baseline.failures(), 0U);
  ASSERT_TRUE(both.baseline.min_capacity);
  options.device->capacity = *both.baseline.min_capacity;
  EXPECT_EQ(tuned(heaps, options).baseline.failures(), 0U);
  heaps[1].device = 1;
  options.device->capacity = 1700_MiB;
  EXPECT_EQ(tuned(heaps, options).baseline.failures(), 0U);
}

TEST(Tune, ComparesAllocatorsAndAnswersQuestions) {
  const std::array heaps{growing_batches()};
  TuneOptions options{.allocators = *parse_policies("fit.best,cuda.malloc")};
  options.questions = {*parse_what_if("empty_cache@every:10events"), *parse_what_if("fit.first"),
                       *parse_what_if("no-empty_cache")};
  const TuneResult result = tuned(heaps, options);
  ASSERT_EQ(result.allocators.size(), 2U);
  ASSERT_EQ(result.alternatives.size(), 3U);
  EXPECT_EQ(result.alternatives[0].calls, heaps[0].count() / 10);
  EXPECT_LT(result.alternatives[0].outcome.peak_reserved(), result.baseline.peak_reserved());
  EXPECT_EQ(result.alternatives[1].outcome.policy.name, "fit.first");
  EXPECT_EQ(result.alternatives[2].calls, 0U);
  EXPECT_EQ(result.alternatives[2].outcome.peak_reserved(), result.baseline.peak_reserved());
}

TEST(Tune, SaysWhatTheCallsOfEmptyCacheCostThatTheProgramMakes) {
  History history;
  for (int i = 0; i < 5; ++i) {
    history.free(history.alloc(40_MiB));
    history.empty_cache();
  }
  const std::array heaps{history.prepared()};
  const TuneResult result = tuned(heaps, {.questions = {*parse_what_if("no-empty_cache")}});
  const DriverCalls with = result.baseline.driver_calls(), without = result.alternatives[0].outcome.driver_calls();
  EXPECT_EQ(with.malloc, 5U);
  EXPECT_EQ(with.free, 5U);
  EXPECT_EQ(without.malloc, 1U);
  EXPECT_EQ(without.free, 0U);
  EXPECT_LT(result.alternatives[0].outcome.driver_seconds(), result.baseline.driver_seconds());
  EXPECT_EQ(result.alternatives[0].outcome.peak_reserved(), result.baseline.peak_reserved());
}

TEST(Tune, OtherAllocatorsHaveNoSettingsToSearch) {
  const std::array heaps{growing_batches()};
  const auto result = tune(heaps, {.name = "fit.best", .parameters = {}}, {});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->tried, 0U);
  EXPECT_EQ(verdict(*result), "");
}

TEST(Tune, CallingEmptyCacheBeforeAFailureHelpsThoseThatDoNotThemselves) {
  History history;
  const auto a = history.alloc(40_MiB);
  history.free(a);
  history.alloc(60_MiB);
  const std::array heaps{history.prepared()};
  TuneOptions options{.device = DeviceModel{.kind = DeviceModel::Kind::capacity, .capacity = 64_MiB}};
  options.questions = {*parse_what_if("empty_cache@oom")};
  const TuneResult torch = tuned(heaps, options);
  EXPECT_EQ(torch.baseline.failures(), 0U);
  EXPECT_EQ(torch.alternatives[0].outcome.driver_calls(), torch.baseline.driver_calls());
}

TEST(Tune, StepsThatTheTraceDoesNotMarkAreAnError) {
  const std::array heaps{growing_batches()};
  const auto result = tune(heaps, spec_of(TorchSettings{}), {.questions = {*parse_what_if("empty_cache@step")}});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("empty_cache@every:5000events"), std::string::npos);
}

TEST(Tune, UnknownPoliciesAreErrors) {
  const std::array heaps{growing_batches()};
  EXPECT_FALSE(tune(heaps, spec_of(TorchSettings{}), {.allocators = *parse_policies("nosuch")}));
  EXPECT_FALSE(tune(heaps, {.name = "nosuch", .parameters = {}}, {}));
  EXPECT_FALSE(tune(heaps, spec_of(TorchSettings{}), {.questions = {*parse_what_if("fit.best{nosuch=1}")}}));
}

TEST(Tune, ProgressEndsWhereItSaidItWould) {
  const std::array heaps{growing_batches()};
  std::uint64_t last = 0, total = 0;
  TuneOptions options;
  options.on_progress = [&](std::uint64_t done, std::uint64_t of) {
    EXPECT_EQ(done, last + 1);
    last = done;
    total = of;
  };
  (void)tuned(heaps, options);
  EXPECT_EQ(last, total);
}

}  // namespace
}  // namespace memreel
