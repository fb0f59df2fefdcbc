// SPDX-License-Identifier: Apache-2.0
#include "analyzer/describe/live_groups.h"

#include <gtest/gtest.h>

#include "analyzer/describe/own_frame.h"
#include "tests/unit/sample_trace.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

class LiveGroups : public ::testing::Test {
 protected:
  LiveGroups() {
    const OriginId default_stream = build_.origin(HeapId{1});
    const OriginId side_stream = build_.origin(HeapId{1}, 0x7f00);
    const OriginId other_device = build_.origin(build_.heap("torch.cuda", Level::framework, 1));
    const StackId by_linear = build_.stack({"forward@site-packages/torch/nn/linear.py:10", "step@train.py:41"});
    const StackId by_relu = build_.stack({"relu@site-packages/torch/nn/functional.py:99", "step@train.py:41"});
    const StackId by_load = build_.stack({"load@train.py:7"});
    build_.alloc(default_stream, {0x1000}, 4_MiB, by_load);
    build_.alloc(default_stream, {0x2000}, 1_MiB, by_linear);
    const AllocationId freed = build_.alloc(side_stream, {0x3000}, 2_MiB, by_relu);
    build_.alloc(other_device, {0x1000}, 64_MiB, by_load);
    build_.free_requested(freed);
  }

  std::vector<LiveGroup> groups(std::uint64_t events, GroupBy by) {
    return live_groups(build_.trace(), lifetimes(build_.trace()), classify(build_.trace()), HeapId{1}, events, by);
  }

  TraceBuilder build_;
};

TEST_F(LiveGroups, ByLineMeansTheInnermostLineOfTheUsersOwnCode) {
  const std::vector<LiveGroup> lines = groups(4, GroupBy::line);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].label, "train.py:7");
  EXPECT_EQ(lines[0].bytes, 4_MiB);
  EXPECT_EQ(lines[1].label, "train.py:41");
  EXPECT_EQ(lines[1].bytes, 3_MiB);
  EXPECT_EQ(lines[1].count, 2U);
  EXPECT_EQ(lines[1].allocations, (std::vector{AllocationId{1}, AllocationId{2}}));
}

TEST_F(LiveGroups, ByStackKeepsStacksApartThatShareALine) { EXPECT_EQ(groups(4, GroupBy::stack).size(), 3U); }

TEST(LiveGroupsOfAModel, ALibrarysModuleExplainsMoreThanTheLineThatCallsTheModel) {
  TraceBuilder build;
  const StackId stack = build.stack({"forward@site-packages/torch/nn/modules/linear.py:134",
                                     "_call_impl@site-packages/torch/nn/modules/module.py:1776",
                                     "forward@site-packages/transformers/models/gpt2/modeling_gpt2.py:240",
                                     "wrapper@site-packages/transformers/utils/generic.py:900",
                                     "_call_impl@site-packages/torch/nn/modules/module.py:1776", "step@train.py:41",
                                     "<module>@train.py:50"});
  build.alloc(build.origin(HeapId{1}), {0x1000}, 4_MiB, stack);
  const auto label = [&](GroupBy by) {
    return live_groups(build.trace(), lifetimes(build.trace()), classify(build.trace()), HeapId{1}, 1, by)
        .front()
        .label;
  };
  EXPECT_EQ(label(GroupBy::line), "transformers/models/gpt2/modeling_gpt2.py:240");
  EXPECT_EQ(label(GroupBy::library), "torch");
  EXPECT_EQ(label(GroupBy::layer), "modeling_gpt2.py:240/linear.py:134");
  EXPECT_EQ(label(GroupBy::phase), "forward");
  EXPECT_EQ(label(GroupBy::category), "unknown") << "one block is no graph";
}

TEST(LiveGroupsOfAServer, AreNamedByThePackageWhereNoLineIsTheUsers) {
  const auto label = [](std::vector<std::string_view> frames, std::string_view outermost) {
    frames.insert(frames.end(), {"load_model@/v/site-packages/vllm/v1/worker/gpu_worker.py:180",
                                 "main@/v/site-packages/vllm/entrypoints/cli/main.py:50", outermost});
    TraceBuilder build;
    build.alloc(build.origin(HeapId{1}), {0x1000}, 4_MiB, build.stack(frames));
    const Trace& trace = build.trace();
    return live_groups(trace, lifetimes(trace), classify(trace), HeapId{1}, 1, GroupBy::line).front().label;
  };
  const std::vector<std::string_view> linear{"__init__@/v/site-packages/torch/nn/modules/linear.py:106",
                                             "new_forward@/v/site-packages/accelerate/hooks.py:170",
                                             "create@/v/site-packages/vllm/layers/linear.py:210"};
  EXPECT_EQ(label(linear, "<module>@/usr/local/bin/vllm:8"), "vllm/layers/linear.py:210");
  EXPECT_EQ(label(linear, "<module>@/home/me/serve.py:8"), "serve.py:8");
  EXPECT_EQ(label({"zeros@/v/site-packages/torch/functional.py:9"}, "<module>@/usr/local/bin/vllm:8"),
            "vllm/v1/worker/gpu_worker.py:180");
}

