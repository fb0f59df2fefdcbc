// SPDX-License-Identifier: Apache-2.0
// Flight recorders: what they keep is correct, and within their space limit at every moment.
#include "formats/writer/flight_writer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "formats/reader/trace_reader.h"
#include "tests/bench/synthetic.h"

namespace memreel {
namespace {

using std::chrono::microseconds, std::chrono::seconds;
using synthetic::Random;

/// A directory that is deleted after the test.
class FlightTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "memreel-flight-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path file() const { return directory_ / "run.reel"; }

  std::unique_ptr<FlightWriter> writer(FlightLimits limits) const {
    return std::make_unique<FlightWriter>(*live_file_sink(file()), file(), 0600, Header{.producer = "test"}, limits);
  }

  std::uint64_t bytes_on_disk() const {
    std::uint64_t size = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) size += entry.file_size();
    return size;
  }

  std::filesystem::path directory_;
};

/// Programs that allocate and free, hold segments, and record settings and marks; and what of it is live.
class Program {
 public:
  struct Live {
    HeapId heap = HeapId::none;
    std::string function;
    Bytes size;
    Nanoseconds born{};
    bool pending = false;
    friend auto operator<=>(const Live&, const Live&) = default;
  };

  Program(TraceOutput& output, std::uint64_t seed) : output_(output), random_(seed) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      const HeapId heap = output.intern(
          Heap{.name = output.intern("heap" + std::to_string(i)), .device = 0, .observes_completion = i == 1});
      origins_.push_back(output.intern(Origin{.heap = heap}));
    }
    for (std::uint32_t i = 0; i < 50; ++i) {
      functions_.push_back("function" + std::to_string(i));
      const FrameId frame = output.intern(Frame{.function = output.intern(functions_.back()), .line = i + 1});
      stacks_.push_back(
          output.intern(Stack{.frame = frame, .caller = stacks_.empty() ? StackId::none : stacks_[random_.below(i)]}));
    }
    const SettingsId settings = output.intern(Settings{{{output.intern("key"), output.intern("value")}}});
    append({.kind = EventKind::settings, .origin = origins_[0], .value = index(settings)});
  }

  void run(std::uint64_t steps) {
    for (std::uint64_t i = 0; i < steps; ++i) step();
  }

  std::map<std::pair<HeapId, Address>, Live> live;
  std::map<Address, Bytes> segments;
  std::map<std::string, std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>> sums;  // by function
  std::uint64_t events = 0;
  Nanoseconds time{1'700'000'000'000'000'000};

 private:
  struct Handle {
    AllocationId id;
    OriginId origin = OriginId::none;
    Address address;
  };

  AllocationId append(Event event) {
    event.time = time;
    ++events;
    return output_.append(event);
  }

  void step() {
    time += microseconds(random_.below(2000));
    if (random_.chance(2000)) {
      const MarkId mark = output_.intern(Mark{.name = output_.intern("mark " + std::to_string(events))});
      append({.kind = EventKind::mark, .value = index(mark)});
    } else if (random_.chance(200)) {
      const Address address{(1 + random_.below(64)) << 40U};
      if (segments.erase(address) != 0) {
        append({.kind = EventKind::segment_free, .origin = origins_[0], .address = address, .size = 1_MiB});
      } else {
        append({.kind = EventKind::segment_alloc, .origin = origins_[0], .address = address, .size = 1_MiB});
        segments[address] = 1_MiB;
      }
    } else if (handles_.size() < 20 || (handles_.size() < 400 && random_.chance(2))) {
      allocate();
    } else {
      free();
    }
  }

  void allocate() {
    const std::size_t which = random_.below(stacks_.size());
    Event event{.kind = EventKind::alloc,
                .origin = origins_[random_.below(2)],
                .stack = stacks_[which],
                .address = {(1 + random_.below(100'000)) << 8U},
                .size = {1 + random_.below(100'000)}};
    const HeapId heap = output_.tables()[event.origin].heap;
    if (live.contains({heap, event.address})) return;
    live[{heap, event.address}] = {heap, functions_[which], event.size, time};
    auto& [count, bytes, frees, freed] = sums[functions_[which]];
    ++count;
    bytes += event.size.count;
    handles_.push_back({append(event), event.origin, event.address});
  }

  void free() {
    const std::size_t which = random_.below(handles_.size());
    const Handle handle = handles_[which];
    const HeapId heap = output_.tables()[handle.origin].heap;
    Live& one = live.at({heap, handle.address});
    const bool by_address = random_.chance(3);
    Event event{.kind = one.pending ? EventKind::free_completed : EventKind::free_requested,
                .origin = handle.origin,
                .allocation = by_address ? AllocationId::none : handle.id,
                .address = handle.address};
    append(event);
    if (!one.pending) {
      auto& [count, bytes, frees, freed] = sums[one.function];
      ++frees;
      freed += one.size.count;
    }
    if (event.kind == EventKind::free_requested && output_.tables()[heap].observes_completion) {
      one.pending = true;
      return;
    }
    live.erase({heap, handle.address});
    handles_[which] = handles_.back();
    handles_.pop_back();
  }

  TraceOutput& output_;
  Random random_;
  std::vector<OriginId> origins_;
  std::vector<StackId> stacks_;
  std::vector<std::string> functions_;
  std::vector<Handle> handles_;
};

/// What is live at the end of a trace, from the program's own tracking.
std::multiset<std::tuple<std::string, std::string, Address, Bytes, Nanoseconds, bool>> live_in(const Trace& trace) {
  LiveSet live(trace.tables);
  for (std::size_t i = 0; i < trace.events.count(); ++i) {
    Event event = trace.events[i];
    live.apply(event);
  }
  std::multiset<std::tuple<std::string, std::string, Address, Bytes, Nanoseconds, bool>> found;
  for (const LiveAllocation& one : live.snapshot().allocations)
    found.emplace(trace.tables[trace.tables[trace.tables[one.origin].heap].name],
                  trace.tables[trace.tables[trace.tables[one.stack].frame].function], one.address, one.size,
                  trace.events.time(trace.events.begin_of(one.allocation)), one.pending);
  return found;
}

void expect_live(const Trace& trace, const Program& program, const Tables& tables) {
  std::multiset<std::tuple<std::string, std::string, Address, Bytes, Nanoseconds, bool>> truth;
  for (const auto& [place, one] : program.live)
    truth.emplace(tables[tables[one.heap].name], one.function, place.second, one.size, one.born, one.pending);
  EXPECT_EQ(live_in(trace), truth);
}

TEST_F(FlightTest, StaysInItsSpaceAndKeepsWhatIsLiveAtEveryMoment) {
  const auto flight = writer({.size = 1_MiB});
  Program program(*flight, 1);
  for (int round = 0; round < 300; ++round) {
    program.run(3000);
    ASSERT_TRUE(flight->flush());
    ASSERT_LE(bytes_on_disk(), (1_MiB).count) << round;
    ASSERT_EQ(flight->disk_used(), Bytes{bytes_on_disk()});
    if (round % 20 != 0) continue;
    const auto trace = load(file());
    ASSERT_TRUE(trace) << trace.error().message();
    ASSERT_TRUE(trace->read.intact());
    ASSERT_EQ(trace->losses.unmatched_frees, 0);
    expect_live(*trace, program, flight->tables());
    EXPECT_EQ(trace->losses.folded_events + trace->events.count(), program.events);
  }
  EXPECT_GE(flight->rotations(), 3);
  ASSERT_TRUE(flight->finish());
  const auto trace = load(file());
  ASSERT_TRUE(trace);
  EXPECT_TRUE(trace->read.has_footer);
  EXPECT_FALSE(std::filesystem::exists(file().string() + ".next"));
  expect_live(*trace, program, flight->tables());
}

TEST_F(FlightTest, SumsAndEventsTogetherAreTheWholeHistory) {
  const auto flight = writer({.size = 1_MiB});
  Program program(*flight, 2);
  program.run(600'000);
  ASSERT_GE(flight->rotations(), 1);
  ASSERT_TRUE(flight->finish());
  const auto trace = load(file());
  ASSERT_TRUE(trace);
  ASSERT_FALSE(trace->folded.empty());
  std::map<std::string, std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>> found;
  const auto function_of = [&](StackId stack) {
    return trace->tables[trace->tables[trace->tables[stack].frame].function];
  };
  for (const FoldedRow& row : trace->folded.rows) {
    auto& [count, bytes, frees, freed] = found[function_of(row.stack)];
    count += row.allocations;
    bytes += row.allocated.count;
    frees += row.frees;
    freed += row.freed.count;
  }
  std::set<AllocationId> pending;
  for (std::size_t i = 0; i < trace->events.count(); ++i) {
    const Event event = trace->events[i];
    if (event.time <= trace->folded.until) continue;
    if (event.kind == EventKind::alloc) {
      auto& [count, bytes, frees, freed] = found[function_of(event.stack)];
      ++count;
      bytes += event.size.count;
    } else if (event.kind == EventKind::free_requested) {
      const StackId stack = trace->events.stack(trace->events.begin_of(event.allocation));
      auto& [count, bytes, frees, freed] = found[function_of(stack)];
      ++frees;
      freed += event.size.count;
    }
  }
  EXPECT_EQ(found, program.sums);
}

TEST_F(FlightTest, EveryPrefixOfTheFileIsSound) {
  const auto flight = writer({.size = 1_MiB});
  Program program(*flight, 3);
  program.run(400'000);
  ASSERT_TRUE(flight->flush());
  ASSERT_GE(flight->rotations(), 1);
  std::ifstream in(file(), std::ios::binary);
  const std::string all((std::istreambuf_iterator<char>(in)), {});
  Random random(3);
  for (int i = 0; i < 100; ++i) {
    const std::size_t size = 40 + random.below(all.size() - 40);
    const auto bytes = std::as_bytes(std::span(all)).first(size);
    const auto trace = load(memory_file(bytes), "prefix");
    ASSERT_TRUE(trace) << size;
    EXPECT_EQ(trace->read.damaged_packets, 0);
    EXPECT_EQ(trace->read.missing_events, 0);
    EXPECT_EQ(trace->read.orphaned_frees, 0);
  }
}

TEST_F(FlightTest, KeepsTheEventsOfTheTimeThatWasAskedFor) {
  const auto flight = writer({.size = 64_MiB, .span = seconds(20)});
  Program program(*flight, 4);
  for (int i = 0; i < 60; ++i) {
    program.run(2000);
    ASSERT_TRUE(flight->flush());
  }
  EXPECT_GE(flight->rotations(), 1);
  const auto trace = load(file());
  ASSERT_TRUE(trace);
  EXPECT_LE(trace->losses.folded_until, program.time - seconds(20));
  EXPECT_GE(trace->losses.folded_until, program.time - seconds(45));
}

TEST_F(FlightTest, TablesHaveWhatIsReferredToAndNothingElse) {
  const auto flight = writer({.size = 1_MiB});
  Program program(*flight, 5);
  program.run(900'000);
  ASSERT_GE(flight->rotations(), 3);
  ASSERT_TRUE(flight->finish());
  const auto trace = load(file());
  ASSERT_TRUE(trace);
  std::uint64_t marks = 0;
  for (const EventKind kind : trace->events.kinds()) marks += kind == EventKind::mark;
  EXPECT_EQ(trace->tables.marks.size(), 1 + marks);
  EXPECT_LT(trace->tables.marks.size(), flight->tables().marks.size());
  EXPECT_EQ(std::ranges::count(trace->events.kinds(), EventKind::settings), 1);
}

/// The ranges open at the end of a trace, by thread, from the trace alone.
std::map<std::uint64_t, std::vector<std::string>> open_in(const Trace& trace) {
  std::map<std::uint64_t, std::vector<std::string>> open;
  for (std::size_t i = 0; i < trace.events.count(); ++i) {
    if (trace.events.kind(i) != EventKind::mark) continue;
    const Mark& mark = trace.tables.marks[trace.events.address_or_value(i)];
    std::vector<std::string>& names = open[trace.tables[trace.tables[trace.events.origin(i)].thread].tid];
    if (mark.phase == MarkPhase::begin) names.push_back(trace.tables[mark.name]);
    if (mark.phase == MarkPhase::end) {
      EXPECT_FALSE(names.empty());
      EXPECT_EQ(names.back(), trace.tables[mark.name]);
      if (!names.empty()) names.pop_back();
    }
  }
  return open;
}

TEST_F(FlightTest, RangesThatAreOpenStayKnown) {
  const auto flight = writer({.size = 1_MiB});
  Program program(*flight, 8);
  const auto say = [&](std::uint64_t thread, const std::string& name, MarkPhase phase) {
    const OriginId origin = flight->intern(Origin{.thread = flight->intern(Thread{.tid = thread})});
    const MarkId mark = flight->intern(Mark{.name = flight->intern(name), .phase = phase});
    flight->append({.kind = EventKind::mark, .origin = origin, .time = program.time, .value = index(mark)});
  };
  const auto rotate = [&](std::uint64_t times) {
    for (const std::uint64_t goal = flight->rotations() + times; flight->rotations() < goal;) program.run(1000);
    ASSERT_TRUE(flight->flush());
  };
  for (const char* name : {"run", "epoch", "step"}) say(1, name, MarkPhase::begin);
  for (const char* name : {"loader", "step"}) say(2, name, MarkPhase::begin);
  rotate(2);
  using Open = std::map<std::uint64_t, std::vector<std::string>>;
  EXPECT_EQ(open_in(*load(file())), (Open{{0, {}}, {1, {"run", "epoch", "step"}}, {2, {"loader", "step"}}}));
  say(1, "step", MarkPhase::end);
  say(2, "step", MarkPhase::end);
  say(2, "loader", MarkPhase::end);
  rotate(2);
  EXPECT_EQ(open_in(*load(file())), (Open{{0, {}}, {1, {"run", "epoch"}}}));
}

TEST_F(FlightTest, SegmentsKeepTheTimesAtWhichTheyWereGot) {
  const auto flight = writer({.size = 1_MiB});
  Program program(*flight, 10);
  const OriginId origin = flight->intern(Origin{.heap = flight->intern(Heap{.name = flight->intern("expandable")})});
  std::map<Address, Nanoseconds> truth;
  const auto segment = [&](EventKind kind, std::uint64_t address, Bytes size) {
    flight->append({.kind = kind, .origin = origin, .time = program.time, .address = {address << 50U}, .size = size});
    truth[{address << 50U}] = program.time;
  };
  segment(EventKind::segment_alloc, 1, 2_MiB);
  program.run(1000);
  segment(EventKind::segment_alloc, 8191, {std::uint64_t{1} << 63U});  // nonsense from a custom pool
  program.run(1000);
  segment(EventKind::segment_map, 3, 20_MiB);
  while (flight->rotations() < 4) program.run(1000);
  ASSERT_TRUE(flight->flush());
  const auto trace = load(file());
  ASSERT_TRUE(trace);
  std::map<Address, Nanoseconds> found;
  for (std::size_t i = 0; i < trace->events.count(); ++i) {
    const Event event = trace->events[i];
    const Heap& heap = trace->tables[trace->tables[event.origin].heap];
    if (is_segment(event.kind) && trace->tables[heap.name] == "expandable") found[event.address] = event.time;
  }
  EXPECT_EQ(found, truth);
}

TEST_F(FlightTest, RangesThatNeverEndAreBounded) {
  const auto flight = writer({.size = 1_MiB});
  Program program(*flight, 9);
  for (std::uint64_t thread = 1; thread <= 100; ++thread) {
    const OriginId origin = flight->intern(Origin{.thread = flight->intern(Thread{.tid = thread})});
    for (int i = 0; i < 100; ++i) {
      const MarkId mark =
          flight->intern(Mark{.name = flight->intern("range " + std::to_string(i)), .phase = MarkPhase::begin});
      flight->append({.kind = EventKind::mark, .origin = origin, .time = program.time, .value = index(mark)});
    }
  }
  while (flight->rotations() < 2) program.run(1000);
  ASSERT_TRUE(flight->flush());
  const auto trace = load(file());
  ASSERT_TRUE(trace);
  std::size_t open = 0;
  for (const auto& [thread, names] : open_in(*trace)) {
    open += names.size();
    EXPECT_LE(names.size(), OpenRanges::deepest);
    if (thread == 1) {
      EXPECT_EQ(names.back(), "range 99");
    }
  }
  EXPECT_EQ(open, OpenRanges::most);
}

TEST_F(FlightTest, WhatIsLiveAloneMayNeedMoreRoomThanThereIs) {
  const auto flight = writer({.size = 1_MiB});
  const HeapId heap = flight->intern(Heap{.name = flight->intern("heap"), .observes_completion = false});
  const OriginId origin = flight->intern(Origin{.heap = heap});
  Random random(6);
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    flight->append({.kind = EventKind::alloc,
                    .origin = origin,
                    .time = microseconds(i),
                    .address = {(i << 20U) + (random.next() & 0xFFFF0)},
                    .size = {1 + random.below(1 << 30)}});
    if (i % 5000 == 0) {
      ASSERT_TRUE(flight->flush());
      ASSERT_LE(bytes_on_disk(), (1_MiB).count);
    }
  }
  ASSERT_TRUE(flight->finish());
  const auto trace = load(file());
  ASSERT_TRUE(trace);
  EXPECT_TRUE(trace->read.intact());
  EXPECT_GT(trace->losses.folded_left_out, 0);
}

TEST_F(FlightTest, LiveBytesAreThoseOfTheProgram) {
  const auto flight = writer({.size = 1_MiB});
  Program program(*flight, 7);
  program.run(500'000);
  std::map<HeapId, Bytes> truth;
  for (const auto& [place, one] : program.live)
    if (!one.pending) truth[one.heap] += one.size;
  for (const auto& [heap, bytes] : truth) EXPECT_EQ(flight->state_of(heap).live, bytes);
}

}  // namespace
}  // namespace memreel
