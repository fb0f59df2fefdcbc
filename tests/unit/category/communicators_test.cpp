// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/category/communicators.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

/// A process that uses NCCL, shown by what its threads allocate from the driver.
class Job {
 public:
  Job() {
    heap_ = build_.heap("cuda.driver", Level::driver, 0);
    group_a_ = call("init_process_group@train.py:12");
    group_b_ = call("new_group@train.py:30");
    collective_ = build_.stack({"cuMemAlloc_v2@:0", "ncclAllReduce@:0", "all_reduce@train.py:40"});
    own_ = build_.stack({"cuMemAlloc_v2@:0", "main@train.py:5"});
    buffer_ = build_.stack({"cuMemAlloc_v2@:0", "ncclMemAlloc@:0", "main@train.py:6"});
  }

  AllocationId alloc(StackId stack, std::uint32_t thread = 1, std::int32_t device = 0) {
    return build_.alloc(origin(thread, device), {next_ += 0x1000000}, 1_MiB, stack);
  }
  void free(AllocationId id) { build_.free(id); }
  void range_begins(std::string_view name, std::uint32_t thread = 1) { mark(name, MarkPhase::begin, thread); }
  void range_ends(std::string_view name, std::uint32_t thread = 1) { mark(name, MarkPhase::end, thread); }
  /// In NCCL's library, whose symbols are not available.
  StackId unnamed(std::string_view caller) {
    Tables& tables = build_.trace().tables;
    const StackId outer = build_.stack({caller});
    tables.modules.push_back({.path = build_.string("/opt/nccl/lib/libnccl.so.2")});
    tables.frames.push_back({.module = ModuleId{static_cast<std::uint32_t>(tables.modules.size() - 1)}});
    tables.stacks.push_back({FrameId{static_cast<std::uint32_t>(tables.frames.size() - 1)}, outer});
    return StackId{static_cast<std::uint32_t>(tables.stacks.size() - 1)};
  }
  void mark(std::string_view name, MarkPhase phase, std::uint32_t thread) {
    auto& marks = build_.trace().tables.marks;
    marks.push_back({.name = build_.string(name), .phase = phase});
    build_.push({.kind = EventKind::mark, .origin = origin(thread, 0), .value = marks.size() - 1});
  }

  std::vector<std::uint32_t> numbers(const std::vector<AllocationId>& ids) {
    const Communicators found = find_communicators(build_.trace());
    std::vector<std::uint32_t> numbers;
    for (const AllocationId id : ids) numbers.push_back(found.of(index(id)));
    return numbers;
  }
  std::string_view caller_of(std::uint32_t number) {
    const Trace& trace = build_.trace();
    const StackId caller = find_communicators(trace).list.at(number - 1).caller;
    return trace.tables[trace.tables[trace.tables[caller].frame].file];
  }

  StackId group_a() const { return group_a_; }
  StackId group_b() const { return group_b_; }
  StackId collective() const { return collective_; }
  StackId own() const { return own_; }
  StackId buffer() const { return buffer_; }

 private:
  StackId call(std::string_view caller) {
    return build_.stack({"cuMemAlloc_v2@:0", "ncclCommInitRankConfig@:0", "create@NCCLUtils.cpp:50", caller});
  }
  OriginId origin(std::uint32_t thread, std::int32_t device) {
    const OriginId origin = build_.origin(device == 0 ? heap_ : build_.heap("cuda.driver", Level::driver, device));
    build_.trace().tables.origins.back().thread = ThreadId{thread};
    return origin;
  }

  TraceBuilder build_;
  HeapId heap_{};
  StackId group_a_{}, group_b_{}, collective_{}, own_{}, buffer_{};
  std::uint64_t next_ = 0;
};

TEST(Communicators, EachCallThatMakesOneIsOne) {
  Job job;
  const AllocationId a1 = job.alloc(job.group_a());
  const AllocationId a2 = job.alloc(job.group_a());
  const AllocationId between = job.alloc(job.own());
  const AllocationId b1 = job.alloc(job.group_b());
  const AllocationId again = job.alloc(job.group_a());  // another, made at the same place
  EXPECT_EQ(job.numbers({a1, a2, between, b1, again}), (std::vector<std::uint32_t>{1, 1, 0, 2, 3}));
  EXPECT_EQ(job.caller_of(1), "NCCLUtils.cpp");
}

TEST(Communicators, NcclsOwnRangesTellCallsInARowApart) {
  Job job;
  job.range_begins("ncclCommInitRankConfig");
  const AllocationId first = job.alloc(job.group_a());
  job.range_begins("ncclCommInitRankConfig");
  const AllocationId second = job.alloc(job.group_a());
  job.range_begins("step");
  const AllocationId same = job.alloc(job.group_a());
  EXPECT_EQ(job.numbers({first, second, same}), (std::vector<std::uint32_t>{1, 2, 2}));
}

TEST(Communicators, WithoutNamesOfFunctionsNcclsRangesTellThem) {
  Job job;
  const StackId first = job.unnamed("init_process_group@train.py:12"), second = job.unnamed("new_group@train.py:30"),
                later = job.unnamed("all_reduce@train.py:40");
  job.range_begins("ncclCommInitRankConfig");
  const auto a = job.alloc(first);
  job.range_ends("ncclCommInitRankConfig");
  const auto b = job.alloc(later);
  job.range_begins("ncclCommSplit");
  const auto c = job.alloc(second);
  job.range_ends("ncclCommSplit");
  const auto d = job.alloc(later);
  EXPECT_EQ(job.numbers({a, b, c, d}), (std::vector<std::uint32_t>{1, 1, 2, 0}))
      << "of which the last is, nothing says";
}

