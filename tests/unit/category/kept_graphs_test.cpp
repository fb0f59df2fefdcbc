// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/category/kept_graphs.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/category/late_serving.h"

namespace memreel {
namespace {

using testing::expect_category;
using testing::LateServing;
using testing::Program;
using P = Program;

TEST(Graph, WhatPilesUpAndGoesTogetherIsActivations) {
  LateServing serving;
  const auto first = serving.forward(true);
  serving.drop(first);
  const auto second = serving.forward(true);
  const Categories categories = serving.program.classify();
  expect_category(categories, first, Category::activation);
  expect_category(categories, second, Category::activation);
  EXPECT_EQ(row_of(categories.evidence[index(first.front())]).name, "kept_graph");
  EXPECT_EQ(row_of(categories.evidence[index(second.front())]).name, "forward_at_end");
  for (const Phase phase : categories.phase) EXPECT_NE(phase, Phase::backward);
}

TEST(Graph, WithoutGradientsAPassLeavesTemporaries) {
  LateServing serving;
  serving.forward(false);
  serving.forward(false);
  const Categories categories = serving.program.classify();
  for (std::size_t id = serving.weights.size(); id < categories.evidence.size(); ++id)
    EXPECT_EQ(name_of(category_of(categories.evidence[id])), "temporary");
}

/// A call of twelve layers that an error ends in the last one: it holds what the layer was working with.
struct Failed {
  std::vector<AllocationId> graph, finished;
  AllocationId scratch = AllocationId::none;

