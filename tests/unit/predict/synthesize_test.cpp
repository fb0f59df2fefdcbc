// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/synthesize.h"

#include <gmock/gmock.h>

#include <array>
#include <map>
#include <set>

#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using ::testing::ElementsAre;
using testing::TraceBuilder;

/// A program of nested loops: what layers keep is freed in reverse order.
Recording nested(std::uint64_t layers, std::uint64_t batch) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  const StackId weight = build.stack({"weight@a.py:1"}), forward = build.stack({"forward@a.py:2"}),
                scratch = build.stack({"scratch@a.py:3"}), backward = build.stack({"backward@a.py:4"}),
                loss = build.stack({"loss@a.py:5"});
  std::uint64_t next = 1 << 20;
  const auto alloc = [&](std::uint64_t size, StackId stack) {
    next += 1 << 20;
    return build.alloc(origin, Address{next}, Bytes{size}, stack);
  };
  for (std::uint64_t layer = 0; layer < layers; ++layer) alloc(4096, weight);
  std::vector<AllocationId> kept;
  for (std::uint64_t layer = 0; layer < layers; ++layer) {
    kept.push_back(alloc(1000 * batch, forward));
    build.free(alloc(300, scratch));
  }
  const AllocationId last = alloc(64 * batch, loss);
  for (; !kept.empty(); kept.pop_back()) {
    const AllocationId gradient = alloc(1000 * batch, backward);
    build.free(kept.back());
    build.free(gradient);
  }
  build.free(last);
  Recording recording{.at = {layers, batch}, .trace = std::move(build.trace()), .heap = HeapId{1}};
  recording.requests = requests_of(recording.trace, recording.heap);
  return recording;
}

/// Learned from runs of (layers, batch), with the last as the base.
class LearnedRuns {
 public:
  explicit LearnedRuns(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& runs) {
    for (const auto& [layers, batch] : runs) recordings_.push_back(nested(layers, batch));
    learn_all();
  }
  explicit LearnedRuns(std::vector<Recording> recordings) : recordings_(std::move(recordings)) { learn_all(); }
  const Model& model() const { return model_; }

 private:
  void learn_all() {
    std::vector<const Recording*> pointers;
    std::uint32_t next = 100;
    Recording& base = recordings_.back();
    for (Recording& recording : recordings_) {
      if (&recording != &base)
        next = adopt_sites(base.trace.tables, base.requests, recording.trace.tables, recording.requests, next);
      pointers.push_back(&recording);
    }
    model_ = learn(pointers, pointers.size() - 1, std::array{GpuTraits{}});
  }

  std::vector<Recording> recordings_;
  Model model_;
};

std::vector<std::uint64_t> sizes_of(const Trace& trace) {
  std::vector<std::uint64_t> sizes;
  for (const std::uint32_t event : trace.events.begins()) sizes.push_back(trace.events.size(event).count);
  return sizes;
}

/// Each free is of a live allocation, in the right order, once; live allocations don't overlap.
void expect_sound(const Trace& trace) {
  std::map<std::uint64_t, std::uint64_t> live;  // address -> end
  std::set<std::uint32_t> awaiting;
  for (std::size_t i = 0; i < trace.events.count(); ++i) {
    const Event event = trace.events[i];
    if (event.kind == EventKind::alloc) {
      ASSERT_EQ(trace.events.begin_of(event.allocation), i);
      const auto [at, is_new] = live.emplace(event.address.value, event.address.value + event.size.count);
      ASSERT_TRUE(is_new);
      ASSERT_TRUE(at == live.begin() || std::prev(at)->second <= at->first);
      ASSERT_TRUE(std::next(at) == live.end() || at->second <= std::next(at)->first);
    } else if (event.kind == EventKind::free_requested) {
      ASSERT_TRUE(live.contains(event.address.value));
      ASSERT_EQ(event.size, trace.events.size(trace.events.begin_of(event.allocation)));
      ASSERT_TRUE(awaiting.insert(index(event.allocation)).second);
    } else if (event.kind == EventKind::free_completed) {
      ASSERT_EQ(awaiting.erase(index(event.allocation)), 1U);
      ASSERT_EQ(live.erase(event.address.value), 1U);
    }
  }
}

