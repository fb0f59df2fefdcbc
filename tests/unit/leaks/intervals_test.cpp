#include "analyzer/insight/intervals.h"

#include <gtest/gtest.h>

#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

class RoundsOfATrace : public ::testing::Test {
 protected:
  void alloc(StackId stack, Bytes size = 512_B) { build_.free(build_.alloc(origin_, {next_ += 512}, size, stack)); }
  void mark(const std::string& name) {
    Tables& tables = build_.trace().tables;
    tables.strings.push_back(name);
    tables.marks.push_back(
        {.name = StringId{static_cast<std::uint32_t>(tables.strings.size() - 1)}, .phase = MarkPhase::end});
    build_.push({.kind = EventKind::mark, .origin = origin_, .value = tables.marks.size() - 1});
  }
  Intervals intervals() { return find_intervals(build_.trace(), HeapId{1}); }

  TraceBuilder build_;
  OriginId origin_ = build_.origin(HeapId{1});
  StackId load_ = build_.stack({"load@train.py:10"});
  StackId layer_ = build_.stack({"forward@site-packages/torch/nn/linear.py:1", "step@train.py:11"});
  StackId loss_ = build_.stack({"loss@train.py:12"});
  std::uint64_t next_ = 4096;
};

TEST_F(RoundsOfATrace, MarksOfStepsComeFirst) {
  for (int i = 0; i < 9; ++i) {
    alloc(load_);
    alloc(loss_);
    mark("step");
  }
  EXPECT_EQ(intervals().source, IntervalSource::marks);
  EXPECT_EQ(intervals().count(), 9U);
  EXPECT_EQ(text_of(intervals()), "9 steps, from the marks \"step\"");
}

TEST_F(RoundsOfATrace, AFewMarksAreTooFew) {
  for (int i = 0; i < 40; ++i) {
    alloc(load_);
    alloc(layer_);
    alloc(loss_);
    if (i % 10 == 0) mark("step");
  }
  EXPECT_EQ(intervals().source, IntervalSource::repetition);
  EXPECT_EQ(intervals().count(), 40U);
}

TEST_F(RoundsOfATrace, TheOutermostLoopIsFoundByItsRepetition) {
  for (int i = 0; i < 30; ++i) {
    alloc(load_);
    for (int k = 0; k < 4; ++k) {
      alloc(layer_);
      alloc(layer_);
    }
    alloc(loss_);
  }
  const Intervals found = intervals();
  EXPECT_EQ(found.source, IntervalSource::repetition);
  EXPECT_EQ(found.count(), 30U);
  EXPECT_EQ(found.name, "train.py:10");
  EXPECT_TRUE(found.last_is_open);
  EXPECT_EQ(text_of(found), "30 steps, found by allocations that repeat (each starts at train.py:10)");
}

TEST_F(RoundsOfATrace, WithoutStacksSizesRepeat) {
  for (int i = 0; i < 20; ++i) {
    for (const Bytes size : {7000_B, 512_B, 512_B, 9000_B}) alloc(StackId::none, size);
  }
  EXPECT_EQ(intervals().source, IntervalSource::repetition);
  EXPECT_EQ(intervals().count(), 20U);
  EXPECT_EQ(intervals().name, "");
}

TEST_F(RoundsOfATrace, WhatDoesNotRepeatIsCutIntoIntervals) {
  for (std::uint64_t i = 0; i < 1000; ++i) alloc(load_, Bytes{1 + i * i});
  EXPECT_EQ(intervals().source, IntervalSource::allocations);
  EXPECT_EQ(intervals().count(), 64U);
  EXPECT_STREQ(intervals().unit(), "interval");
}

TEST_F(RoundsOfATrace, TooLittleIsNotCut) {
  for (int i = 0; i < 5; ++i) alloc(load_);
  EXPECT_EQ(intervals().source, IntervalSource::none);
  EXPECT_EQ(intervals().count(), 0U);
}

}  // namespace
}  // namespace memreel
