// SPDX-License-Identifier: Apache-2.0
// How snapshots become traces, on small hand-made snapshots.
#include <gtest/gtest.h>

#include <algorithm>

#include "formats/model/live_set.h"
#include "formats/model/stack_text.h"
#include "tests/unit/import/import_support.h"

namespace memreel::test {
namespace {

/// A segment and an allocation that comes and goes.
std::vector<Document> simple_entries() {
  return {entry("segment_alloc", base, 2 * mib, 100), entry("alloc", base, 1000, 101),
          entry("free_requested", base, 1000, 105), entry("free_completed", base, 1000, 105)};
}

Document simple() {
  return snapshot({segment(base, 2 * mib, {block(base, 2 * mib, 0, "inactive")})}, simple_entries());
}

Trace imported_ok(const Document& document) {
  Result<Trace> trace = import_document(document);
  EXPECT_TRUE(trace) << trace.error().message();
  return trace ? std::move(*trace) : Trace{};
}

Event event_of(const Trace& trace, EventKind kind, std::size_t which = 0) {
  for (std::size_t i = 0; i < trace.events.count(); ++i)
    if (trace.events.kind(i) == kind && which-- == 0) return trace.events[i];
  ADD_FAILURE() << "no " << name_of(kind);
  return {};
}

TEST(Snapshot, EntriesBecomeEvents) {
  const Trace trace = imported_ok(simple());
  EXPECT_EQ(kinds(trace), (std::vector{EventKind::segment_alloc, EventKind::alloc, EventKind::free_requested,
                                       EventKind::free_completed}));
  const Event alloc = event_of(trace, EventKind::alloc);
  EXPECT_EQ(alloc.address, Address{base});
  EXPECT_EQ(alloc.size, 1000_B);
  EXPECT_EQ(alloc.time, std::chrono::microseconds(101));
  EXPECT_EQ(event_of(trace, EventKind::free_requested).allocation, static_cast<AllocationId>(0));
  EXPECT_EQ(trace.header.source, "torch.snapshot");
  EXPECT_EQ(trace.header.source_name, "snapshot.pickle");
  EXPECT_EQ(trace.losses, Losses{});
  const Heap& heap = trace.tables[trace.tables[alloc.origin].heap];
  EXPECT_EQ(trace.tables[heap.name], "torch.cuda");
  EXPECT_EQ(heap.level, Level::framework);
  EXPECT_EQ(heap.device, 0);
}

TEST(Snapshot, EveryProtocolGivesTheSameTrace) {
  const Document document = snapshot({}, {with_frames(entry("segment_alloc", base, 2 * mib, 100), {frame("f", 1)}),
                                          with_frames(entry("alloc", base, 70000, 101), {frame("f", 1)})});
  const Result<Trace> reference = import_bytes(pickled(document, 4));
  ASSERT_TRUE(reference) << reference.error().message();
  for (const int protocol : {2, 3, 5}) {
    const Result<Trace> trace = import_bytes(pickled(document, protocol));
    ASSERT_TRUE(trace) << trace.error().message();
    EXPECT_EQ(trace->events, reference->events);
    EXPECT_EQ(trace->tables, reference->tables);
  }
  for (const int protocol : {0, 1, 6})
    EXPECT_NE(refusal(pickled(document, protocol)).find("protocols 2 to 5"), std::string::npos);
}

TEST(Snapshot, JsonGivesTheSameTraceAsPickle) {
  Document document =
      snapshot({segment(base, 2 * mib, {block(base, 512, 500), block(base + 512, 2 * mib - 512, 0, "inactive")})},
               {with_frames(entry("alloc", base + 512, 100, 101), {frame("f", 1), frame("g", 2)}),
                with_frames(entry("free_requested", base + 512, 100, 102), {frame("g", 2)}),
                with_frames(entry("free_completed", base + 512, 100, 102), {frame("g", 2)})});
  document["allocator_settings"] = {{"expandable_segments", false}, {"max_split_size", -1}};
  document["external_annotations"] = {{{"stage", "START"}, {"name", "step"}, {"device", 0}, {"time_us", 101}}};
  const Result<Trace> pickle = import_bytes(pickled(document));
  ASSERT_TRUE(pickle) << pickle.error().message();
  for (const int indent : {-1, 2}) {
    const Result<Trace> json = import_bytes(document.dump(indent));
    ASSERT_TRUE(json) << json.error().message();
    EXPECT_EQ(json->events, pickle->events);
    EXPECT_EQ(json->losses, pickle->losses);
    for (std::size_t i = 0; i < json->events.count(); ++i) {
      std::vector<std::string> json_stack;
      std::vector<std::string> pickle_stack;
      for (const FrameText& f : frames_of(json->tables, json->events.stack(i))) json_stack.push_back(text_of(f));
      for (const FrameText& f : frames_of(pickle->tables, pickle->events.stack(i))) pickle_stack.push_back(text_of(f));
      EXPECT_EQ(json_stack, pickle_stack);
    }
  }
}

TEST(Snapshot, KeysOfOlderReleasesMayBeMissing) {
  std::vector<Document> entries = simple_entries();
  for (Document& e : entries) {
    e.erase("time_us");
    e.erase("frames");
    e.erase("compile_context");
  }
  const Trace trace = imported_ok({{"segments", Document::array()}, {"device_traces", {entries}}});
  EXPECT_EQ(trace.events.count(), 4U);
  EXPECT_EQ(event_of(trace, EventKind::alloc).stack, StackId::none);
  EXPECT_TRUE(std::ranges::is_sorted(trace.events.times()));
}

TEST(Snapshot, EntriesWithoutTimeStayInOrderBetweenTimedOnes) {
  std::vector<Document> entries = simple_entries();
  entries[1].erase("time_us");
  const Trace trace = imported_ok(snapshot({}, entries));
  EXPECT_EQ(kinds(trace)[1], EventKind::alloc);
  EXPECT_EQ(trace.events.time(1), std::chrono::microseconds(100));
}

TEST(Snapshot, DevicesAreMergedByTime) {
  Document document = simple();
  std::vector<Document> second = simple_entries();
  for (Document& e : second) e["time_us"] = e["time_us"].get<int>() + 1;
  document["device_traces"].push_back(second);
  const Trace trace = imported_ok(document);
  ASSERT_EQ(trace.events.count(), 8U);
  EXPECT_TRUE(std::ranges::is_sorted(trace.events.times()));
  std::vector<std::int32_t> devices;
  for (const OriginId origin : trace.events.origins())
    devices.push_back(trace.tables[trace.tables[origin].heap].device);
  EXPECT_EQ(devices, (std::vector<std::int32_t>{0, 0, 1, 1, 0, 0, 1, 1}));
}

TEST(Snapshot, PoolsComeFromTheEntryElseFromItsSegment) {
  Document second = segment(base + 4 * mib, 2 * mib, {});
  second["segment_pool_id"] = {3, 0};
  Document tells = entry("alloc", base + 512, 100, 103);
  tells["pool_id"] = {0, 7};
  const Trace trace = imported_ok(
      snapshot({segment(base, 2 * mib, {block(base, 512, 100), block(base + 512, 512, 100)}), second},
               {entry("segment_alloc", base, 2 * mib, 100), entry("segment_alloc", base + 4 * mib, 2 * mib, 100),
                entry("alloc", base, 100, 101), entry("alloc", base + 4 * mib, 100, 102), tells}));
  const auto pool = [&](std::size_t which) {
    const Pool& row = trace.tables[trace.tables[event_of(trace, EventKind::alloc, which).origin].pool];
    return std::pair(row.key_high, row.key_low);
  };
  EXPECT_EQ(trace.tables[event_of(trace, EventKind::alloc).origin].pool, PoolId::default_pool);
  EXPECT_EQ(pool(1), std::pair(std::uint64_t{3}, std::uint64_t{0}));
  EXPECT_EQ(pool(2), std::pair(std::uint64_t{0}, std::uint64_t{7}));
}

TEST(Snapshot, AnAddressBelongsToThePoolOfItsTime) {
  // A private segment reuses the addresses of an earlier segment of the default pool.
  Document last = segment(base, 2 * mib, {block(base, 512, 100)});
  last["segment_pool_id"] = {3, 0};
  const Trace trace =
      imported_ok(snapshot({last}, {entry("segment_alloc", base, 2 * mib, 100), entry("alloc", base, 100, 101),
                                    entry("free_requested", base, 100, 102), entry("free_completed", base, 100, 102),
                                    entry("segment_free", base, 2 * mib, 103),
                                    entry("segment_alloc", base, 2 * mib, 104), entry("alloc", base, 100, 105)}));
  EXPECT_EQ(trace.tables[event_of(trace, EventKind::alloc, 0).origin].pool, PoolId::default_pool);
  EXPECT_NE(trace.tables[event_of(trace, EventKind::alloc, 1).origin].pool, PoolId::default_pool);
  EXPECT_EQ(trace.tables[event_of(trace, EventKind::segment_free).origin].pool, PoolId::default_pool);
}

TEST(Snapshot, OutOfMemoryBecomesAllocFailed) {
  Document oom = entry("oom", 0, 4096, 102);
  oom.erase("addr");
  oom["device_free"] = 777;
  std::vector<Document> entries = simple_entries();
  entries.push_back(oom);
  const Event failed = event_of(imported_ok(snapshot({}, entries)), EventKind::alloc_failed);
  EXPECT_EQ(failed.size, 4096_B);
  EXPECT_EQ(free_when_failed(failed.value), 777_B);
}

TEST(Snapshot, ADeviceThatHadNothingFreeSaidSo) {
  Document oom = entry("oom", 0, 4096, 102);
  oom.erase("addr");
  oom["device_free"] = 0;
  std::vector<Document> entries = simple_entries();
  entries.push_back(oom);
  const Event failed = event_of(imported_ok(snapshot({}, entries)), EventKind::alloc_failed);
  EXPECT_EQ(free_when_failed(failed.value), 0_B);
}

TEST(Snapshot, AnnotationsAndUserDefinedEntriesBecomeMarks) {
  std::vector<Document> entries = simple_entries();
  Document begin = with_frames(entry("user_defined", 0, 0, 101), {frame("START", 0)});
  begin["frames"][0]["filename"] = "## forward ##";
  entries.insert(entries.begin() + 1, begin);
  Document note = entry("annotate", base, 0, 103);
  note["user_metadata"] = "kept by autograd";
  entries.push_back(note);
  Document document = snapshot({}, entries);
  document["external_annotations"] = {{{"stage", "START"}, {"name", "step"}, {"device", 0}, {"time_us", 100}},
                                      {{"stage", "END"}, {"name", "step"}, {"device", 0}, {"time_us", 104}}};
  const Trace trace = imported_ok(document);
  std::vector<std::pair<std::string, MarkPhase>> marks;
  for (std::size_t i = 0; i < trace.events.count(); ++i) {
    const Event event = trace.events[i];
    if (event.kind != EventKind::mark) continue;
    const Mark& mark = trace.tables[static_cast<MarkId>(event.value)];
    marks.emplace_back(trace.tables[mark.name], mark.phase);
  }
  EXPECT_EQ(marks, (std::vector<std::pair<std::string, MarkPhase>>{{"step", MarkPhase::begin},
                                                                   {"## forward ##", MarkPhase::begin},
                                                                   {"step", MarkPhase::end},
                                                                   {"kept by autograd", MarkPhase::instant}}));
}

TEST(Snapshot, WhatTheProgramSaysOfAnAllocationStaysWithIt) {
  const auto say = [](Document entry, const char* text) {
    entry["user_metadata"] = text;
    return entry;
  };
  const Trace trace = imported_ok(
      snapshot({}, {say(entry("alloc", base, 512, 1), "weights"), entry("alloc", base + 512, 512, 2),
                    say(entry("annotate", base + 512, 0, 3), "saved"), entry("free_completed", base + 512, 512, 4),
                    entry("alloc", base + 512, 512, 5), say(entry("annotate", base, 0, 6), "frozen weights"),
                    say(entry("annotate", base + 4096, 0, 7), "of nobody")}));
  std::vector<std::string> said;
  for (std::size_t i = 0; i < trace.events.count(); ++i)
    if (trace.events.kind(i) == EventKind::alloc)
      said.push_back(trace.tables[trace.tables[trace.events.origin(i)].metadata]);
  EXPECT_EQ(said, (std::vector<std::string>{"frozen weights", "saved", ""}));  // the last one counts
}

TEST(Snapshot, AllocationsOfCompiledCodeNameTheirRegion) {
  std::vector<Document> entries{entry("alloc", base, 512, 1), entry("alloc", base + 512, 512, 2),
                                entry("alloc", base + 1024, 512, 3)};
  entries[1]["compile_context"] = entries[2]["compile_context"] = "Torch-Compiled Region: 0/1";
  entries[2]["user_metadata"] = "weights";
  const Trace trace = imported_ok(snapshot({}, entries));
  std::vector<std::string> said;
  for (std::size_t i = 0; i < trace.events.count(); ++i)
    if (trace.events.kind(i) == EventKind::alloc)
      said.push_back(trace.tables[trace.tables[trace.events.origin(i)].metadata]);
  EXPECT_EQ(said, (std::vector<std::string>{"", "Torch-Compiled Region: 0/1", "weights"}));
}

// A single run of releases without stacks: a pool's destruction, then torch.cuda.empty_cache(), which begins with the
// default pool.
TEST(Snapshot, WhatIsGivenBackBeforeTheDefaultPoolsTurnIsTheEndOfAPool) {
  const auto of_pool = [](Document entry, int pool) {
    entry["pool_id"] = {0, pool};
    return entry;
  };
  const Trace trace = imported_ok(snapshot({}, {of_pool(entry("segment_alloc", base, 20 * mib, 100), 0),
                                                of_pool(entry("segment_alloc", base + 64 * mib, 2 * mib, 101), 3),
                                                of_pool(entry("segment_alloc", base + 128 * mib, 20 * mib, 102), 3),
                                                of_pool(entry("segment_free", base + 64 * mib, 2 * mib, 103), 3),
                                                of_pool(entry("segment_free", base + 128 * mib, 20 * mib, 104), 3),
                                                of_pool(entry("segment_free", base, 20 * mib, 105), 0)}));
  const auto order = kinds(trace);
  EXPECT_EQ(std::vector(order.end() - 6, order.end()),
            (std::vector{EventKind::pool_end, EventKind::empty_cache, EventKind::segment_free, EventKind::segment_free,
                         EventKind::empty_cache, EventKind::segment_free}));
}

TEST(Snapshot, WhatIsInItTellsTheRelease) {
  const auto release = [](bool states_pools, bool limits_host, bool has_host_traces) {
    Document alloc = entry("alloc", base, 100, 101);
    if (states_pools) alloc["pool_id"] = {0, 0};
    Document document = snapshot({}, {entry("segment_alloc", base, 2 * mib, 100), alloc});
    document["allocator_settings"] = {{"max_split_size", -1}};
    if (limits_host) document["allocator_settings"]["max_cached_size"] = -1;
    if (has_host_traces) document["host_traces"] = Document::array();
    const Trace trace = imported_ok(document);
    for (const auto& [key, value] : trace.tables[static_cast<SettingsId>(trace.events[0].value)].entries)
      if (trace.tables[key] == "pytorch_release") return trace.tables[value];
    return std::string();
  };
  EXPECT_EQ(release(false, false, false), "");  // 2.5 to 2.11
  EXPECT_EQ(release(true, false, false), "2.12");
  EXPECT_EQ(release(true, true, false), "2.13");
  EXPECT_EQ(release(true, true, true), "2.14 or newer");
}

TEST(Snapshot, SettingsComeFirstAsText) {
  Document document = simple();
  document["allocator_settings"] = {{"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"},
                                    {"max_split_size", -1},
                                    {"garbage_collection_threshold", 0.6},
                                    {"expandable_segments", true},
                                    {"roundup_power2_divisions", {{"1", 0}, {"2", 4}}}};
  const Trace trace = imported_ok(document);
  ASSERT_EQ(kinds(trace)[0], EventKind::settings);
  std::map<std::string, std::string> settings;
  for (const auto& [key, value] : trace.tables[static_cast<SettingsId>(trace.events[0].value)].entries)
    settings[trace.tables[key]] = trace.tables[value];
  EXPECT_EQ(settings["PYTORCH_CUDA_ALLOC_CONF"], "expandable_segments:True");
  EXPECT_EQ(settings["max_split_size"], "-1");
  EXPECT_EQ(settings["garbage_collection_threshold"], "0.6");
  EXPECT_EQ(settings["expandable_segments"], "True");
  EXPECT_EQ(settings["roundup_power2_divisions"], "[1:0,2:4]");
}

TEST(Snapshot, UnknownActionsAreCountedAndSnapshotsAreNot) {
  std::vector<Document> entries = simple_entries();
  entries.push_back(entry("workspace_snapshot", 0, 0, 110));
  entries.push_back(entry("snapshot", 0, 4096, 111));
  const Trace trace = imported_ok(snapshot({}, entries));
  EXPECT_EQ(trace.events.count(), 4U);
  EXPECT_EQ(trace.losses.unknown_actions, 1U);
}

TEST(Snapshot, WhatWasAllocatedBeforeIsWrittenAtTheStart) {
  Document kept = block(base, 512, 500);
  Document pending = block(base + 512, 512, 400, "active_awaiting_free");
  const Trace trace = imported_ok(
      snapshot({segment(base, 2 * mib, {kept, pending, block(base + 1024, 2 * mib - 1024, 0, "inactive")})},
               {entry("free_requested", base + 4096, 300, 100), entry("free_completed", base + 4096, 300, 101),
                entry("free_completed", base + 8192, 200, 102)}));
  EXPECT_EQ(kinds(trace),
            (std::vector{EventKind::segment_alloc, EventKind::alloc, EventKind::alloc, EventKind::free_requested,
                         EventKind::alloc, EventKind::alloc, EventKind::free_requested, EventKind::free_requested,
                         EventKind::free_completed, EventKind::free_completed}));
  EXPECT_EQ(trace.losses.preexisting_allocations, 4U);
  EXPECT_TRUE(trace.losses.began_late);
  EXPECT_FALSE(trace.losses.history_overflowed);
  EXPECT_EQ(trace.losses.unmatched_frees, 0U);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(trace.events.time(i), std::chrono::microseconds(100));
    if (trace.events.kind(i) != EventKind::alloc) continue;
    const auto frames = frames_of(trace.tables, trace.events.stack(i));
    ASSERT_EQ(frames.size(), 1U);
    EXPECT_EQ(frames[0].function, "<allocated before recording began>");
  }
}

TEST(Snapshot, AFreeOfWhatTheHistoryFreedIsUnmatched) {
  std::vector<Document> entries = simple_entries();
  entries.push_back(entry("free_requested", base, 1000, 110));
  const Trace trace = imported_ok(snapshot({}, entries));
  EXPECT_EQ(trace.losses.preexisting_allocations, 0U);
  EXPECT_EQ(trace.losses.unmatched_frees, 1U);
}

TEST(Snapshot, SegmentsFromBeforeAreFoundInPartsToo) {
  // An expandable segment whose first half was mapped before the recording, and a freed segment.
  Document expandable = segment(base, 40 * mib, {});
  expandable["is_expandable"] = true;
  const Trace trace = imported_ok(snapshot({expandable}, {entry("segment_map", base + 20 * mib, 20 * mib, 100),
                                                          entry("segment_free", base + 100 * mib, 2 * mib, 101)}));
  const Event mapped = event_of(trace, EventKind::segment_map, 0);
  EXPECT_EQ(mapped.address, Address{base});
  EXPECT_EQ(mapped.size, 20_MiB);
  const Event plain = event_of(trace, EventKind::segment_alloc);
  EXPECT_EQ(plain.address, Address{base + 100 * mib});
  EXPECT_EQ(plain.size, 2_MiB);
  EXPECT_TRUE(trace.losses.began_late);
}

TEST(Snapshot, AnOverflowedRingIsFlagged) {
  Document full = simple();
  full["allocator_settings"] = {{"trace_alloc_max_entries", 4}};
  EXPECT_TRUE(imported_ok(full).losses.history_overflowed);
  full["allocator_settings"]["trace_alloc_max_entries"] = 5;
  EXPECT_FALSE(imported_ok(full).losses.history_overflowed);
  full["allocator_settings"]["trace_alloc_overflowed"] = true;
  EXPECT_TRUE(imported_ok(full).losses.history_overflowed);

  // A block whose stack was recorded, but whose record is gone: made in an earlier recording, as far as anyone can
  // tell.
  Document recorded = block(base, 512, 500);
  recorded["frames"] = {frame("f", 1)};
  Document elsewhere = recorded;
  elsewhere["address"] = base + 4096;
  const Trace lost = imported_ok(snapshot({segment(base, 2 * mib, {elsewhere})}, simple_entries()));
  EXPECT_FALSE(lost.losses.history_overflowed);
  EXPECT_TRUE(lost.losses.began_late);
  const auto frames = frames_of(lost.tables, event_of(lost, EventKind::alloc).stack);
  ASSERT_EQ(frames.size(), 2U);
  EXPECT_EQ(frames[0].function, "f");
  EXPECT_EQ(frames[1].function, "<allocated before recording began>");
}

TEST(Snapshot, AListOfSegmentsBecomesWhatIsAlive) {
  // As in PyTorch 2.0: blocks without addresses, with the requests they served.
  const Document old = {
      {{"address", base},
       {"total_size", 2 * mib},
       {"stream", 5},
       {"blocks",
        {{{"size", 512}, {"state", "active_allocated"}, {"history", {{{"addr", base}, {"real_size", 300}}}}},
         {{"size", 1024}, {"state", "inactive"}},
         {{"size", 2048}, {"state", "active_pending_free"}}}}}};
  for (const std::string& content : {pickled(old), old.dump()}) {
    const Result<Trace> trace = import_bytes(content);
    ASSERT_TRUE(trace) << trace.error().message();
    EXPECT_EQ(kinds(*trace), (std::vector{EventKind::settings, EventKind::segment_alloc, EventKind::alloc,
                                          EventKind::alloc, EventKind::free_requested}))
        << "the release is recorded as a setting";
    EXPECT_EQ(event_of(*trace, EventKind::alloc, 0).size, 300_B);
    EXPECT_EQ(event_of(*trace, EventKind::alloc, 1).address, Address{base + 1536});
    EXPECT_EQ(event_of(*trace, EventKind::alloc, 1).size, 2048_B);
    EXPECT_EQ(trace->tables[trace->tables[event_of(*trace, EventKind::alloc).origin].stream].handle, 5U);
    EXPECT_EQ(trace->losses.preexisting_allocations, 2U);
    EXPECT_TRUE(trace->losses.began_late);
  }
}

TEST(Snapshot, WrongTypesAreRefusedWithTheirPlace) {
  const auto with = [](std::string_view key, const Document& value) {
    std::vector<Document> entries = simple_entries();
    entries[2][std::string(key)] = value;
    return refusal(pickled(snapshot({}, entries)));
  };
  EXPECT_NE(with("addr", "0x7f").find("device_traces[0][2]: 'addr' is a string"), std::string::npos);
  EXPECT_NE(with("size", 1.5).find("'size' is a floating-point number"), std::string::npos);
  EXPECT_NE(with("size", -1).find("'size' is negative"), std::string::npos);
  EXPECT_NE(with("time_us", 1e15).find("'time_us' is a floating-point number"), std::string::npos);
  EXPECT_NE(with("time_us", std::int64_t{1} << 62U).find("out of range"), std::string::npos);
  EXPECT_NE(with("frames", "f").find("frames is a string, expected a list"), std::string::npos);
  EXPECT_NE(with("pool_id", 3).find("expected two integers"), std::string::npos);
  EXPECT_NE(with("action", 3).find("action is an integer, expected a string"), std::string::npos);
  EXPECT_NE(refusal(pickled({{"model", 1}})).find("is not a PyTorch memory snapshot"), std::string::npos);
  EXPECT_NE(refusal(pickled("text")).find("expected a dict"), std::string::npos);
}

}  // namespace
}  // namespace memreel::test