  explicit Failed(Program& program) {
    for (int layer = 0; layer < 12; ++layer) {
      if (scratch != AllocationId::none) finished.push_back(scratch);
      scratch = program.alloc(5000, P::module(11));
      for (const int line : {12, 13}) graph.push_back(program.alloc(701, P::module(line)));
      if (layer < 11) program.free(scratch, P::module(14));
    }
  }
};

TEST(Graph, AnErrorFreesTemporariesWithIt) {
  LateServing serving;
  const Failed failed(serving.program);
  serving.drop({failed.scratch});
  serving.drop(failed.graph);
  const Categories categories = serving.program.classify();
  expect_category(categories, failed.graph, Category::activation);
  expect_category(categories, failed.finished, Category::temporary);
  expect_category(categories, {failed.scratch}, Category::temporary);
}

TEST(Graph, WhatAnErrorHoldsHasNoEndToJudgeBy) {
  LateServing serving;
  const Failed failed(serving.program);
  const Categories categories = serving.program.classify();
  expect_category(categories, failed.graph, Category::activation);
  expect_category(categories, {failed.scratch}, Category::unknown);
}

TEST(Graph, EarlierStepsTellTemporariesOfOnePerPass) {
  for (const bool by_backward : {false, true}) {
    SCOPED_TRACE(by_backward ? "backward passes freed the earlier ones" : "their own passes freed them");
    Program program;
    std::vector<AllocationId> all;
    for (int step = 0; step < 4; ++step) {
      const AllocationId once = program.alloc(5000, P::module(99));
      std::vector<AllocationId> graph;
      for (int line = 1; line <= 24; ++line) graph.push_back(program.alloc(700, P::module(line)));
      all = graph;
      all.push_back(once);
      if (step == 3) break;
      if (!by_backward) program.free(once, P::module(14));
      program.pass(P::engine());
      for (const AllocationId id : graph) program.free(id, P::engine());
      if (by_backward) program.free(once, P::engine());
      program.pass(P::state());
    }
    for (const AllocationId id : all) program.free(id, P::user(30));
    const Categories categories = program.classify();
    expect_category(categories, {all.back()}, by_backward ? Category::activation : Category::temporary);
    all.pop_back();
    expect_category(categories, all, Category::activation);
  }
}

TEST(Graph, TheLastLinkOfAChainStays) {
  LateServing serving;
  Program& program = serving.program;
  std::vector<AllocationId> graph;
  for (int line = 20; line < 44; ++line) graph.push_back(program.alloc(700, P::module(line)));
  // x = f(f(f(x))) in one line: each is freed when the next one is made.
  AllocationId link = program.alloc(5000, P::module(11));
  for (int i = 0; i < 3; ++i) {
    const AllocationId next = program.alloc(5000, P::module(11));
    program.free(link, P::module(11));
    link = next;
  }
  graph.push_back(link);
  serving.drop(graph);
  expect_category(program.classify(), graph, Category::activation);
}

TEST(Graph, PassesWithoutGradientsBeforeItSayNothing) {
  LateServing serving;
  Program& program = serving.program;
  std::vector<AllocationId> graph;
  for (int call = 0; call < 4; ++call)
    for (int line = 20; line < 44; ++line) {
      const AllocationId made = program.alloc(700, P::module(line));
      if (call == 3)
        graph.push_back(made);
      else
        program.free(made, P::module(14));
    }
  serving.drop(graph);
  expect_category(program.classify(), graph, Category::activation);
}

TEST(Graph, ThePreviousPassesGraphIsOlderThanTheRecording) {
  LateServing serving;
  std::vector<AllocationId> previous;
  for (int i = 0; i < 24; ++i) previous.push_back(serving.program.alloc(701, P::older()));
  const auto graph = serving.forward(true);
  serving.drop(previous);
  serving.drop(graph);
  const Categories categories = serving.program.classify();
  expect_category(categories, previous, Category::activation);
  EXPECT_EQ(row_of(categories.evidence[index(previous.front())]).name, "graph_before_recording");
  expect_category(categories, graph, Category::activation);
  expect_category(categories, serving.weights, Category::parameter);
}

TEST(Graph, AKeyValueCacheIsNone) {
  LateServing serving;
  std::vector<AllocationId> cache;
  for (int token = 0; token < 8; ++token) {
    std::vector<AllocationId> grown;
    for (int layer = 0; layer < 16; ++layer) {
      for (int i = 0; i < 12; ++i) serving.program.pass(P::module(11));
      grown.push_back(serving.program.alloc(100 + static_cast<std::uint64_t>(token), P::module(12)));
      if (!cache.empty()) serving.program.free(cache[static_cast<std::size_t>(layer)], P::module(12));
    }
    cache = grown;
    serving.program.pass(P::user(6));
  }
  expect_category(serving.program.classify(), cache, Category::kv_cache);
}

/// What the program keeps after its last event.
KeptGraphs kept_at_end(Program& program) {
  const Trace& trace = program.build().trace();
  const std::vector<Lifetime> lives = lifetimes(trace);
  return kept_graphs(trace, lives, classify(trace), HeapId{1}, trace.events.count());
}

TEST(KeptGraphs, TheRunningPassKeepsOneAndTheOutputAnother) {
  LateServing serving;
  serving.forward(true);
  serving.program.pass(P::user(25));
  serving.forward(true);
  const KeptGraphs kept = kept_at_end(serving.program);
  EXPECT_EQ(kept.running + kept.earlier, Bytes{48 * 701 << 10U});
  EXPECT_FALSE(kept.by_loss);
}

/// The previous pass's graph is live at the end of `program`, and goes later together with what `root` allocates.
bool goes_with(std::uint64_t root_kib) {
  LateServing serving;
  const auto first = serving.forward(true);
  const AllocationId root = serving.program.alloc(root_kib, P::user(26));
  const auto second = serving.forward(true);
  const std::uint64_t events = serving.program.build().trace().events.count();
  serving.program.free(root, P::user(27));
  serving.drop(first);
  serving.program.pass(P::user(28));
  serving.drop(second);
  const Trace& trace = serving.program.build().trace();
  const KeptGraphs kept = kept_graphs(trace, lifetimes(trace), classify(trace), HeapId{1}, events);
  EXPECT_EQ(kept.earlier, Bytes{24 * 701 << 10U});
  EXPECT_EQ(kept.running, Bytes{24 * 701 << 10U});
  return kept.by_loss;
}

TEST(KeptGraphs, ALossOrAnOutputHoldsThePreviousOne) {
  EXPECT_FALSE(goes_with(700));
  EXPECT_TRUE(goes_with(0));  // a number
}

constexpr const char* cast = "at::autocast::cached_cast(c10::ScalarType, at::Tensor const&, c10::DeviceType)@:0";
constexpr const char* clear = "at::autocast::clear_cache()@:0";

/// Calls the model under autocast, which casts the weights of each layer and the input of each. Returns the copies of
/// the weights.
std::vector<AllocationId> call_under_autocast(Program& program, bool keeps_graph, std::vector<AllocationId>& graph) {
  std::vector<AllocationId> copies;
  for (int layer = 0; layer < 12; ++layer) {
    const AllocationId input = program.alloc(4608, P::within({cast}, P::module(11)));  // as large as a weight's copy
    copies.push_back(program.alloc(4608, P::within({cast}, P::module(11))));
    const AllocationId made = program.alloc(700, P::module(11));
    for (int i = 0; i < 3; ++i) program.pass(P::module(12));
    for (const AllocationId id : {input, made}) {
      if (keeps_graph)
        graph.push_back(id);
      else
        program.free(id, P::module(14));
    }
  }
  return copies;
}

Bytes sum(Program& program, const Categories& categories, Category category) {
  Bytes bytes;
  const Trace& trace = program.build().trace();
  for (std::uint32_t id = 0; id < categories.evidence.size(); ++id)
    if (categories.category(AllocationId{id}) == category)
      bytes += trace.events.size(trace.events.begin_of(AllocationId{id}));
  return bytes;
}

TEST(KeptGraphs, CopiesThatAutocastClearsAreNoTemporaries) {
  LateServing serving;
  std::vector<AllocationId> graph;
  const auto copies = call_under_autocast(serving.program, false, graph);
  for (const AllocationId id : copies) serving.program.free(id, P::within({clear}, P::user(29)));
  expect_category(serving.program.classify(), copies, Category::parameter_copy);
}

TEST(KeptGraphs, CopiesOfWeightsAreNoPartOfTheGraph) {
  for (const bool freed : {false, true}) {
    LateServing serving;
    std::vector<AllocationId> graph;
    const auto copies = call_under_autocast(serving.program, true, graph);
    const KeptGraphs kept = kept_at_end(serving.program);
    graph.insert(graph.end(), copies.begin(), copies.end());
    if (freed) serving.drop(graph);
    // Which of two casts of one size is the weight's can't be told, but there is one for each weight.
    EXPECT_EQ(sum(serving.program, serving.program.classify(), Category::parameter_copy), Bytes{12 * 4608 << 10U})
        << freed;
    EXPECT_EQ(kept.autocast, Bytes{12 * 4608 << 10U}) << freed;
    EXPECT_EQ(kept.running, Bytes{12 * (4608 + 700) << 10U}) << freed;
  }
}

TEST(KeptGraphs, CastsOfActivationsAreNoCopiesOfWeights) {
  LateServing serving;
  std::vector<AllocationId> previous;  // activations, as old as the weights and of twice the size of this pass's casts
  for (int i = 0; i < 24; ++i) previous.push_back(serving.program.alloc(700, P::older()));
  std::vector<AllocationId> graph, casts;
  const auto copies = call_under_autocast(serving.program, true, graph);
  for (int layer = 0; layer < 12; ++layer) {
    casts.push_back(serving.program.alloc(350, P::within({cast}, P::module(13))));
    serving.program.pass(P::module(12));
  }
  serving.drop(previous);
  const Categories categories = serving.program.classify();
  expect_category(categories, previous, Category::activation);
  expect_category(categories, casts, Category::activation);
  EXPECT_EQ(kept_at_end(serving.program).autocast, Bytes{12 * 4608 << 10U});
}

/// As autocast_mode.py of PyTorch 2 for Linux and for Windows.
constexpr std::array<const char*, 2> exits{"__exit__@/env/lib/python3.11/site-packages/torch/amp/autocast_mode.py:390",
                                           R"(__exit__@C:\env\Lib\site-packages\torch\amp\autocast_mode.py:390)"};

TEST(KeptGraphs, WithoutNativeFramesTheEndOfAutocastTellsCopiesOfWeights) {
  for (const char* exit : exits) {
    LateServing serving;
    for (unsigned call = 1; call <= 3; ++call) {
      std::vector<AllocationId> copies, others;
      for (int layer = 0; layer < 12; ++layer) {
        others.push_back(serving.program.alloc(700, P::module(11)));
        copies.push_back(serving.program.alloc(4608, P::module(11)));
        serving.program.free(serving.program.alloc(4608, P::module(11)), P::module(12));
      }
      for (const auto& ids : {copies, others})
        for (const AllocationId id : ids) serving.program.free(id, P::within({exit}, P::user(29)));
      const Categories categories = serving.program.classify();
      expect_category(categories, copies, Category::parameter_copy);
      EXPECT_EQ(sum(serving.program, categories, Category::parameter_copy),
                Bytes{std::uint64_t{call} * 12 * 4608 << 10U});
    }
  }
}

TEST(KeptGraphs, ActivationsOutliveTheirBackwardPass) {
  Program program;
  const AllocationId weight = program.alloc(4096, P::parameter());
  AllocationId kept = AllocationId::none;
  for (int step = 0; step < 3; ++step) {
    const AllocationId saved = program.alloc(500, P::module(11));
    const AllocationId output = program.alloc(300, P::module(12));
    const AllocationId gradient = program.alloc(4096, P::engine());
    program.free(saved, P::engine());
    program.pass(P::state());
    program.free(gradient, P::zero_grad());
    if (kept != AllocationId::none) program.free(kept, P::user(31));
    kept = output;
    program.pass(P::user(32));
  }
  const Categories categories = program.classify();
  EXPECT_EQ(categories.category(weight), Category::parameter);
  const KeptGraphs found = kept_at_end(program);
  EXPECT_EQ(found.past_backward, 300_KiB);
  EXPECT_EQ(found.running + found.earlier + found.autocast, 0_B);
}

}  // namespace
}  // namespace memreel
