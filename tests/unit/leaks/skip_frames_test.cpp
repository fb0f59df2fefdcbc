// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/suppressions.h"

#include <gtest/gtest.h>

#include "formats/model/stack_text.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;
using Stacks = std::vector<std::string>;

class SkipFrames : public ::testing::Test {
 protected:
  void alloc(std::initializer_list<std::string_view> frames) {
    build_.alloc(origin_, {0x1000}, 1_MiB, build_.stack(frames));
  }

  /// The stacks of the events, innermost frame first.
  Stacks stacks(const std::vector<std::string>& patterns = {}) {
    sentences_ = skip_frames(build_.trace(), patterns);
    Stacks texts;
    for (const StackId stack : build_.trace().events.stacks()) {
      std::string text;
      for (const FrameText& frame : frames_of(build_.trace().tables, stack))
        text += (text.empty() ? "" : " ") + std::string(frame.function);
      texts.push_back(text);
    }
    return texts;
  }

  TraceBuilder build_;
  OriginId origin_ = build_.origin(build_.heap("pool", Level::framework, 0));
  std::vector<std::string> sentences_;
};

TEST_F(SkipFrames, MemreelsOwnAreNobodysBusiness) {
  alloc({"memreel_one@/usr/include/memreel/memreel.h:187", "memreel_alloc@third_party/memreel.h:206", "take@pool.c:9"});
  alloc({"ffi_call@/usr/lib/x86_64-linux-gnu/libffi.so:1", "_event@/app/memreel.py:146", "alloc@/app/memreel.py:160",
         "step@train.py:4"});
  alloc({"_event@/venv/lib/python3.12/site-packages/memreel/annotate.py:146",
         "alloc@/venv/lib/python3.12/site-packages/memreel/annotate.py:160", "annotate@/app/annotate.py:3"});
  alloc({"grow@vector.h:3", "fill@main.cpp:8"});
  alloc({"ffi_call@/usr/lib/x86_64-linux-gnu/libffi.so:1", "call@/usr/lib/python3.11/ctypes/__init__.py:3",
         "f@main.py:8"});
  EXPECT_EQ(stacks(), (Stacks{"take", "step", "annotate", "grow fill", "ffi_call call f"}));
  EXPECT_TRUE(sentences_.empty());
}

TEST_F(SkipFrames, WhatAFlightRecorderHasSummedUpIsOfTheSamePlaces) {
  // The first pool has a wrapper of the program's, too; one place was seen in the sums only.
  alloc({"_event@/app/memreel.py:146", "take@pool.py:3", "step@train.py:4"});
  alloc({"_event@/app/memreel.py:146", "take@pool.py:3", "load@train.py:9"});
  const HeapId plain = build_.heap("plain", Level::framework, 0);
  const StackId step = build_.trace().events.stack(0);
  const StackId gone = build_.stack({"_event@/app/memreel.py:146", "gone@train.py:7"});
  const HeapId wrapped = build_.trace().tables[origin_].heap;
  build_.trace().folded.rows = {{.heap = wrapped, .stack = step, .frees = 1},
                                {.heap = plain, .stack = gone, .frees = 1}};
  EXPECT_EQ(stacks(), (Stacks{"step", "load"}));
  EXPECT_EQ(build_.trace().folded.rows[0].stack, build_.trace().events.stack(0));
  const auto frames = frames_of(build_.trace().tables, build_.trace().folded.rows[1].stack);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].function, "gone");
}

TEST_F(SkipFrames, AProgramsOwnWrappersByTheirNamesOrFiles) {
  alloc({"Pool::allocate@pool.cpp:3", "make@detail/tensor.h:4", "step@train.cpp:5"});
  alloc({"load@io.cpp:3", "Pool::allocate_now@pool.cpp:30", "main@train.cpp:50"});
  alloc({"Pool::allocate@pool.cpp:3"});
  EXPECT_EQ(stacks({"^Pool::allocate$", "detail/*.h"}),
            (Stacks{"step", "load Pool::allocate_now main", "Pool::allocate"}));
}

TEST_F(SkipFrames, AWrapperThatAllAllocationsGoThroughIsNotWhoAsked) {
  alloc({"operator new@/usr/include/c++/12/new:1", "take@pool.cpp:3", "make@tensor.cpp:4", "forward@model.cpp:5"});
  alloc({"take@pool.cpp:3", "make@tensor.cpp:4", "backward@model.cpp:7"});
  EXPECT_EQ(stacks(), (Stacks{"forward", "backward"}));
  ASSERT_EQ(sentences_.size(), 1U);
  EXPECT_EQ(sentences_[0], "all allocations of pool go through make (tensor.cpp:4): stacks begin at its callers");
}

TEST_F(SkipFrames, WhatSeveralPlacesDoThemselvesStays) {
  alloc({"step@train.py:41", "main@train.py:60"});
  alloc({"step@train.py:42", "main@train.py:60"});
  EXPECT_EQ(stacks(), (Stacks{"step main", "step main"}));
}

TEST_F(SkipFrames, TheOnlyPlaceStays) {
  alloc({"step@train.py:41", "main@train.py:60"});
  alloc({"relu@site-packages/torch/nn/functional.py:99", "step@train.py:41", "main@train.py:60"});
  EXPECT_EQ(stacks(), (Stacks{"step main", "relu step main"}));
}

}  // namespace
}  // namespace memreel
