// SPDX-License-Identifier: Apache-2.0
// The viewer's categories of allocations, compared with the analyzer's.
#include "viewer/model/findings.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "analyzer/describe/live_groups.h"
#include "tests/unit/category/torch_program.h"
#include "tests/unit/viewer/opened.h"
#include "viewer/model/allocation_list.h"
#include "viewer/model/flame.h"
#include "viewer/model/labels.h"
#include "viewer/model/stacked_series.h"

namespace memreel::viewer {
namespace {

using memreel::testing::Program;

class Classified : public ::testing::Test {
 protected:
  Classified() {
    Program program;
    std::vector<AllocationId> parameters, gradients;
    for (std::uint64_t i = 1; i <= 3; ++i) parameters.push_back(program.alloc(100 * i, Program::parameter()));
    for (int step = 0; step < 3; ++step) {
      const AllocationId activation = program.alloc(5000, Program::module());
      program.pass(Program::module(11));
      for (std::uint64_t i = 1; i <= 3; ++i) gradients.push_back(program.alloc(100 * i, Program::engine()));
      program.free(activation, Program::engine());
      for (std::uint64_t i = 1; i <= 3 && step == 0; ++i) program.alloc(200 * i, Program::state());
      program.pass(Program::optimizer("step", 200));
      for (const AllocationId gradient : gradients) program.free(gradient, Program::zero_grad());
      gradients.clear();
    }
    const Trace& trace = program.build().trace();
    TraceWriter writer(memory_sink(bytes_), trace.header);
    writer.extend_tables(trace.tables);
    for (std::size_t i = 0; i < trace.events.count(); ++i) static_cast<void>(writer.append(trace.events[i]));
    EXPECT_TRUE(writer.finish());
    opened_ = open(memory_file(bytes_));
    WholeTrace whole(loaded(), 1_GiB);
    known_ = *classify_trace(whole, progress_);
  }
  const Document& document() const { return opened_.last(); }
  HeapId heap() const { return document().heaps.front().heap; }
  std::shared_ptr<const Trace> loaded() const { return document().trace; }

