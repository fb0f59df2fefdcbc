// SPDX-License-Identifier: Apache-2.0
// Leaks visible in a flight recorder's totals but not in its events.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include "analyzer/analysis/insight/leaks.h"
#include "formats/reader/trace_reader.h"
#include "formats/writer/flight_writer.h"
#include "tests/leak_score.h"

namespace memreel {
namespace {

using std::chrono::hours, std::chrono::minutes, std::chrono::seconds;

/// A service that runs for several days, whose recorder keeps its last `span`, and up to twice as much.
class Service {
 public:
  explicit Service(Nanoseconds span = hours(1)) {
    std::string name = (std::filesystem::temp_directory_path() / "memreel-folded-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
    file_ = directory_ / "run.reel";
    writer_ = std::make_unique<FlightWriter>(*live_file_sink(file_), file_, 0600, Header{.producer = "test"},
                                             FlightLimits{.size = 1_MiB, .span = span});
    const HeapId heap =
        writer_->intern(Heap{.name = writer_->intern("pool"), .level = Level::framework, .observes_completion = false});
    origin_ = writer_->intern(Origin{.heap = heap});
    mark_ = writer_->intern(Mark{.name = writer_->intern("step")});
  }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service() { std::filesystem::remove_all(directory_); }

  struct Allocation {
    AllocationId id = AllocationId::none;
    Address address;
  };

  Allocation allocate(const char* function, Bytes size) {
    const Frame frame{.function = writer_->intern(function), .file = writer_->intern("serve.py"), .line = 1};
    const StackId stack = writer_->intern(Stack{.frame = writer_->intern(frame)});
    const Address address{next_ += 1U << 20U};
    return {writer_->append({.kind = EventKind::alloc,
                             .origin = origin_,
                             .stack = stack,
                             .time = time_,
                             .address = address,
                             .size = size}),
            address};
  }

  void free(const Allocation& allocation) {
    writer_->append({.kind = EventKind::free_requested,
                     .origin = origin_,
                     .allocation = allocation.id,
                     .time = time_,
                     .address = allocation.address});
  }

  /// A period of requests that leave nothing behind.
  void serve(Nanoseconds span) {
    for (const Nanoseconds end = time_ + span; time_ < end; time_ += seconds(10)) {
      const Allocation one = allocate("request", 1_MiB), two = allocate("answer", 2_MiB);
      free(one);
      free(two);
    }
    ASSERT_TRUE(writer_->flush());
  }

  /// Requests, each a step in which `also` is done, too.
  void serve_steps(Nanoseconds span, const std::function<void()>& also) {
    for (const Nanoseconds end = time_ + span; time_ < end;) {
      also();
      serve(seconds(10));
      writer_->append({.kind = EventKind::mark, .time = time_, .value = index(mark_)});
    }
  }

  /// What is found of a function when the recorder stops.
  std::vector<LeakFinding> findings_on(const std::string& function) {
    EXPECT_TRUE(writer_->finish());
    const auto trace = load(file_);
    EXPECT_TRUE(trace);
    EXPECT_FALSE(trace->folded.empty());
    std::vector<LeakFinding> findings;
    for (const LeakFinding& finding : test::leaks_of(*trace).findings)
      if (trace->tables[trace->tables[trace->tables[finding.stack].frame].function] == function)
        findings.push_back(finding);
    return findings;
  }

  std::vector<LeakVerdict> verdicts_on(const std::string& function) {
    std::vector<LeakVerdict> verdicts;
    for (const LeakFinding& finding : findings_on(function)) verdicts.push_back(finding.verdict);
    return verdicts;
  }

 private:
  std::filesystem::path directory_, file_;
  std::unique_ptr<FlightWriter> writer_;
  OriginId origin_ = OriginId::none;
  MarkId mark_ = MarkId::none;
  std::uint64_t next_ = 0;
  Nanoseconds time_{1'700'000'000'000'000'000};
};

TEST(FoldedLeaks, ALeakOfOneAllocationIn3HoursIsFoundAfterDays) {
  Service service;
  for (int i = 0; i < 30; ++i) {
    service.allocate("forgets", 64_KiB);
    service.serve(hours(3));
  }
  service.serve(minutes(100));  // longer than events are kept: none of it is among them
  const auto verdicts = service.verdicts_on("forgets");
  EXPECT_NE(std::ranges::find(verdicts, LeakVerdict::leak), verdicts.end());
}

TEST(FoldedLeaks, WhatWasMadeAtTheStartIsNone) {
  Service service;
  for (int i = 0; i < 100; ++i) service.allocate("weights", 1_MiB);
  service.serve(hours(60));
  for (const LeakVerdict verdict : service.verdicts_on("weights")) EXPECT_FALSE(accuses(verdict));
}

TEST(FoldedLeaks, ACacheThatReplacesWhatItHoldsIsNone) {
  Service service;
  std::vector<Service::Allocation> held;
  for (int i = 0; i < 120; ++i) {
    held.push_back(service.allocate("cache", 64_KiB));
    if (held.size() > 10) {
      service.free(held.front());
      held.erase(held.begin());
    }
    service.serve(minutes(30));
  }
  for (const LeakVerdict verdict : service.verdicts_on("cache")) EXPECT_FALSE(accuses(verdict));
}

TEST(FoldedLeaks, AWarmUpThatEndedIsNone) {
  Service service;
  for (int i = 0; i < 20; ++i) {
    service.allocate("shapes", 64_KiB);
    service.serve(minutes(10));
  }
  service.serve(hours(40));
  for (const LeakVerdict verdict : service.verdicts_on("shapes")) EXPECT_FALSE(accuses(verdict));
}

TEST(FoldedLeaks, WhenWhatIsOlderThanTheEventsWasMadeIsNotKnown) {
  // All of it stands at the beginning of the trace, and would seem to thin out.
  for (const auto ago : {minutes(25), minutes(40), minutes(60)}) {
    Service service(minutes(10));
    service.allocate("forgets", 8_MiB);  // no part of what leaks there later
    service.serve_steps(hours(30), [] {});
    std::uint64_t leaked = 0;
    service.serve_steps(ago, [&] {
      service.allocate("forgets", 64_KiB);
      ++leaked;
    });
    const std::vector<LeakFinding> findings = service.findings_on("forgets");
    ASSERT_FALSE(findings.empty());
    EXPECT_EQ(findings.front().verdict, LeakVerdict::leak) << findings.front().evidence;
    EXPECT_EQ(findings.front().count, leaked);
    EXPECT_EQ(findings.front().bytes, 64_KiB * leaked);
    EXPECT_NE(findings.front().evidence.find("as earlier ones did"), std::string::npos) << findings.front().evidence;
    for (const LeakFinding& finding : findings)
      EXPECT_EQ(finding.evidence.find("no longer grows"), std::string::npos) << finding.evidence;
  }
}

TEST(FoldedLeaks, WhatTheSumsSayIsFreedInTheEndIsNone) {
  // The events show none of the frees.
  for (const auto ago : {minutes(25), minutes(40), minutes(55)}) {
    Service service(minutes(10));
    std::vector<Service::Allocation> of_this_hour;
    const auto keep = [&] { of_this_hour.push_back(service.allocate("cache", 64_KiB)); };
    for (int i = 0; i < 30; ++i) {
      service.serve_steps(hours(1), keep);
      for (const Service::Allocation& one : std::exchange(of_this_hour, {})) service.free(one);
    }
    service.serve_steps(ago, keep);
    ASSERT_FALSE(service.findings_on("cache").empty());
    for (const LeakFinding& finding : service.findings_on("cache")) {
      EXPECT_FALSE(accuses(finding.verdict)) << finding.evidence;
      EXPECT_EQ(finding.evidence.find("ever freed"), std::string::npos) << finding.evidence;
    }
  }
}

TEST(FoldedLeaks, AQueueLongerThanTheEventsIsNone) {
  Service service(minutes(10));
  std::vector<Service::Allocation> queue;
  std::size_t first = 0;
  service.serve_steps(hours(30), [&] {
    queue.push_back(service.allocate("queue", 64_KiB));
    if (queue.size() - first > 240) service.free(queue[first++]);
  });
  ASSERT_FALSE(service.verdicts_on("queue").empty());
  for (const LeakVerdict verdict : service.verdicts_on("queue")) EXPECT_FALSE(accuses(verdict));
}

}  // namespace
}  // namespace memreel