/// What a model with two blocks holds; `instances`: each one's outer and inner module.
std::vector<LiveGroup> groups_of_blocks(const std::vector<std::pair<std::string, std::string>>& instances, GroupBy by) {
  TraceBuilder build;
  std::uint64_t address = 0x1000;
  for (const auto& [outer, inner] : instances) {
    const std::string call = "_wrapped_call_impl@site-packages/torch/nn/modules/module.py:1775 [";
    const std::string outer_call = call + outer + "]", inner_call = call + inner + "]";
    const StackId stack = build.stack({"forward@site-packages/torch/nn/modules/linear.py:134", inner_call,
                                       "forward@model.py:12", outer_call, "step@train.py:41"});
    build.alloc(build.origin(HeapId{1}), {address += 0x10000}, 4_KiB, stack);
  }
  return live_groups(build.trace(), lifetimes(build.trace()), classify(build.trace()), HeapId{1}, instances.size(), by);
}

TEST(LiveGroupsOfAModel, ALayerIsTheModuleThatTheRecordingNames) {
  const auto labels = [](const std::vector<LiveGroup>& groups) {
    std::vector<std::string> texts;
    for (const LiveGroup& group : groups) texts.push_back(group.label);
    return texts;
  };
  EXPECT_EQ(labels(groups_of_blocks({{"h.0", "h.0.fc"}, {"h.1", "h.1.fc"}}, GroupBy::layer)),
            (std::vector<std::string>{"h.0.fc", "h.1.fc"}));
  EXPECT_EQ(labels(groups_of_blocks({{"Block 0", "Linear 0"}, {"Block 1", "Linear 1"}}, GroupBy::layer)),
            (std::vector<std::string>{"Block 0/Linear 0", "Block 1/Linear 1"}));
  EXPECT_EQ(labels(groups_of_blocks({{"h.0", "Lora 0"}}, GroupBy::layer)), (std::vector<std::string>{"h.0/Lora 0"}));
}

TEST(LiveGroupsOfAModel, WhatEachBlockDoesIsOnePlaceInCode) {
  const auto groups = groups_of_blocks({{"h.0", "h.0.fc"}, {"h.1", "h.1.fc"}, {"h.2", "h.2.fc"}}, GroupBy::stack);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].count, 3U);
  EXPECT_EQ(groups[0].bytes, 12_KiB);
}

TEST(LibraryLabel, CudaAndPyTorchsAllocatorAreNobodysOwn) {
  TraceBuilder build;
  const auto label = [&](std::vector<FrameText> frames) { return library_label(frames); };
  const FrameText driver = testing::frame("cuMemAlloc_v2", "", 0, "/usr/lib/libcuda.so.1");
  const FrameText caching = testing::frame("malloc", "", 0, "/x/torch/lib/libc10_cuda.so");
  const FrameText nccl = testing::frame("ncclCommInitRank", "", 0, "/x/lib/libnccl.so.2");
  const FrameText own = testing::frame("main", "train.cpp", 3, "/x/train");
  EXPECT_EQ(label({driver, nccl, own}), "libnccl.so.2");
  EXPECT_EQ(label({driver, caching, own}), "own code");
  EXPECT_EQ(label({driver}), "not known");
}

TEST_F(LiveGroups, WhatWasFreedIsGone) {
  const std::vector<LiveGroup> streams = groups(5, GroupBy::stream);
  ASSERT_EQ(streams.size(), 1U);
  EXPECT_EQ(streams[0].label, "default");
  EXPECT_EQ(streams[0].bytes, 5_MiB);
}

TEST_F(LiveGroups, StreamsAreNamedByTheirHandle) { EXPECT_EQ(groups(4, GroupBy::stream)[1].label, "0x7f00"); }

TEST_F(LiveGroups, OtherDevicesDoNotCount) {
  const std::vector<LiveGroup> devices = groups(5, GroupBy::device);
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].label, "device 0");
}

TEST(GroupBy, EveryNameReadsBack) {
  for (const std::string_view name : group_by_names()) EXPECT_EQ(name_of(*group_by_name(name)), name);
  EXPECT_FALSE(group_by_name("colour"));
}

}  // namespace
}  // namespace memreel
