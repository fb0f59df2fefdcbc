// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/insight/leaks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"
#include "tests/leak_programs.h"
#include "tests/leak_score.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using test::MadeUpProgram;

constexpr std::uint64_t seed = 7;

const LeakFinding* finding_at(const Trace& trace, const LeakReport& report, std::uint32_t line) {
  for (const LeakFinding& finding : report.findings) {
    for (const FrameText& frame : frames_of(trace.tables, finding.stack)) {
      if (frame.file == "train.py" && frame.line == line) return &finding;
    }
  }
  return nullptr;
}

TEST(LeakEvidence, SaysHowManyStepsKeptHowMuchWhere) {
  MadeUpProgram program(seed);
  program.set_marked(true);
  program.run([&](std::uint32_t) { program.alloc(41, 4096, true); });
  const LeakReport report = test::leaks_of(program.trace());
  const std::string n = std::to_string(program.steps());
  ASSERT_FALSE(report.findings.empty());
  const LeakFinding& leak = report.findings.front();
  EXPECT_EQ(leak.verdict, LeakVerdict::leak);
  EXPECT_EQ(leak.evidence,
            n + " of " + n + " steps kept 4.00 KiB allocated at train.py:41; nothing allocated there was ever freed");
  EXPECT_NEAR(leak.growth_bytes_per_step, 4096, 1);
  EXPECT_NEAR(leak.growth.r2, 1, 1e-6);
  EXPECT_EQ(leak.oldest, program.steps());
  EXPECT_FALSE(leak.last_free);
}

TEST(LeakEvidence, CountsLostEventsAsFrees) {
  MadeUpProgram program(seed);
  program.set_marked(true);
  program.run([&](std::uint32_t) { program.alloc(41, 4096, true); });
  Trace trace = program.trace();
  trace.losses.ring_full = 1;
  EXPECT_EQ(test::leaks_of(trace).findings.front().verdict, LeakVerdict::leak);
  trace.losses.ring_full = program.steps();
  EXPECT_TRUE(test::leaks_of(trace).unrecorded) << "each may have been freed";
}

/// What group_by_cause() is by its definition, one pattern after the other.
std::vector<std::uint32_t> leaders_of(const std::vector<std::vector<std::uint32_t>>& patterns) {
  const auto is_same = [](const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
    std::vector<std::uint32_t> both, either;
    std::ranges::set_intersection(a, b, std::back_inserter(both));
    std::ranges::set_union(a, b, std::back_inserter(either));
    return 10 * both.size() >= 9 * either.size();
  };
  std::vector<std::uint32_t> leaders, leader_of;
  for (std::uint32_t i = 0; i < patterns.size(); ++i) {
    const auto same = std::ranges::find_if(leaders, [&](std::uint32_t l) { return is_same(patterns[l], patterns[i]); });
    const bool is_new = same == leaders.end();
    leader_of.push_back(is_new ? i : *same);
    if (is_new) leaders.push_back(i);
  }
  return leader_of;
}

TEST(LeakCauses, AreThoseOfTheDefinitionForAllKindsOfPatterns) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  std::vector<std::vector<std::uint32_t>> patterns{{}, {}, {3}, {3}, {4}};
  for (int i = 0; i < 400; ++i) {
    // A variant of an earlier one, or a new one.
    std::vector<std::uint32_t> pattern =
        below(2) == 0 ? patterns[below(static_cast<std::uint32_t>(patterns.size()))] : std::vector<std::uint32_t>{};
    if (pattern.empty())
      for (std::uint32_t round = 0; round < 100; ++round)
        if (below(3) == 0) pattern.push_back(round);
    for (std::uint32_t change = below(5); change > 0 && !pattern.empty(); --change)
      pattern.erase(pattern.begin() + static_cast<std::ptrdiff_t>(below(static_cast<std::uint32_t>(pattern.size()))));
    patterns.push_back(pattern);
  }
  std::vector<LeakFinding> findings(patterns.size());
  for (std::size_t i = 0; i < findings.size(); ++i)
    findings[i] = {.verdict = LeakVerdict::leak, .bytes = Bytes{findings.size() - i}, .swelling = {}, .evidence = {}};
  Tables tables;
  const std::vector<LeakCause> causes = group_by_cause(tables, findings, patterns);
  const std::vector<std::uint32_t> leader_of = leaders_of(patterns);
  EXPECT_GT(causes.size(), 100U);
  EXPECT_LT(causes.size(), 380U);
  for (std::size_t i = 0; i < findings.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_EQ(findings[i].cause == findings[j].cause, leader_of[i] == leader_of[j]) << i << ", " << j;
}

