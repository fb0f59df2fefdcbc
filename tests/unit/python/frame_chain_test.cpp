// SPDX-License-Identifier: Apache-2.0
// A chain of fake frames, followed repeatedly, compared with the same frames read afresh each time.
#include "collector/python/frame_chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace memreel::python {
namespace {

using stacks::FrameKey;
using stacks::PythonFrame;

struct Frame {
  Frame* caller = nullptr;
  std::uint32_t code = 1, position = 0;
  bool is_shim = false, is_shown = true, has_version = true;
  std::uint64_t self = 0;  // 0: none
};

/// Reads Frames and counts the reads.
class Reader {
 public:
  static Frame at(const void* frame) { return *static_cast<const Frame*>(frame); }
  /// Here a frame's code tells whether the frame is shown.
  static std::uint32_t version_of(const Frame& frame) {
    return 4 * frame.code + (frame.is_shown ? 1 : 0) + (frame.is_shim ? 2 : 0);
  }

  const void* read(const void* frame, FrameChain::Seen& seen, FrameChain::Meaning& meaning) {
    ++reads;
    const Frame now = at(frame);
    seen = {.frame = frame, .instruction = now.position, .version = now.has_version ? version_of(now) : 0};
    meaning = {.has_self = now.self != 0};
    if (now.is_shim)
      meaning.is_entry = true;
    else if (now.is_shown)
      meaning.key = FrameKey::python(now.code, now.position);
    return now.caller;
  }
  static auto comparison() {
    return [](const FrameChain::Seen& seen, const void* frame, const void* caller) {
      const Frame now = at(frame);
      return now.caller == caller && now.has_version && version_of(now) == seen.version &&
             now.position == seen.instruction;
    };
  }
  static const void* self_at(const void* frame) { return &static_cast<const Frame*>(frame)->self; }
  std::uint64_t names() const { return names_changed; }

  int reads = 0;
  std::uint64_t names_changed = 0;
};

using Seen = std::vector<std::pair<std::uint64_t, bool>>;

/// The result of a walk without memory of earlier ones.
Seen expected(const Frame* frame, std::size_t longest = FrameChain::longest) {
  Seen seen;
  for (std::size_t i = 0; frame != nullptr && i < longest; frame = frame->caller, ++i) {
    if (frame->is_shim && !seen.empty()) seen.back().second = true;
    if (!frame->is_shim && frame->is_shown)
      seen.emplace_back(FrameKey::python(frame->code, frame->position).bits, false);
  }
  return seen;
}

class FrameChainTest : public ::testing::Test {
 protected:
  Seen follow(const Frame* innermost) {
    number_ = chain_->follow(innermost, reader_);
    std::vector<PythonFrame> frames(FrameChain::longest);
    frames.resize(chain_->frames(frames, [](const FrameChain::Seen&, FrameKey key) { return key; }));
    Seen seen;
    for (const PythonFrame& frame : frames) seen.emplace_back(frame.key.bits, frame.is_entry);
    return seen;
  }

  /// `count` frames, outermost first; each is called by the previous one.
  std::vector<Frame> stack(std::size_t count) {
    std::vector<Frame> frames(count);
    for (std::size_t i = 0; i < count; ++i)
      frames[i] = {.caller = i == 0 ? nullptr : &frames[i - 1], .code = static_cast<std::uint32_t>(i + 1)};
    return frames;
  }