/// Backward passes of a linear layer with 1,536 inputs and 384 outputs over 65 rows per sample, in two-byte numbers.
Recording linear(std::uint64_t batch) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  std::uint64_t next = 1 << 30;
  const auto alloc = [&](std::uint64_t size) {
    next += 1 << 30;
    return build.alloc(origin, Address{next}, Bytes{size}, StackId::none);
  };
  const std::uint64_t rows = 65 * batch, inputs = 1536, outputs = 384;
  for (int step = 0; step < 3; ++step) {
    const AllocationId of_outputs = alloc(rows * outputs * 2), of_inputs = alloc(rows * inputs * 2);
    const AllocationId weights = alloc(inputs * outputs * 2), bias = alloc(outputs * 2);
    if (const auto scratch = scratch_of({.rows = rows, .columns = outputs})) {
      const AllocationId sums = alloc(scratch->partial_sums.count), semaphores = alloc(scratch->semaphores.count);
      build.free(semaphores);
      build.free(sums);
    }
    for (const AllocationId done : {of_outputs, of_inputs, weights, bias}) build.free(done);
  }
  Recording recording{.at = {batch}, .trace = std::move(build.trace()), .heap = HeapId{1}};
  recording.requests = requests_of(recording.trace, recording.heap);
  return recording;
}

std::vector<Recording> linears(std::initializer_list<std::uint64_t> batches) {
  std::vector<Recording> all;
  for (const std::uint64_t batch : batches) all.push_back(linear(batch));
  return all;
}

/// Live bytes after each allocation.
std::vector<std::uint64_t> live_over_time(const Trace& trace) {
  std::vector<std::uint64_t> live;
  std::uint64_t now = 0;
  for (std::size_t i = 0; i < trace.events.count(); ++i) {
    if (trace.events.kind(i) == EventKind::alloc) live.push_back(now += trace.events.size(i).count);
    if (trace.events.kind(i) == EventKind::free_requested) now -= trace.events.size(i).count;
  }
  return live;
}

/// Loops in which a round frees most of what the same round of the first loop kept, and one allocation of the round
/// before it: `rounds_early` 1, such as a layer's input; or after it: -1.
Recording shifted(std::uint64_t layers, int rounds_early) {
  TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  const StackId forward = build.stack({"forward@a.py:2"}), input = build.stack({"input@a.py:3"}),
                backward = build.stack({"backward@a.py:4"}), loss = build.stack({"loss@a.py:5"});
  std::uint64_t next = 1 << 20;
  const auto alloc = [&](std::uint64_t size, StackId stack) {
    next += 1 << 20;
    return build.alloc(origin, Address{next}, Bytes{size}, stack);
  };
  std::vector<AllocationId> kept, inputs, more;
  for (std::uint64_t layer = 0; layer < layers; ++layer) {
    inputs.push_back(alloc(700, input));
    kept.push_back(alloc(1000, forward));
    more.push_back(alloc(1100, forward));
  }
  const auto free_input = [&](std::uint64_t layer) {
    if (layer < layers) build.free(inputs[layer]);  // otherwise it wrapped around: there is none
  };
  const AllocationId last = alloc(64, loss);
  if (rounds_early == 1) free_input(layers - 1);
  for (std::uint64_t layer = layers; layer-- > 0;) {
    const AllocationId gradient = alloc(300, backward);
    build.free(kept[layer]);
    build.free(more[layer]);
    free_input(rounds_early == 1 ? layer - 1 : layer + 1);
    build.free(gradient);
  }
  alloc(64, loss);
  if (rounds_early == -1) free_input(0);
  build.free(last);
  Recording recording{.at = {layers, 1}, .trace = std::move(build.trace()), .heap = HeapId{1}};
  recording.requests = requests_of(recording.trace, recording.heap);
  return recording;
}

TEST(Synthesize, RepeatsARecordingAtItsOwnValues) {
  const LearnedRuns learned({{2, 1}, {2, 2}, {2, 4}});
  const PredictedRun predicted_run = synthesize(learned.model(), Values{2, 4});
  EXPECT_EQ(sizes_of(predicted_run.trace), sizes_of(nested(2, 4).trace));
  expect_sound(predicted_run.trace);
}

TEST(Synthesize, ScalesSizes) {
  const LearnedRuns learned({{2, 1}, {2, 2}, {2, 4}});
  EXPECT_EQ(sizes_of(synthesize(learned.model(), Values{2, 50}).trace), sizes_of(nested(2, 50).trace));
}