TEST(LeakEvidence, SaysWhatFollowedTheLastStep) {
  MadeUpProgram program(seed);
  program.set_marked(true);
  program.run([&](std::uint32_t) { program.free(program.alloc(51, 4096)); });
  for (int i = 0; i < 3; ++i) program.alloc(51, 4096, true);
  const LeakReport report = test::leaks_of(program.trace());
  const LeakFinding* const last = finding_at(program.trace(), report, 51);
  ASSERT_NE(last, nullptr);
  EXPECT_FALSE(accuses(last->verdict));
  EXPECT_TRUE(
      last->evidence.starts_with("12.00 KiB in 3 allocations at train.py:51 was allocated after the last step; "))
      << last->evidence;
}

TEST(LeakEvidence, SaysWhatBecameOfTheOthers) {
  MadeUpProgram program(seed);
  program.set_marked(true);
  program.run([&](std::uint32_t) {
    program.free(program.alloc(41, 4096));
    program.alloc(41, 4096, true);
  });
  const LeakReport report = test::leaks_of(program.trace());
  EXPECT_NE(
      report.findings.front().evidence.find("others allocated there were freed, each in the step that allocated it"),
      std::string::npos);
  EXPECT_EQ(report.findings.front().last_free, program.steps() - 1);
}

/// A tensor replaced in each step by one that is 1 KiB larger; `work` is the rest of the step.
template <class Work>
LeakReport report_on_growing_copy(MadeUpProgram& program, Work work) {
  program.set_marked(true);
  AllocationId history = program.alloc(41, 1024);
  program.run([&](std::uint32_t i) {
    const AllocationId next = program.alloc(41, 1024 * (i + 2));
    program.free(std::exchange(history, next));
    work(i);
  });
  return test::leaks_of(program.trace());
}

TEST(LeakEvidence, SaysThatItWasFreedOnlyInTheEnd) {
  for (const bool frees_others : {false, true}) {
    MadeUpProgram program(seed);
    program.set_marked(true);
    test::Kept list;
    program.run([&](std::uint32_t) {
      if (frees_others) program.free(program.alloc(41, 4096));
      list.push_back(program.alloc(41, 4096, true));
    });
    test::free_front(program, list, 0);
    program.train();  // an evaluation after the loop changes nothing
    const LeakReport report = test::leaks_of(program.trace());
    ASSERT_FALSE(report.findings.empty());
    const LeakFinding& leak = report.findings.front();
    EXPECT_EQ(leak.verdict, LeakVerdict::leak);
    EXPECT_TRUE(leak.freed_at_end);
    EXPECT_GE(leak.count, program.steps() - 1);  // the last may have been freed in time
    EXPECT_TRUE(leak.evidence.ends_with(frees_others
                                            ? "each in the step that allocated it, these only after the last"
                                            : "nothing allocated there was freed before the last step had ended"))
        << leak.evidence;
  }
}

TEST(LeakVerdicts, WhatALaterLoopLongAfterwardsFreesIsNotHeldToTheEnd) {
  MadeUpProgram program(seed);
  program.set_marked(true);
  test::Kept list;
  program.run([&](std::uint32_t) { list.push_back(program.alloc(41, 4096)); });
  for (std::uint32_t i = 0; i < 2 * program.steps(); ++i) program.train();  // without marks
  test::free_front(program, list, 0);
  program.train();
  EXPECT_TRUE(test::accused_of(test::leaks_of(program.trace())).empty());
}

TEST(LeakEvidence, SaysHowACopyGrew) {
  MadeUpProgram program(seed);
  const LeakReport report = report_on_growing_copy(program, [](std::uint32_t) {});
  const std::string n = std::to_string(program.steps());
  const LeakFinding& leak = report.findings.front();
  EXPECT_EQ(leak.verdict, LeakVerdict::suspected);
  EXPECT_EQ(leak.count, 1U);
  EXPECT_NEAR(leak.growth_bytes_per_step, 1024, 1);
  EXPECT_EQ(leak.evidence, "what is held at train.py:41 was replaced by something larger in " + n + " of " + n +
                               " steps: 2.00 KiB after step 1, " + text_of(leak.bytes) +
                               " at the end; nothing else in the program grows with it");
}