TEST(Communicators, NcclsRangesNameTheOneOfACall) {
  Job job;
  const auto made = [&](StackId where, std::string_view name) {
    job.range_begins("ncclCommInitRankConfig");
    const AllocationId id = job.alloc(where);
    job.mark("ncclCommInitRankConfig, communicator 0x" + std::string(name), MarkPhase::instant, 1);
    job.range_ends("ncclCommInitRankConfig");
    return id;
  };
  const auto call = [&](std::string_view range, std::uint32_t thread) {
    job.range_begins(range);
    const AllocationId id = job.alloc(job.collective(), thread);
    job.range_ends(range);
    return id;
  };
  const AllocationId a = made(job.group_a(), "000000000000000a"), b = made(job.group_b(), "000000000000000b");
  const AllocationId of_a = call("ncclAllReduce, communicator 0x000000000000000a", 1);
  const AllocationId by_thread_of_nccl = call("ncclAllGather, communicator 0x000000000000000b", 9);
  const AllocationId later = job.alloc(job.collective(), 9);
  const AllocationId of_a_by_it = call("ncclAllGather, communicator 0x000000000000000a", 9);
  const AllocationId unnamed = call("ncclAllReduce", 1);
  EXPECT_EQ(job.numbers({a, b, of_a, by_thread_of_nccl, later, of_a_by_it, unnamed}),
            (std::vector<std::uint32_t>{1, 2, 1, 2, 2, 1, 0}));
}

TEST(Communicators, AGroupAllocatesAtItsEndForItsCalls) {
  Job job;
  const auto group = [&](const std::vector<std::string_view>& calls) {
    job.range_begins("ncclGroupStart");
    job.range_ends("ncclGroupStart");
    for (const std::string_view call : calls) {
      job.range_begins(call);
      job.range_ends(call);
    }
    job.range_begins("ncclGroupEnd");
    const AllocationId id = job.alloc(job.collective());
    job.range_ends("ncclGroupEnd");
    return id;
  };
  constexpr std::string_view send_a = "ncclSend, communicator 0x000000000000000a",
                             receive_b = "ncclRecv, communicator 0x000000000000000b";
  const AllocationId a = group({send_a, send_a}), b = group({receive_b}), both = group({send_a, receive_b});
  EXPECT_EQ(job.numbers({a, b, both}), (std::vector<std::uint32_t>{1, 2, 0}))
      << "although nothing shows how they were made";
}

TEST(Communicators, OfTwoThreadsInCallsNcclsOwnServesEither) {
  Job job;
  job.range_begins("ncclAllReduce, communicator 0x000000000000000a", 1);
  const AllocationId one = job.alloc(job.collective(), 9);
  job.range_begins("ncclAllReduce, communicator 0x000000000000000b", 2);
  const AllocationId either = job.alloc(job.collective(), 8);
  const AllocationId as_before = job.alloc(job.collective(), 9);
  EXPECT_EQ(job.numbers({one, either, as_before}), (std::vector<std::uint32_t>{1, 0, 1}));
}

TEST(Communicators, DevicesOfOneProcessShareANameButNoMemory) {
  Job job;
  job.range_begins("ncclAllReduce, communicator 0x000000000000000a");
  const AllocationId first = job.alloc(job.collective(), 1, 0);
  const AllocationId second = job.alloc(job.collective(), 1, 1);
  const AllocationId first_again = job.alloc(job.collective(), 1, 0);
  EXPECT_EQ(job.numbers({first, second, first_again}), (std::vector<std::uint32_t>{1, 2, 1}));
}

TEST(Communicators, ThreadsMakeTheirOwn) {
  Job job;
  const AllocationId one = job.alloc(job.group_a(), 1);
  const AllocationId two = job.alloc(job.group_a(), 2);
  const AllocationId one_more = job.alloc(job.group_a(), 1);
  EXPECT_EQ(job.numbers({one, two, one_more}), (std::vector<std::uint32_t>{1, 2, 1}));
}

TEST(Communicators, WhatACollectiveAllocatesIsTheOnlyOnesOfItsDevice) {
  Job job;
  const AllocationId early = job.alloc(job.collective());
  const AllocationId a = job.alloc(job.group_a());
  const AllocationId by_thread_of_nccl = job.alloc(job.collective(), 9);
  const AllocationId elsewhere = job.alloc(job.collective(), 9, 1);
  const AllocationId b = job.alloc(job.group_b());
  const AllocationId of_either = job.alloc(job.collective());
  job.free(b);
  const AllocationId of_a = job.alloc(job.collective());
  EXPECT_EQ(job.numbers({early, a, by_thread_of_nccl, elsewhere, b, of_either, of_a}),
            (std::vector<std::uint32_t>{0, 1, 1, 0, 2, 0, 1}));
}

TEST(Communicators, BuffersThatTheProgramAsksNcclForAreItsOwn) {
  Job job;
  job.alloc(job.group_a());
  const AllocationId buffer = job.alloc(job.buffer());
  EXPECT_EQ(job.numbers({buffer}), std::vector<std::uint32_t>{0});
}

TEST(Communicators, WithoutNcclThereAreNone) {
  Job job;
  const AllocationId own = job.alloc(job.own());
  EXPECT_EQ(job.numbers({own}), std::vector<std::uint32_t>{0});
}

}  // namespace
}  // namespace memreel