  std::atomic<float> share_{0};
  Progress progress_{std::stop_token(), share_};
  std::vector<std::byte> bytes_;
  Opened opened_;
  Classification known_;
};

TEST_F(Classified, FirstFindingsComeWithoutSettings) {
  WholeTrace once(loaded(), 1_GiB);
  std::vector<Findings> first;
  const auto all = judge_trace(once, progress_, [&](Findings findings) { first.push_back(std::move(findings)); });
  ASSERT_TRUE(all);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_FALSE(first[0].tried);
  EXPECT_FALSE(first[0].verdict.setting);
  EXPECT_TRUE(all->tried);
  ASSERT_TRUE(first[0].verdict.decides && all->verdict.decides);
  EXPECT_EQ(first[0].verdict.decides->peak_live, all->verdict.decides->peak_live);
  EXPECT_EQ(first[0].of_allocation, all->of_allocation);
}

TEST_F(Classified, AllocationsAreWhatTheAnalyzerSays) {
  const Categories expected = classify(opened_.trace);
  ASSERT_TRUE(known_.knows_any) << known_.problem;
  std::array<std::uint64_t, category_count> seen{};
  for (std::uint32_t id = 0; id < document().allocation_count(); ++id) {
    EXPECT_EQ(known_.evidence(id), expected.evidence[id]);
    EXPECT_EQ(known_.phase(id), expected.phase[id]);
    ++seen.at(static_cast<std::size_t>(known_.category(id)));
  }
  for (const Category category :
       {Category::parameter, Category::gradient, Category::activation, Category::optimizer_state})
    EXPECT_GE(seen.at(static_cast<std::size_t>(category)), 3U) << name_of(category);
  EXPECT_EQ(known_.layer(*document().tables, document().stack_of(3), LayerCalls::none), "linear.py:10");
  EXPECT_EQ(known_.layer(*document().tables, document().stack_of(0), LayerCalls::none), "");
  // Later events are not known.
  EXPECT_EQ(known_.category(document().allocation_count()), Category::unknown);
  EXPECT_EQ(known_.layer(*document().tables, StackId{1'000'000}, LayerCalls::none), "");
}

TEST_F(Classified, CategoriesAddUpToWhatIsLive) {
  for (std::uint32_t events = 0; events <= document().event_count(); ++events) {
    std::uint64_t sum = 0;
    for (const CategoryHolding& held : live_by_category(document(), known_, heap(), events)) sum += held.bytes.count;
    EXPECT_EQ(sum, value_of(document().metrics_after(document().heaps.front(), events), Metric::live));
  }
}

TEST_F(Classified, SeriesAreStackedInTheOrderOfTheStyles) {
  const SplitQuery query{.heap = heap(), .by = SplitBy::category, .version = document().event_count()};
  const auto series = split_series(document(), query, progress_, &known_);
  ASSERT_TRUE(series);
  ASSERT_GE(series->groups.size(), 4U);
  std::size_t place = 0;
  for (const StackedSeries::Group& group : series->groups) {
    EXPECT_FALSE(group.is_rest);
    while (static_cast<std::uint32_t>(category_styles()[place].category) != group.key)
      ASSERT_LT(++place, category_count);
  }
  ASSERT_EQ(series->stride, 1U);
  for (std::uint32_t e = 0; e < document().event_count(); ++e) {
    if (document().kind(e) != EventKind::alloc) continue;  // what one frees was held before it
    const LiveByCategory live = live_by_category(document(), known_, heap(), e + 1);
    for (const StackedSeries::Group& group : series->groups) EXPECT_EQ(group.bytes[e], live.at(group.key).bytes.count);
    EXPECT_EQ(series->totals[e], value_of(document().metrics_after(document().heaps.front(), e + 1), Metric::live));
  }
}

TEST_F(Classified, ListsAreFilteredAndSortedByCategory) {
  const auto known = std::make_shared<const Classification>(known_);
  const Filter filter{.category = Category::gradient};
  const auto sieve = std::make_shared<const Sieve>(opened_.versions.back(), filter, known);
  AllocationQuery query{.heap = heap(), .sieve = sieve};
  const auto gradients = list_allocations(document(), query, progress_, &known_);
  ASSERT_TRUE(gradients);
  EXPECT_EQ(gradients->size(), 9U);
  for (std::uint32_t row = 0; row < gradients->size(); ++row)
    EXPECT_EQ(known_.category((*gradients)[row]), Category::gradient);
  query.sieve.reset();
  for (const AllocationOrder order : {AllocationOrder::category, AllocationOrder::phase}) {
    query.order = order;
    const auto list = list_allocations(document(), query, progress_, &known_);
    ASSERT_TRUE(list);
    const auto key = [&](std::uint32_t row) {
      const std::uint32_t id = (*list)[row];
      return order == AllocationOrder::category ? static_cast<int>(known_.category(id))
                                                : static_cast<int>(known_.phase(id));
    };
    for (std::uint32_t row = 1; row < list->size(); ++row) EXPECT_LE(key(row - 1), key(row));
  }
}

TEST_F(Classified, WhatNeedsTooMuchMemoryIsNotClassified) {
  WholeTrace whole(loaded(), Bytes{document().event_count() * 40});
  const auto bounded = classify_trace(whole, progress_);
  ASSERT_TRUE(bounded);
  EXPECT_FALSE(bounded->knows_any);
  EXPECT_FALSE(bounded->problem.empty());
  EXPECT_EQ(bounded->category(0), Category::unknown);
}

TEST_F(Classified, TheJobCanBeGivenUp) {
  const auto stop = std::make_unique<std::stop_source>();  // on the stack, GCC 12 warns that it is uninitialized
  stop->request_stop();
  WholeTrace whole(loaded(), 1_GiB);
  EXPECT_FALSE(classify_trace(whole, Progress(stop->get_token(), share_)));
  int asked = 0;
  static_cast<void>(classify(opened_.trace, [&] { return ++asked > 0; }));
  EXPECT_EQ(asked, 1) << "the rest is left out";
}

/// The trace's first classification, which stays unfinished until the test says how it ends.
class ClassifiedBeside : public Classified {
 protected:
  enum class End : std::uint8_t { finished, cancelled, out_of_memory };