/// The last copy is made after the last step, and what it replaces is freed with what the program leaves.
TEST(LeakEvidence, CountsTheLastCopyOnly) {
  for (const bool frees_at_end : {false, true})
    for (const std::size_t copies : {1U, 3U}) {  // one, or one for each layer
      MadeUpProgram program(seed);
      program.set_marked(true);
      std::vector<AllocationId> history(copies);
      for (AllocationId& each : history) each = program.alloc(41, 1024);
      const auto replace = [&](std::uint32_t i) {
        for (AllocationId& each : history) program.free(std::exchange(each, program.alloc(41, 1024 * (i + 2))));
      };
      program.run(replace);
      replace(program.steps());
      if (frees_at_end)
        for (const AllocationId each : history) program.free(each);
      const LeakReport report = test::leaks_of(program.trace());
      const LeakFinding& leak = report.findings.front();
      ASSERT_EQ(leak.verdict, LeakVerdict::suspected);
      EXPECT_EQ(leak.bytes, Bytes{copies * 1024 * (program.steps() + 2)});
      EXPECT_EQ(leak.allocations, history);
      EXPECT_NE(leak.evidence.find(text_of(leak.bytes) + " at the end"), std::string::npos) << leak.evidence;
    }
}

TEST(LeakVerdicts, ACopyThatGrowsWithTheProgramsWorkIsNotAccused) {
  MadeUpProgram program(seed);
  const LeakReport report =
      report_on_growing_copy(program, [&](std::uint32_t i) { program.free(program.alloc(51, 4096 * (i + 2))); });
  EXPECT_FALSE(accuses(report.findings.front().verdict)) << report.findings.front().evidence;
}

TEST(LeakVerdicts, ACopyThatStoppedGrowingIsNotAccused) {
  MadeUpProgram program(seed);
  program.set_marked(true);
  AllocationId history = program.alloc(41, 1024);
  program.run([&](std::uint32_t i) {
    const AllocationId next = program.alloc(41, 1024 * (std::min(i, program.steps() / 2) + 2));
    program.free(std::exchange(history, next));
  });
  const LeakReport report = test::leaks_of(program.trace());
  EXPECT_FALSE(accuses(report.findings.front().verdict)) << report.findings.front().evidence;
}

TEST(LeakVerdicts, NameWhatIsHeldForAReason) {
  MadeUpProgram program(seed);
  test::Kept ring, garbage;
  program.run([&](std::uint32_t i) {
    ring.push_back(program.alloc(51, 4096));
    test::free_front(program, ring, 5);
    garbage.push_back(program.alloc(52, 4096));
    if (i % 9 == 8) test::free_front(program, garbage, 0);
    if (i < 10) program.alloc(53, 4096);
  });
  program.alloc(52, 4096);
  const LeakReport report = test::leaks_of(program.trace());
  const auto verdict_at = [&](std::uint32_t line) { return finding_at(program.trace(), report, line)->verdict; };
  EXPECT_EQ(verdict_at(1), LeakVerdict::resident);
  EXPECT_EQ(verdict_at(51), LeakVerdict::cache);
  EXPECT_EQ(verdict_at(53), LeakVerdict::warm_up);
  EXPECT_TRUE(report.causes.empty());
  if (garbage.size() > 1) {
    EXPECT_EQ(verdict_at(52), LeakVerdict::sawtooth);
  }
}

TEST(LeakVerdicts, EverySurvivorIsInExactlyOneFinding) {
  for (const test::KindOfProgram& kind : test::kinds_of_programs()) {
    MadeUpProgram program(seed);
    kind.run(program);
    std::vector<int> seen(program.trace().events.allocation_count()), freed(seen.size());
    for (const LeakFinding& finding : test::leaks_of(program.trace()).findings) {
      Bytes bytes;
      for (const AllocationId id : finding.allocations) {
        ++seen[index(id)];
        freed[index(id)] += accuses(finding.verdict) && finding.freed_at_end;
        bytes += program.trace().events.size(program.trace().events.begin_of(id));
      }
      EXPECT_EQ(finding.count, finding.allocations.size());
      EXPECT_EQ(finding.bytes, bytes);
    }
    std::vector<int> live(seen.size(), 1);
    for (std::size_t i = 0; i < program.trace().events.count(); ++i) {
      if (program.trace().events.kind(i) == EventKind::free_requested)
        live[index(program.trace().events.allocation(i))] = 0;
    }
    for (std::size_t a = 0; a < seen.size(); ++a)
      EXPECT_EQ(seen[a], live[a] != 0 ? 1 : std::min(1, freed[a]))
          << kind.name;  // freed in the end, and a leak all the same
  }
}