TEST(Synthesize, AddsRepeatsInOrder) {
  const LearnedRuns learned({{2, 3}, {3, 3}, {5, 3}});
  for (const std::uint64_t layers : {6U, 7U, 9U, 20U}) {
    const PredictedRun predicted_run = synthesize(learned.model(), Values{layers, 3});
    EXPECT_EQ(sizes_of(predicted_run.trace), sizes_of(nested(layers, 3).trace)) << layers;
    expect_sound(predicted_run.trace);
  }
}

TEST(Synthesize, FreesWhatTheLargeProgramFrees) {
  const LearnedRuns learned({{2, 3}, {3, 3}, {5, 3}});
  const PredictedRun predicted_run = synthesize(learned.model(), Values{12, 3});
  const Trace real = nested(12, 3).trace;
  EXPECT_EQ(live_over_time(predicted_run.trace), live_over_time(real));
}

TEST(Synthesize, FreesInTheRoundBeforeOrAfterWhatTheLargeProgramDoes) {
  for (const int rounds_early : {1, -1}) {
    std::vector<Recording> recordings;
    for (const std::uint64_t layers : {3U, 4U, 6U}) recordings.push_back(shifted(layers, rounds_early));
    const LearnedRuns learned(std::move(recordings));
    const PredictedRun predicted_run = synthesize(learned.model(), Values{12, 1});
    EXPECT_EQ(live_over_time(predicted_run.trace), live_over_time(shifted(12, rounds_early).trace)) << rounds_early;
    expect_sound(predicted_run.trace);
  }
}

TEST(Synthesize, SaysWhatItIs) {
  const LearnedRuns learned({{2, 1}, {2, 2}});
  EXPECT_EQ(synthesize(learned.model(), Values{2, 8}).trace.header.source, synthetic_source);
}

/// Scratch appears, grows and disappears as the library's rule says, whatever the recordings show.
TEST(Synthesize, GivesSumsTheirScratch) {
  for (const auto& batches : {linears({4, 8, 12}), linears({8, 12, 16}), linears({16, 24, 32}), linears({3, 40})}) {
    const LearnedRuns learned(batches);
    for (const std::uint64_t batch : {4U, 15U, 16U, 48U, 1000U}) {
      const PredictedRun made = synthesize(learned.model(), Values{batch});
      expect_sound(made.trace);
      EXPECT_EQ(sizes_of(made.trace), sizes_of(linear(batch).trace)) << batch;
    }
  }
}

TEST(Place, GivesAddressesAndSegments) {
  const LearnedRuns learned({{2, 1}, {2, 2}, {2, 4}});
  PredictedRun predicted_run = synthesize(learned.model(), Values{2, 5000});
  place(predicted_run, TorchSettings{});
  expect_sound(predicted_run.trace);
  std::map<std::uint64_t, std::uint64_t> segments;
  for (std::size_t i = 0; i < predicted_run.trace.events.count(); ++i) {
    const Event event = predicted_run.trace.events[i];
    if (event.kind == EventKind::segment_alloc) segments[event.address.value] = event.address.value + event.size.count;
    if (event.kind != EventKind::alloc) continue;
    const auto segment = segments.upper_bound(event.address.value);
    ASSERT_NE(segment, segments.begin());
    EXPECT_LE(event.address.value + event.size.count, std::prev(segment)->second);
  }
  EXPECT_FALSE(segments.empty());
}

// The driver places the second segment at a lower address than the first.
TEST(Place, OfTwoFreeBlocksOfASizeTheOneOfTheRelease) {
  for (const unsigned minor : {11U, 12U, 13U}) {
    TraceBuilder build;
    const OriginId origin = build.origin(HeapId{1});
    const AllocationId first = build.alloc(origin, Address{1}, 30_MiB),
                       second = build.alloc(origin, Address{2}, 30_MiB);
    build.free(first);
    build.free(second);
    const AllocationId third = build.alloc(origin, Address{3}, 30_MiB);
    PredictedRun run{.trace = std::move(build.trace()), .heap = HeapId{1}, .sources = {}};
    place(run, {.release = {minor}});
    const auto at = [&](AllocationId id) { return run.trace.events.address(run.trace.events.begin_of(id)); };
    ASSERT_LT(at(second), at(first));
    EXPECT_EQ(at(third), at(minor == 11 ? second : first)) << minor;
  }
}

}  // namespace
}  // namespace memreel