  ClassifiedBeside() {
    WholeTrace alone(loaded(), 1_GiB);
    expected_ = *judge_trace(alone, progress_, {});
    classifying_ = std::jthread([this] {
      int polls = 0;
      std::optional<End> end;
      const auto cancelled = [&] {
        if (polls++ == 1) {  // the first is before it begins
          begun_.set_value();
          end = end_.get_future().get();
          if (end == End::out_of_memory) throw std::bad_alloc();
        }
        return end == End::cancelled;
      };
      try {
        categories_ = whole_.categories(cancelled);
      } catch (const std::bad_alloc&) {
        categories_ = nullptr;
      }
    });
    begun_.get_future().wait();
    judging_ = std::jthread([this](const std::stop_token& stop) {
      judged_ = judge_trace(whole_, Progress(stop, judged_share_), [this](const Findings&) { ++first_findings_; });
    });
  }
  ~ClassifiedBeside() override {
    if (classifying_.joinable()) finish(End::cancelled);
  }
  /// Waits until everything is judged that needs no categories.
  void wait_for_the_rest() const {
    for (int i = 0; i < 6000 && judged_share_ < 0.5F; ++i) std::this_thread::sleep_for(std::chrono::milliseconds{10});
    EXPECT_GE(judged_share_, 0.5F);
    EXPECT_EQ(first_findings_, 0) << "who holds the peak is not known yet";
  }
  void finish(End end) {
    end_.set_value(end);
    classifying_.join();
    judging_.join();
  }
  void expect_the_same_verdict() const {
    ASSERT_TRUE(judged_);
    EXPECT_EQ(first_findings_, 1);
    ASSERT_TRUE(judged_->verdict.holders);
    EXPECT_EQ(judged_->verdict.holders->by, "category");
    const auto lines = lines_of(judged_->verdict), expected = lines_of(expected_.verdict);
    ASSERT_EQ(lines.size(), expected.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(lines[i].topic, expected[i].topic);
      EXPECT_EQ(lines[i].text, expected[i].text);
    }
    EXPECT_EQ(judged_->of_allocation, expected_.of_allocation);
  }