TEST(LeakCauses, AKeptGraphIsOneWhateverItsStacks) {
  MadeUpProgram program(seed);
  program.run(
      [&](std::uint32_t i) {
        program.forward(4096, true);
        program.backward();
        if (i % 3 == 0) program.alloc(47, 100, true);
      },
      false);
  const LeakReport report = test::leaks_of(program.trace());
  ASSERT_EQ(report.causes.size(), 2U);
  EXPECT_EQ(report.causes[0].stacks, 4U);
  EXPECT_EQ(program.trace().tables[program.trace().tables[report.causes[0].frame].function], "step");
  EXPECT_EQ(report.causes[1].stacks, 1U);
  Bytes sum;
  for (const LeakFinding& finding : report.findings) {
    if (finding.cause == 0) sum += finding.bytes;
  }
  EXPECT_EQ(sum, report.causes[0].bytes);
  EXPECT_GT(report.causes[0].bytes, report.causes[1].bytes);
}

TEST(Leaks, TimeUntilMemoryRunsOutFollowsFromTheCapacity) {
  MadeUpProgram program(seed);
  program.run([&](std::uint32_t) { program.alloc(41, 1 << 20, true); });
  LeakOptions options;
  EXPECT_FALSE(test::leaks_of(program.trace(), options).heaps.front().steps_left);
  options.capacity = 1_GiB;
  EXPECT_NEAR(test::leaks_of(program.trace(), options).heaps.front().steps_left.value_or(0), 1024, 1);
}

TEST(Leaks, WhatIsSuppressedIsCountedAndNotAccused) {
  MadeUpProgram program(seed);
  program.run([&](std::uint32_t) { program.alloc(41, 4096, true); });
  LeakOptions options;
  ASSERT_TRUE(options.suppressions.add_lines("leak:train.py", ""));
  const LeakReport report = test::leaks_of(program.trace(), options);
  ASSERT_EQ(report.suppressed.size(), 1U);
  EXPECT_EQ(report.suppressed[0].count, program.steps());
  EXPECT_EQ(report.suppressed[0].bytes, Bytes{4096} * program.steps());
  EXPECT_EQ(finding_at(program.trace(), report, 41), nullptr);
}

TEST(Leaks, WhatWasThereBeforeTheRecordingIsNotJudged) {
  testing::TraceBuilder build;
  const OriginId origin = build.origin(HeapId{1});
  const std::string before_recording = std::string(preexisting_frame) + "@:0";
  const StackId before = build.stack({before_recording});
  for (std::uint64_t i = 0; i < 3; ++i) build.alloc(origin, {4096 * (i + 1)}, 4096_B, before);
  const LeakReport report = test::leaks_of(build.trace());
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings[0].verdict, LeakVerdict::unknown_before_attach);
  EXPECT_EQ(report.findings[0].bytes, 12288_B);
}

/// A program with marked steps that held memory when its recording began.
class LateProgram : public ::testing::Test {
 protected:
  LateProgram() {
    Tables& tables = build_.trace().tables;
    tables.strings.emplace_back("step");
    tables.marks.push_back(
        {.name = StringId{static_cast<std::uint32_t>(tables.strings.size() - 1)}, .phase = MarkPhase::end});
  }
  AllocationId alloc(StackId stack, Bytes size) { return build_.alloc(origin_, {next_ += 1 << 20}, size, stack); }
  void end_step() { build_.push({.kind = EventKind::mark, .origin = origin_, .value = 1}); }
  std::vector<LeakFinding> accused() {
    std::vector<LeakFinding> findings = test::leaks_of(build_.trace()).findings;
    std::erase_if(findings, [](const LeakFinding& finding) { return !accuses(finding.verdict); });
    return findings;
  }

  testing::TraceBuilder build_;
  OriginId origin_ = build_.origin(HeapId{1});
  std::string before_ = std::string(preexisting_frame) + "@:0";
  StackId unknown_ = build_.stack({before_});
  StackId keeps_ = build_.stack({"keep@train.py:30", "<module>@train.py:90"});
  std::uint64_t next_ = 1 << 20;
};