  std::unique_ptr<FrameChain> chain_ = std::make_unique<FrameChain>();
  Reader reader_;
  std::uint64_t number_ = 0;
};

TEST_F(FrameChainTest, NoFramesHaveNoNumber) {
  EXPECT_TRUE(follow(nullptr).empty());
  EXPECT_EQ(number_, 0U);
  Frame hidden{.is_shown = false};
  EXPECT_TRUE(follow(&hidden).empty());
  EXPECT_EQ(number_, 0U);
}

TEST_F(FrameChainTest, FramesThatStayAreNotReadAgain) {
  std::vector<Frame> frames = stack(60);
  follow(&frames.back());
  EXPECT_EQ(reader_.reads, 60);
  const std::uint64_t before = number_;
  EXPECT_EQ(follow(&frames.back()), expected(&frames.back()));
  EXPECT_EQ(reader_.reads, 60);
  EXPECT_EQ(number_, before);

  frames.back().position = 7;
  EXPECT_EQ(follow(&frames.back()), expected(&frames.back()));
  EXPECT_EQ(reader_.reads, 61) << "the one that went on";
  EXPECT_NE(number_, before);
}

TEST_F(FrameChainTest, CallsOfOtherObjectsHaveOtherNumbersAndAreNotReadAgain) {
  std::vector<Frame> frames = stack(6);
  frames[1].self = 100;
  frames[3].self = 200;
  follow(&frames.back());
  const std::uint64_t before = number_;
  frames[3].self = 208;
  follow(&frames.back());
  const std::uint64_t other = number_;
  EXPECT_NE(other, before);
  std::swap(frames[1].self, frames[3].self);
  follow(&frames.back());
  EXPECT_NE(number_, other) << "the same objects, the other way round";
  EXPECT_EQ(reader_.reads, 6);
  frames[1].self = 100;
  frames[3].self = 200;
  follow(&frames.back());
  EXPECT_EQ(number_, before);

  // The inner call returns, and another takes over its frame.
  follow(&frames[2]);
  const std::uint64_t outer = number_;
  frames[3].self = 224;
  follow(&frames.back());
  EXPECT_NE(number_, before);
  follow(&frames[2]);
  EXPECT_EQ(number_, outer);
}

TEST_F(FrameChainTest, AFrameThatBeginsOrEndsToBeACallIsSeen) {
  std::vector<Frame> frames = stack(4);
  follow(&frames.back());
  const std::uint64_t function = number_;
  const std::uint32_t code = frames[2].code;
  frames[2].code = 77;
  frames[2].self = 48;
  follow(&frames.back());
  const std::uint64_t call = number_;
  frames[2].self = 64;
  follow(&frames.back());
  EXPECT_NE(number_, call) << "its object counts now";
  frames[2].code = code;
  frames[2].self = 0;
  follow(&frames.back());
  EXPECT_EQ(number_, function);
}

TEST_F(FrameChainTest, OtherNamesOfObjectsAreOtherNumbersOfTheirCallsAlone) {
  std::vector<Frame> frames = stack(3);
  frames[1].self = 96;
  follow(frames.data());
  const std::uint64_t function = number_;
  follow(&frames.back());
  const std::uint64_t call = number_;
  reader_.names_changed = 1;
  follow(&frames.back());
  EXPECT_NE(number_, call);
  follow(frames.data());
  EXPECT_EQ(number_, function);
  EXPECT_EQ(reader_.reads, 3) << "names are no reason to read a frame again";
}

TEST_F(FrameChainTest, HowAReferenceIsCountedDoesNotTellObjectsApart) {
  std::vector<Frame> frames = stack(2);
  frames[1].self = 96;
  follow(&frames.back());
  const std::uint64_t before = number_;
  frames[1].self |= 1U;
  follow(&frames.back());
  EXPECT_EQ(number_, before);
}

TEST_F(FrameChainTest, FramesWithAnObjectAreKeptUnderTheKeyThatIsAskedFor) {
  std::vector<Frame> frames = stack(3);
  frames[1].self = 90;
  follow(&frames.back());
  std::vector<PythonFrame> keyed(3);
  ASSERT_EQ(chain_->frames(keyed, [](const FrameChain::Seen&,
                                     FrameKey key) { return FrameKey::python(key.code() + 100, key.position()); }),
            3U);
  EXPECT_EQ(keyed[0].key.code(), 3U);
  EXPECT_EQ(keyed[1].key.code(), 102U);
  EXPECT_EQ(keyed[2].key.code(), 1U);
}

TEST_F(FrameChainTest, ACallersNextLineIsSeenBehindAnUnchangedFrame) {
  std::vector<Frame> frames = stack(3);
  follow(&frames.back());
  const std::uint64_t before = number_;
  frames[0].position = 5;  // it calls the same function again from elsewhere: visible only here
  EXPECT_EQ(follow(&frames.back()), expected(&frames.back()));
  EXPECT_NE(number_, before);
  frames[0].position = 0;
  follow(&frames.back());
  EXPECT_EQ(number_, before) << "the same frames again";
}

TEST_F(FrameChainTest, AFrameElsewhereBetweenTheSameOnes) {
  std::vector<Frame> frames = stack(4);
  follow(&frames.back());
  Frame other = frames[1];
  other.code = 77;
  frames[2].caller = &other;
  EXPECT_EQ(follow(&frames.back()), expected(&frames.back()));
}

TEST_F(FrameChainTest, OtherCodeInTheSamePlace) {
  std::vector<Frame> frames = stack(2);
  follow(&frames.back());
  frames[1].code = 9;
  EXPECT_EQ(follow(&frames.back()), expected(&frames.back()));
}

TEST_F(FrameChainTest, CodeWithoutVersionsIsReadEveryTime) {
  std::vector<Frame> frames = stack(3);
  for (Frame& frame : frames) frame.has_version = false;
  follow(&frames.back());
  const std::uint64_t before = number_;
  frames[1].code = 50;
  EXPECT_EQ(follow(&frames.back()), expected(&frames.back()));
  EXPECT_NE(number_, before);
}

TEST_F(FrameChainTest, WhatACallOfNativeCodeBeganWithIsPartOfTheNumber) {
  Frame shim{.is_shim = true};
  std::vector<Frame> frames = stack(2);
  follow(&frames[1]);
  const std::uint64_t before = number_;
  frames[0].caller = &shim;
  EXPECT_EQ(follow(&frames[1]), expected(&frames[1]));
  EXPECT_NE(number_, before);
}

TEST_F(FrameChainTest, OfAChainThatIsTooLongTheInnermostAreKnown) {
  std::vector<Frame> frames = stack(FrameChain::longest + 10);
  const auto last = [&](std::size_t less) { return &frames[frames.size() - 1 - less]; };
  // Shorter and longer, so that the truncated part changes.
  for (const std::size_t less : {0U, 1U, 5U, 4U, 0U, 10U, 11U, 3U})
    EXPECT_EQ(follow(last(less)), expected(last(less))) << less;
}

TEST_F(FrameChainTest, AChainThatBitesItsTailEnds) {
  std::vector<Frame> frames = stack(3);
  frames[0].caller = &frames[2];
  for (int i = 0; i < 3; ++i) EXPECT_LE(follow(&frames[2]).size(), FrameChain::longest);
}

TEST_F(FrameChainTest, AnyProgramIsFollowedAsIfAnew) {
  std::mt19937 random(11);  // NOLINT(cert-msc51-cpp): the same every time
  const auto below = [&](std::size_t bound) { return random() % bound; };
  std::deque<Frame> memory(48);  // few frame addresses, so that they are reused
  std::vector<Frame*> calls;
  using Shown = std::pair<Seen, std::vector<std::uint64_t>>;  // the frames, and the objects whose calls they are
  std::map<std::uint64_t, Shown> meanings;
  std::map<std::vector<std::uint64_t>, std::uint64_t> numbers;
  for (int step = 0; step < 20'000; ++step) {
    const auto is_used = [&](const Frame& frame) {
      return std::find(calls.begin(), calls.end(), &frame) != calls.end();
    };
    for (std::size_t i = below(4); i > 0 && !calls.empty(); --i) calls.pop_back();
    if (!calls.empty()) calls.back()->position = static_cast<std::uint32_t>(below(3));
    for (std::size_t i = below(5); i > 0 && calls.size() < 12; --i) {
      // Usually right behind the caller's, as in interpreters; otherwise anywhere, as for generators.
      Frame* place = &memory[below(3) > 0 ? calls.size() : below(memory.size())];
      if (is_used(*place)) continue;
      *place = {.caller = calls.empty() ? nullptr : calls.back(),
                .code = static_cast<std::uint32_t>(1 + below(4)),
                .position = static_cast<std::uint32_t>(below(3)),
                .is_shim = below(5) == 0,
                .is_shown = below(6) != 0,
                .has_version = below(8) != 0};
      constexpr std::uint32_t module_call = 3;
      if (!place->is_shim && place->is_shown && place->code == module_call) place->self = 16 * (1 + below(3));
      calls.push_back(place);
    }
    const Frame* const innermost = calls.empty() ? nullptr : calls.back();
    const Seen seen = follow(innermost);
    ASSERT_EQ(seen, expected(innermost)) << "step " << step;
    Shown shown{seen, {}};
    std::vector<std::uint64_t> words;
    for (const Frame* call : calls) {
      if (call->self != 0) shown.second.push_back(call->self);
      if (call->is_shim || call->is_shown)
        words.insert(words.end(), {call->is_shim ? 0 : FrameKey::python(call->code, call->position).bits, call->self});
    }
    ASSERT_EQ(meanings.try_emplace(number_, shown).first->second, shown) << "one number for two chains, step " << step;
    ASSERT_EQ(numbers.try_emplace(words, number_).first->second, number_) << "two numbers of a chain, step " << step;
  }
}

}  // namespace
}  // namespace memreel::python
