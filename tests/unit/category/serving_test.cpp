// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/unit/category/torch_program.h"

namespace memreel {
namespace {

using testing::expect_category;
using testing::Program;
using P = Program;

/// One call of the model: scratch that is freed inside, and logits that the program reads.
void call(Program& program, AllocationId& logits) {
  const AllocationId scratch = program.alloc(700, P::module(11));
  const AllocationId made = program.alloc(50, P::module(14));
  program.free(scratch, P::module(13));
  if (logits != AllocationId::none) program.free(logits, P::user(5));
  logits = made;
  program.pass(P::user(6));  // the next token
}

TEST(Serving, ACacheThatGrowsIsReplacedInsideTheNextCall) {
  Program program;
  const AllocationId weight = program.alloc(4096, P::parameter());
  std::vector<AllocationId> keys;
  AllocationId logits = AllocationId::none;
  for (std::uint64_t token = 0; token < 6; ++token) {
    const AllocationId grown = program.alloc(100 + token, P::module(12));
    if (!keys.empty()) program.free(keys.back(), P::module(12));
    keys.push_back(grown);
    call(program, logits);
  }
  const Categories categories = program.classify();
  EXPECT_EQ(categories.category(weight), Category::parameter);
  for (const AllocationId id : keys) EXPECT_EQ(categories.category(id), Category::kv_cache);
  EXPECT_NE(categories.category(logits), Category::kv_cache);
}

TEST(Serving, WeightsThatConstructorsMadeAreNoInputsHoweverFewTheCalls) {
  for (int calls = 1; calls <= 6; ++calls) {
    Program program;
    std::vector<AllocationId> weights;
    for (const std::uint64_t kib : {4096U, 64U})
      weights.push_back(program.alloc(kib, P::within({"__init__@linear.py:19", "__init__@model.py:5"}, P::user(1))));
    const AllocationId tokens = program.alloc(8, P::user(2));
    AllocationId logits = AllocationId::none;
    for (int i = 0; i < calls; ++i) call(program, logits);
    const Categories categories = program.classify();
    for (const AllocationId id : weights) EXPECT_EQ(categories.category(id), Category::parameter) << calls;
    EXPECT_NE(categories.category(tokens), Category::parameter) << calls;
  }
}

TEST(Serving, PagesThatAreMadeInCallsStayForMany) {
  Program program;
  program.alloc(4096, P::parameter());
  std::vector<AllocationId> pages;
  AllocationId logits = AllocationId::none;
  for (int token = 0; token < 12; ++token) {
    if (token % 4 == 0) pages.push_back(program.alloc(256, P::module(12)));
    call(program, logits);
  }
  for (const AllocationId page : pages) program.free(page, P::user(9));
  const Categories categories = program.classify();
  for (const AllocationId page : pages) EXPECT_EQ(categories.category(page), Category::kv_cache);
}

TEST(Serving, WhatEveryCallLeavesAndNoneReplacesIsNoCache) {
  Program program;
  program.alloc(4096, P::parameter());
  std::vector<AllocationId> states;
  AllocationId logits = AllocationId::none;
  for (int step = 0; step < 12; ++step) {
    states.push_back(program.alloc(256, P::module(12)));
    call(program, logits);
  }
  const Categories categories = program.classify();
  for (const AllocationId state : states) EXPECT_NE(categories.category(state), Category::kv_cache);
}

/// Earlier results were dropped at once; the last one may be what the program wanted.
TEST(Serving, WhatIsLiveAtTheEndIsNoTemporary) {
  for (const P::Stack& place :
       {P::user(7), P::module(12), P::within({"send_to_device@accelerate/utils/operations.py:5"}, P::user(8))}) {
    Program program;
    program.alloc(4096, P::parameter());
    AllocationId logits = AllocationId::none;
    std::vector<AllocationId> results;
    for (int i = 0; i < 6; ++i) {
      call(program, logits);
      results.push_back(program.alloc(300, place));
      if (i < 5) program.free(results.back(), place);
    }
    const Categories categories = program.classify();
    expect_category(categories, {results.begin(), results.end() - 1}, Category::temporary);
    EXPECT_NE(name_of(categories.category(results.back())), "temporary");
  }
}

TEST(Serving, PoolsMadeBeforeTheFirstCallAreTheCacheIfTheyAreNamedSo) {
  Program program;
  program.alloc(4096, P::parameter());
  const AllocationId pool = program.alloc(9000, P::within({"allocate_cache@engine.py:31"}, P::user(2)));
  const AllocationId index = program.alloc(9000, P::within({"load_index@index.py:31"}, P::user(2)));
  const AllocationId made_by_class = program.alloc(8000, P::within({"__init__@pages.py:7"}, P::user(3)));
  AllocationId logits = AllocationId::none;
  for (int token = 0; token < 6; ++token) {
    const AllocationId ids = program.alloc(2, P::user(4));
    call(program, logits);
    program.free(ids, P::user(4));
  }
  const Categories categories = program.classify();
  EXPECT_EQ(categories.category(pool), Category::kv_cache);
  EXPECT_EQ(categories.category(made_by_class), Category::kv_cache);
  EXPECT_EQ(categories.category(index), Category::unknown);
}

TEST(Serving, WhatRequestsLeaveOutsideTheModelIsNotKnown) {
  for (const std::uint64_t size : {1U, 300U}) {  // inputs have 2 KiB
    Program program;
    program.alloc(4096, P::parameter());
    std::vector<AllocationId> history;
    AllocationId logits = AllocationId::none;
    for (int request = 0; request < 12; ++request) {
      const AllocationId ids = program.alloc(2, P::user(4));
      call(program, logits);
      program.free(ids, P::user(4));
      history.push_back(program.alloc(size, P::within({"remember@history.py:5"}, P::user(7))));
    }
    const Categories categories = program.classify();
    for (const AllocationId each : history) EXPECT_EQ(categories.category(each), Category::unknown);
  }
}

TEST(Serving, CacheCodeNamesItself) {
  Program program;
  const P::Stack update = P::within({"update@transformers/cache_utils.py:146"}, P::module(12));
  const AllocationId keys = program.alloc(100, update);
  AllocationId logits = AllocationId::none;
  call(program, logits);
  EXPECT_EQ(program.classify().category(keys), Category::kv_cache);
}

TEST(Unknown, ProgramsWithoutModulesAreNotGuessedAt) {
  Program program;
  for (int i = 0; i < 20; ++i) program.pass(P::user(1));
  const AllocationId kept = program.alloc(4096, P::user(2));
  const Categories categories = program.classify();
  for (const Evidence evidence : categories.evidence) EXPECT_EQ(evidence, Evidence::none);
  EXPECT_EQ(categories.category(kept), Category::unknown);
}

TEST(Names, CategoriesAndEvidenceAreFoundByName) {
  EXPECT_EQ(category_by_name("optimizer_state"), Category::optimizer_state);
  EXPECT_EQ(category_by_name("weights"), std::nullopt);
  EXPECT_EQ(name_of(Category::kv_cache), "kv_cache");
  EXPECT_EQ(row_of(Evidence::private_pool).category, Category::graph_pool);
}

}  // namespace
}  // namespace memreel