TEST_F(LateProgram, WhatReplacesOlderMemoryOfItsSizeDoesNotLeak) {
  std::vector<AllocationId> queue;
  for (int i = 0; i < 40; ++i) queue.push_back(alloc(unknown_, 4096_B));
  for (std::size_t i = 0; i < 20; ++i) {
    build_.free(queue[i]);
    alloc(keeps_, 4096_B);
    end_step();
  }
  EXPECT_TRUE(accused().empty());
  for (int i = 0; i < 60; ++i) {
    alloc(keeps_, 4096_B);
    end_step();
  }
  EXPECT_EQ(accused().size(), 1U) << "the queue has long been full";
}

TEST_F(LateProgram, NothingLeaksMoreThanLiveMemoryGrows) {
  const AllocationId pool = alloc(unknown_, 1_GiB);
  build_.free(pool);
  std::vector<AllocationId> others;
  for (int i = 0; i < 20; ++i)
    others.push_back(alloc(build_.stack({"load@train.py:10", "<module>@train.py:80"}), 8_KiB));
  for (std::size_t i = 0; i < 20; ++i) {
    build_.free(others[i]);
    alloc(keeps_, 4_KiB);
    alloc(keeps_, 4_KiB);
    end_step();
  }
  EXPECT_TRUE(accused().empty());
}

TEST_F(LateProgram, OlderMemoryWithTheStackAndTheSizeOfALeakBelongsToIt) {
  const StackId kept_before = build_.stack({"keep@train.py:30", "<module>@train.py:90", before_});
  const StackId elsewhere = build_.stack({"load@train.py:10", "<module>@train.py:90", before_});
  for (int i = 0; i < 5; ++i) alloc(kept_before, 4_KiB);
  alloc(kept_before, 1_MiB);
  alloc(elsewhere, 4_KiB);
  alloc(unknown_, 4_KiB);
  for (int i = 0; i < 20; ++i) {
    alloc(keeps_, 4_KiB);
    end_step();
  }
  ASSERT_EQ(accused().size(), 1U);
  EXPECT_EQ(accused().front().count, 25U);
  EXPECT_EQ(accused().front().bytes, 100_KiB);
}

TEST(Leaks, WhatTheDriverUsesAndNobodyHoldsIsUnattributed) {
  testing::TraceBuilder build;
  const HeapId driver = build.heap("cuda.driver", Level::driver, 0);
  const OriginId origin = build.origin(driver);
  build.alloc(origin, {4096}, 10_MiB);
  build.push({.kind = EventKind::memory_info, .origin = origin, .size = 500_MiB, .value = 0});
  const LeakReport report = test::leaks_of(build.trace());
  const auto found = std::find_if(report.findings.begin(), report.findings.end(), [](const LeakFinding& finding) {
    return finding.verdict == LeakVerdict::unattributed;
  });
  ASSERT_NE(found, report.findings.end());
  EXPECT_EQ(found->bytes, 490_MiB);
}

TEST(Leaks, WhatAPoolOfTheDriverHasFreeIsNotWhatTheDeviceHas) {
  testing::TraceBuilder build;
  const OriginId device = build.origin(build.heap("cuda.driver", Level::driver, 0));
  build.trace().tables.pools.push_back({.name = build.string("async")});
  const OriginId pool = build.origin(HeapId{2}, 0, PoolId{1});
  build.alloc(device, {4096}, 10_MiB);
  build.push({.kind = EventKind::memory_info, .origin = device, .size = 500_MiB, .value = 0});
  build.push({.kind = EventKind::memory_info, .origin = pool, .size = 5_MiB, .value = (34_MiB).count});
  const LeakReport report = test::leaks_of(build.trace());
  const auto found = std::ranges::find(report.findings, LeakVerdict::unattributed, &LeakFinding::verdict);
  ASSERT_NE(found, report.findings.end());
  EXPECT_EQ(found->bytes, 490_MiB);
}

