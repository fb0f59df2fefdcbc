// SPDX-License-Identifier: Apache-2.0
// Histories from which PyTorch was told to omit actions (skip_actions).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/import/import_support.h"

namespace memreel::test {
namespace {

Trace imported_or_failed(const Document& document) {
  Result<Trace> trace = import_document(document);
  EXPECT_TRUE(trace) << trace.error().message();
  return trace ? std::move(*trace) : Trace{};
}

/// A segment that is used twice, released, and allocated again.
std::vector<Document> whole_history() {
  return {entry("segment_alloc", base, 2 * mib, 1),
          entry("alloc", base, 512, 2),
          entry("free_requested", base, 512, 3),
          entry("free_completed", base, 512, 5),
          entry("alloc", base, 1024, 6),
          entry("free_requested", base, 1024, 7),
          entry("free_completed", base, 1024, 8),
          entry("segment_free", base, 2 * mib, 9),
          entry("segment_alloc", base, 2 * mib, 10),
          entry("alloc", base, 512, 11),
          entry("free_requested", base, 512, 12),
          entry("free_completed", base, 512, 13),
          entry("segment_free", base, 2 * mib, 14)};
}

Trace without(const std::vector<std::string>& actions) {
  std::vector<Document> entries;
  for (const Document& one : whole_history())
    if (std::ranges::find(actions, one["action"].get<std::string>()) == actions.end()) entries.push_back(one);
  return imported_or_failed(snapshot({}, entries));
}

std::vector<std::pair<EventKind, std::int64_t>> frees(const Trace& trace) {
  std::vector<std::pair<EventKind, std::int64_t>> result;
  for (std::size_t i = 0; i < trace.events.count(); ++i)
    if (is_free(trace.events.kind(i))) result.emplace_back(trace.events.kind(i), trace.events.time(i).count() / 1000);
  return result;
}

TEST(SkippedActions, NothingIsMissingFromAWholeHistory) {
  const Trace trace = without({});
  EXPECT_TRUE(trace.losses.skipped.empty());
  EXPECT_EQ(frees(trace).size(), 6U);
}

TEST(SkippedActions, ARequestToFreeIsWhereTheFreeWasCompleted) {
  const Trace trace = without({"free_requested"});
  EXPECT_EQ(trace.losses.skipped, EventKinds{EventKind::free_requested});
  const auto requested = EventKind::free_requested, completed = EventKind::free_completed;
  EXPECT_EQ(frees(trace),
            (std::vector<std::pair<EventKind, std::int64_t>>{
                {requested, 5}, {completed, 5}, {requested, 8}, {completed, 8}, {requested, 13}, {completed, 13}}));
  EXPECT_EQ(trace.losses.unmatched_frees, 0U);
}

TEST(SkippedActions, ACompletionIsWhereTheFreeWasRequested) {
  const Trace trace = without({"free_completed"});
  EXPECT_EQ(trace.losses.skipped, EventKinds{EventKind::free_completed});
  const auto requested = EventKind::free_requested, completed = EventKind::free_completed;
  EXPECT_EQ(frees(trace),
            (std::vector<std::pair<EventKind, std::int64_t>>{
                {requested, 3}, {completed, 3}, {requested, 7}, {completed, 7}, {requested, 12}, {completed, 12}}));
}

TEST(SkippedActions, FreesOfWhichNothingIsLeftAreNotMadeUp) {
  const Trace trace = without({"free_requested", "free_completed"});
  EXPECT_EQ(trace.losses.skipped.text(), "free_requested, free_completed");
  EXPECT_TRUE(frees(trace).empty());
}

TEST(SkippedActions, AllocationsAndSegmentsAreMissed) {
  for (const std::string action : {"alloc", "segment_alloc", "segment_free"})
    EXPECT_EQ(without({action}).losses.skipped.text(), action);
}

TEST(SkippedActions, WhatIsSaidOfAnAllocationStaysWithIt) {
  std::vector<Document> entries{entry("alloc", base, 512, 1), entry("free_completed", base, 512, 2),
                                entry("alloc", base, 512, 3)};
  entries.back()["user_metadata"] = "weights";
  const Trace trace = imported_or_failed(snapshot({}, entries));
  std::vector<std::string> said;
  for (std::size_t i = 0; i < trace.events.count(); ++i)
    if (trace.events.kind(i) == EventKind::alloc)
      said.push_back(trace.tables[trace.tables[trace.events.origin(i)].metadata]);
  EXPECT_EQ(said, (std::vector<std::string>{"", "weights"}));
}

// A program that never frees looks the same as one whose frees were skipped.
TEST(SkippedActions, AHistoryWithoutFreesIsWhole) {
  const Trace trace = imported_or_failed(
      snapshot({}, {entry("segment_alloc", base, 2 * mib, 1), entry("alloc", base, 512, 2),
                    entry("alloc", base + 512, 512, 3), entry("segment_alloc", base + 2 * mib, 2 * mib, 4)}));
  EXPECT_TRUE(trace.losses.skipped.empty());
}

}  // namespace
}  // namespace memreel::test
