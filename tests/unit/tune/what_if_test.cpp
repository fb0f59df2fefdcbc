// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/tune/tune.h"

#include <gtest/gtest.h>

#include <array>

#include "analyzer/replay/replay.h"
#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

using testing::History;

/// alloc a, free a, alloc b, free b, each a row, with a step ending after each free.
Prepared two_steps(bool with_calls = false) {
  History history;
  for (int i = 0; i < 2; ++i) {
    history.free(history.alloc(30_MiB));
    if (with_calls) history.empty_cache();
  }
  Prepared heap = history.prepared();
  heap.step_ends = with_calls ? std::vector<std::uint32_t>{2, 5} : std::vector<std::uint32_t>{2, 4};
  return heap;
}

TEST(WhatIf, ReadsItsQuestions) {
  const auto kind_of = [](const char* text) { return parse_what_if(text)->kind; };
  EXPECT_EQ(kind_of("empty_cache@step"), WhatIf::Kind::empty_cache_at_steps);
  EXPECT_EQ(kind_of("empty_cache@oom"), WhatIf::Kind::empty_cache_at_oom);
  EXPECT_EQ(kind_of("no-empty_cache"), WhatIf::Kind::no_empty_cache);
  EXPECT_EQ(kind_of("empty_cache@every:10"), WhatIf::Kind::empty_cache_at_steps);
  EXPECT_EQ(parse_what_if("empty_cache@every:10")->every, 10U);
  EXPECT_EQ(kind_of("empty_cache@every:5000events"), WhatIf::Kind::empty_cache_at_events);
  EXPECT_EQ(parse_what_if("empty_cache@every:5000events")->every, 5000U);
  const auto policy = parse_what_if("fit.best{page=64KiB}");
  EXPECT_EQ(policy->kind, WhatIf::Kind::policy);
  EXPECT_EQ(policy->policy.parameters.at("page"), "64KiB");
}

TEST(WhatIf, RefusesOtherQuestionsAndShowsWhatItKnows) {
  for (const char* text : {"", "empty_cache@", "empty_cache@steps", "empty_cache@every:", "empty_cache@every:0",
                           "empty_cache@every:-1", "empty_cache@every:10apples", "a{", "fit.best,fit.first"}) {
    const auto question = parse_what_if(text);
    ASSERT_FALSE(question) << text;
    EXPECT_NE(question.error().message().find("empty_cache@every:10"), std::string::npos);
  }
}

TEST(WhatIf, CallsGoWhereStepsEnd) {
  const Prepared heap = two_steps();
  const WhatIf each = *parse_what_if("empty_cache@step");
  EXPECT_EQ(rows_of_calls(heap, each), (std::vector<std::uint32_t>{2, 4}));
  EXPECT_EQ(rows_of_calls(heap, *parse_what_if("empty_cache@every:2")), (std::vector<std::uint32_t>{4}));
  EXPECT_TRUE(rows_of_calls(heap, *parse_what_if("empty_cache@every:3")).empty());
  EXPECT_EQ(rows_of_calls(heap, *parse_what_if("empty_cache@every:3events")), (std::vector<std::uint32_t>{3}));

  const Prepared with = with_empty_cache(heap, rows_of_calls(heap, each));
  EXPECT_EQ(with.op, (std::vector<Op>{Op::alloc, Op::free, Op::empty_cache, Op::alloc, Op::free, Op::empty_cache}));
  // A call carries the index of the event that follows; the last one that of the end.
  EXPECT_EQ(with.event[2], heap.event[2]);
  EXPECT_EQ(with.event[5], heap.event[3]);
  // It precedes the end of the step, so it belongs to the step that it cleans up after.
  EXPECT_EQ(with.step_ends, (std::vector<std::uint32_t>{3, 6}));
  EXPECT_EQ(with.slot[3], heap.slot[2]);
  EXPECT_EQ(with.size[3], heap.size[2]);
}

TEST(WhatIf, ACallReleasesWhatTheProgramFreesAfterItsStep) {
  History history;
  const auto activation = history.alloc(30_MiB), gradient = history.alloc(20_MiB);
  history.free(activation);
  history.free(gradient);  // zero_grad(), after the optimizer's step
  history.free(history.alloc(30_MiB));
  Prepared heap = history.prepared();
  heap.step_ends = {3, 6};
  EXPECT_EQ(rows_of_calls(heap, *parse_what_if("empty_cache@step")), (std::vector<std::uint32_t>{4, 6}));
}

TEST(WhatIf, NothingElseOfTheHeapChanges) {
  Prepared heap = two_steps();
  heap.implied_capacity = 1_GiB;
  heap.segments = {{.address = Address{4096}, .size = 2_MiB}};
  heap.settings = {{"a", "b"}};
  for (const Prepared& changed : {with_empty_cache(heap, std::array{2U}), without_empty_cache(heap)}) {
    EXPECT_EQ(changed.heap, heap.heap);
    EXPECT_EQ(changed.device, heap.device);
    EXPECT_EQ(changed.level, heap.level);
    EXPECT_EQ(changed.slot_count, heap.slot_count);
    EXPECT_EQ(changed.pool_streams.size(), heap.pool_streams.size());
    EXPECT_EQ(changed.segments.size(), 1U);
    EXPECT_EQ(changed.settings, heap.settings);
    EXPECT_EQ(changed.implied_capacity, heap.implied_capacity);
  }
}

TEST(WhatIf, RemovingCallsUndoesInsertingThem) {
  const Prepared plain = two_steps(), called = two_steps(true);
  EXPECT_EQ(empty_cache_calls(called), 2U);
  const Prepared removed = without_empty_cache(called);
  EXPECT_EQ(removed.op, plain.op);
  EXPECT_EQ(removed.slot, plain.slot);
  EXPECT_EQ(removed.step_ends, (std::vector<std::uint32_t>{2, 4}));
  EXPECT_EQ(with_empty_cache(removed, std::array{2U, 4U}).op, called.op);
}

TEST(WhatIf, AnInsertedCallDoesWhatARecordedOneDoes) {
  const auto run = [](const Prepared& heap) {
    return replay(std::array{heap}, *parse_policies("torch.native"))->at(0);
  };
  const ReplayResult recorded = run(two_steps(true));
  const ReplayResult inserted = run(with_empty_cache(two_steps(), std::array{2U, 4U}));
  EXPECT_EQ(recorded.driver_calls, inserted.driver_calls);
  EXPECT_EQ(recorded.driver_calls.free, 2U);
  EXPECT_EQ(recorded.end_reserved, 0_B);
  EXPECT_EQ(inserted.end_reserved, 0_B);
}

}  // namespace
}  // namespace memreel