TEST(Leaks, MemoryThatAPoolTookFromTheDriverIsThePools) {
  testing::TraceBuilder build;
  const HeapId driver = build.heap("cuda.driver", Level::driver, 0);
  build.trace().tables.heaps[1].parent = driver;
  const OriginId below = build.origin(driver);
  const OriginId pool = build.origin(HeapId{1});
  for (std::uint64_t i = 1; i <= 64; ++i) {
    build.alloc(below, {i << 21U}, 2_MiB);
    build.event(EventKind::segment_alloc, pool, {i << 21U}, 2_MiB);
    for (std::uint64_t k = 0; k < 4; ++k) build.free(build.alloc(pool, {(i << 21U) + k * 512}, 512_B));
  }
  EXPECT_TRUE(test::leaks_of(build.trace()).findings.empty());
}

/// A program of 40 steps, each of which leaks 100 KiB in a pool, and goes on without the pool after `steps_of_pool`.
struct PoolOfALeak {
  testing::TraceBuilder build;
  OriginId pool = build.origin(build.heap("mine", Level::framework, 0));
  std::vector<AllocationId> kept;

  void work(std::uint32_t steps) {
    const StackId stack = build.stack({"leak@pool.cpp:9", "main@pool.cpp:20"});
    for (std::uint32_t step = 0; step < steps; ++step) {
      build.free(build.alloc(pool, {0x10'0000}, 1_MiB, build.stack({"work@pool.cpp:8", "main@pool.cpp:21"})));
      kept.push_back(build.alloc(pool, {0x1000'0000 + kept.size() * 0x10'0000}, 100_KiB, stack));
      end_step();
    }
  }
  void end_step() {
    Tables& tables = build.trace().tables;
    tables.marks = {{}, {.name = build.string("step")}};
    build.push({.kind = EventKind::mark, .origin = pool, .value = 1});
  }
  void destroy() {
    build.push({.kind = EventKind::pool_destroyed, .origin = pool});
    for (const AllocationId id : std::exchange(kept, {})) build.free(id);
  }
};

TEST(Leaks, WhatAPoolsDestructionFreesHasLeaked) {
  for (const std::uint32_t later : {0U, 1U, 30U}) {  // steps without the pool
    PoolOfALeak program;
    program.build.push({.kind = EventKind::pool_created, .origin = program.pool});
    program.work(40);
    program.destroy();
    for (std::uint32_t step = 0; step < later; ++step) program.end_step();
    const LeakReport report = test::leaks_of(program.build.trace());
    ASSERT_FALSE(report.findings.empty());
    const LeakFinding& leak = report.findings.front();
    EXPECT_EQ(leak.verdict, LeakVerdict::leak) << later;
    EXPECT_EQ(leak.bytes, 4000_KiB);
    EXPECT_EQ(leak.evidence,
              "40 of 40 steps kept 100.00 KiB allocated at pool.cpp:9; nothing allocated there was ever freed; it was "
              "live when its pool was destroyed");
  }
}

TEST(Leaks, APoolThatEachStepDestroysIsAnArena) {
  PoolOfALeak program;
  for (std::uint32_t step = 0; step < 40; ++step) {
    program.work(1);
    program.destroy();
  }
  for (const LeakFinding& finding : test::leaks_of(program.build.trace()).findings)
    EXPECT_FALSE(accuses(finding.verdict)) << finding.evidence;
}

TEST(Leaks, WhereLivesAreNotRecordedNothingIsJudged) {
  MadeUpProgram program(seed);
  program.set_marked(true);
  program.run([&](std::uint32_t) { program.alloc(41, 4096, true); });
  Trace trace = program.trace();
  const auto skipping = [&](std::initializer_list<EventKind> kinds) {
    trace.losses.skipped = {};
    for (const EventKind kind : kinds) trace.losses.skipped.add(kind);
    return test::leaks_of(trace);
  };
  for (const EventKind one : {EventKind::free_requested, EventKind::free_completed, EventKind::segment_alloc}) {
    const LeakReport judged = skipping({one});
    EXPECT_FALSE(judged.unrecorded);
    ASSERT_FALSE(judged.findings.empty());
    EXPECT_EQ(judged.findings.front().verdict, LeakVerdict::leak);
  }
  for (const LeakReport& unjudged :
       {skipping({EventKind::alloc}), skipping({EventKind::free_requested, EventKind::free_completed})}) {
    EXPECT_TRUE(unjudged.unrecorded);
    EXPECT_TRUE(unjudged.heaps.empty() && unjudged.findings.empty() && unjudged.causes.empty());
  }
}

TEST(Leaks, AnEmptyTraceHasNone) { EXPECT_TRUE(test::leaks_of(Trace{}).findings.empty()); }

}  // namespace
}  // namespace memreel