  Findings expected_;
  WholeTrace whole_{loaded(), 1_GiB};
  std::promise<void> begun_;
  std::promise<End> end_;
  std::shared_ptr<const Categories> categories_;
  std::atomic<float> judged_share_{0};
  std::atomic<int> first_findings_{0};
  std::optional<Findings> judged_;
  std::jthread classifying_, judging_;
};

TEST_F(ClassifiedBeside, OnlyTheVerdictWaitsForCategories) {
  wait_for_the_rest();
  finish(End::finished);
  expect_the_same_verdict();
  ASSERT_TRUE(categories_);
  EXPECT_EQ(whole_.categories([] { return false; }), categories_) << "they are shared while anybody has them";
  EXPECT_EQ(categories_->evidence, known_.categories->evidence);
  const std::weak_ptr<const Categories> released = categories_;
  categories_.reset();
  EXPECT_TRUE(released.expired());
}

TEST_F(ClassifiedBeside, WhoWaitsForCancelledCategoriesClassifies) {
  wait_for_the_rest();
  finish(End::cancelled);
  EXPECT_FALSE(categories_);
  expect_the_same_verdict();
}

TEST_F(ClassifiedBeside, WhoWaitsForFailedCategoriesClassifies) {
  wait_for_the_rest();
  finish(End::out_of_memory);
  expect_the_same_verdict();
}

TEST_F(ClassifiedBeside, AVerdictThatWaitsCanBeGivenUp) {
  wait_for_the_rest();
  judging_.request_stop();
  finish(End::finished);
  EXPECT_FALSE(judged_);
  EXPECT_EQ(first_findings_, 0);
  EXPECT_TRUE(categories_) << "they are wanted all the same";
}

TEST_F(ClassifiedBeside, BothCanBeGivenUp) {
  wait_for_the_rest();
  judging_.request_stop();
  finish(End::cancelled);
  EXPECT_FALSE(judged_);
  EXPECT_FALSE(categories_);
}

TEST(Layers, CallsOfAModuleAreOneNodeAndWhatPassesThemOnIsNone) {
  memreel::testing::TraceBuilder build;
  const std::string_view call = "_call_impl@torch/nn/modules/module.py:1790";
  const std::vector<std::string_view> train{"step@train.py:7", "<module>@train.py:9"};
  const auto stack = [&](std::vector<std::string_view> inner) {
    inner.insert(inner.end(), train.begin(), train.end());
    return build.stack(inner);
  };
  const std::string_view model = "forward@model.py:3 [GPT2Model 0]", mlp = "forward@model.py:8 [GPT2MLP 3]";
  const std::string_view mlp_later = "forward@model.py:9 [GPT2MLP 3]";
  std::vector<StackWeight> weights;
  for (const StackId id : {stack({"gelu@torch/nn/functional.py:1", mlp, call, model, call}),
                           stack({mlp_later, call, model, call}), stack({model, call}), stack({}), StackId::none})
    weights.push_back({.stack = id, .bytes = std::uint64_t{1} << weights.size(), .count = 1});
  Tables& tables = build.trace().tables;
  for (Stack& one : tables.stacks)  // equal frames are one, as in a file
    for (std::uint32_t f = index(one.frame); f > 0; --f)
      if (text_of(frame_text(tables, FrameId{f})) == text_of(frame_text(tables, one.frame))) one.frame = FrameId{f};
  for (Frame& frame : tables.frames)
    for (auto other = static_cast<std::uint32_t>(tables.frames.size()); other-- > 1;)
      if (tables[tables.frames[other].instance] == tables[frame.instance])
        frame.instance = tables.frames[other].instance;
  const std::vector<StackMeaning> meanings = stack_meanings(tables, rules_of_frames(tables));
  EXPECT_TRUE(has_layers(meanings));
  const auto flame = flame_graph(tables, weights, {.are_nodes = layer_frames(tables, meanings), .by_module = true});
  std::vector<std::pair<std::string, std::uint64_t>> names;
  for (std::size_t n = 1; n < flame.size(); ++n) {
    const FrameText frame = frame_text(tables, flame[n].frame);
    names.emplace_back(frame.instance.empty() ? frame.function : frame.instance, flame[n].bytes);
    EXPECT_EQ(flame[n].depth, n);
  }
  EXPECT_EQ(flame.front().bytes, 31U);
  EXPECT_EQ(names, (std::vector<std::pair<std::string, std::uint64_t>>{
                       {"<module>", 15}, {"step", 15}, {"GPT2Model 0", 7}, {"GPT2MLP 3", 3}}));
  EXPECT_FALSE(has_layers({}));
}

TEST(Growing, AFileIsClassifiedAnewWhenItHasGrownByAnEighth) {
  EXPECT_TRUE(is_due(std::nullopt, 1, true, 0)) << "at once";
  EXPECT_FALSE(is_due(800, 899, true, 0));
  EXPECT_TRUE(is_due(800, 900, true, 0));
  EXPECT_TRUE(is_due(800, 801, true, 2.1)) << "what nobody writes to any more is classified whole";
  EXPECT_FALSE(is_due(800, 800, true, 100));
  EXPECT_TRUE(is_due(800, 801, false, 0)) << "written to its end";
}

}  // namespace
}  // namespace memreel::viewer
