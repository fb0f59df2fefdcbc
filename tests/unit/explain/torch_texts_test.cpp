// SPDX-License-Identifier: Apache-2.0
// What PyTorch says, of any release and accelerator, and what is advised then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "analyzer/analysis/explain/answer.h"
#include "tests/unit/explain/pasted_logs.h"

namespace memreel::explain {
namespace {

TEST(Torch, ShortEvenWithAllCacheIsALack) {
  const Failure failure = only_failure(torch_text("3.00 GiB", "39.39 GiB", "1.00 GiB",
                                                  "Including non-PyTorch memory, this process has 38.38 GiB memory in "
                                                  "use. Of the allocated memory 36.50 GiB is allocated by "
                                                  "PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated."));
  EXPECT_EQ(failure.kind, Kind::lack);
  EXPECT_NEAR(static_cast<double>(*failure.shortfall) / (1 << 30), 0.8, 0.01);
  EXPECT_EQ(failure.figures[Field::device], 0U);
}

TEST(Torch, CacheThatWouldDoIsFragmentation) {
  EXPECT_EQ(kind_in(torch_text(
                "2.00 GiB", "23.64 GiB", "512.00 MiB",
                "Of the allocated memory 14.00 GiB is allocated by PyTorch, and 8.00 GiB is reserved by PyTorch but "
                "unallocated.")),
            "fragmentation");
}

TEST(Torch, OnePercentOfCacheIsNotFragmentation) {
  EXPECT_EQ(kind_in(torch_text(
                "1.10 GiB", "79.15 GiB", "900.00 MiB",
                "Including non-PyTorch memory, this process has 78.20 GiB memory in use. Of the allocated memory "
                "77.00 GiB is allocated by PyTorch, and 400.00 MiB is reserved by PyTorch but unallocated.")),
            "lack");
}

TEST(Torch, CachedBlocksOfPrivatePoolsAreNotLive) {
  const Failure failure = only_failure(torch_text("9.00 GiB", "31.00 GiB", "2.00 GiB",
                                                  "Of the allocated memory 28.00 GiB is allocated by PyTorch, with "
                                                  "20.00 GiB allocated in private pools (e.g., CUDA Graphs), "
                                                  "and 100.00 MiB is reserved by PyTorch but unallocated."));
  EXPECT_EQ(failure.kind, Kind::private_pool);
  EXPECT_EQ(failure.figures[Field::live], std::uint64_t{8} << 30U);
}

TEST(Torch, TheSegmentCountsAndNotTheRequest) {
  // 12 MiB are free, but a request of 2 MiB asks the device for 20.
  const Failure failure = only_failure(old_text(
      "2.00 MiB",
      "10.76 GiB total capacity; 9.70 GiB already allocated; 12.00 MiB free; 9.80 GiB reserved in total by PyTorch"));
  EXPECT_EQ(failure.kind, Kind::lack);
  EXPECT_EQ(failure.figures[Field::needed], std::uint64_t{20} << 20U);
}

TEST(Torch, ReleasesBefore14PrintWhatIsCached) {
  const Failure failure = only_failure(
      old_text("1.50 GiB", "11.17 GiB total capacity; 7.00 GiB already allocated; 300.00 MiB free; 3.40 GiB cached"));
  EXPECT_EQ(failure.kind, Kind::fragmentation);
  EXPECT_NEAR(static_cast<double>(*failure.figures[Field::reserved]) / (1 << 30), 10.4, 0.01);
}

TEST(Torch, TheProcessClosestToWhatIsReservedIsThisOne) {
  const std::string rest =
      " Of the allocated memory 3.00 GiB is allocated by PyTorch, and 200.00 MiB is reserved by PyTorch but "
      "unallocated.";
  for (const std::string_view order :
       {"Process 7 has 3.70 GiB memory in use. Process 9 has 18.00 GiB memory in use.",
        "Process 9 has 18.00 GiB memory in use. Process 7 has 3.70 GiB memory in use."}) {
    const Failure failure = only_failure(torch_text("2.50 GiB", "22.00 GiB", "300.00 MiB", std::string(order) + rest));
    EXPECT_EQ(failure.kind, Kind::other_process);
    EXPECT_NEAR(static_cast<double>(*failure.figures[Field::others]) / (1 << 30), 18, 0.01);
  }
}

TEST(Torch, WhatThisProcessHoldsBesideTheAllocatorIsNotLive) {
  const auto text = [](std::string_view process, std::string_view live) {
    return torch_text("1.00 GiB", "79.15 GiB", "500.00 MiB",
                      std::string(process) + " memory in use. Of the allocated memory " + std::string(live) +
                          " GiB is allocated by PyTorch, and 200.00 MiB is reserved by PyTorch but unallocated.");
  };
  const Failure own = only_failure(text("Including non-PyTorch memory, this process has 78.60 GiB", "50.00"));
  EXPECT_EQ(own.kind, Kind::other_process);
  EXPECT_THAT(own.because, testing::EndsWith("by this process itself"));
  EXPECT_THAT(answer_to(own).advice.front().what, testing::HasSubstr("in this process"));
  // A pid that is not called this process may be another.
  const Failure listed = only_failure(text("Process 7 has 78.60 GiB", "50.00"));
  EXPECT_EQ(listed.kind, Kind::other_process);
  EXPECT_THAT(listed.because, testing::Not(testing::HasSubstr("this process itself")));
  EXPECT_THAT(answer_to(listed).advice.front().what, testing::HasSubstr("nvidia-smi"));
  EXPECT_EQ(kind_in(text("Process 7 has 78.60 GiB", "0.00")), "other_process");
  // A context and its libraries are no one else's.
  EXPECT_EQ(kind_in(text("Including non-PyTorch memory, this process has 78.60 GiB", "77.50")), "lack");
  EXPECT_EQ(kind_in(text("Process 7 has 78.60 GiB", "77.50")), "lack");
}

TEST(Torch, ADeviceWithMoreFreeThanItHasDecidesNothing) {
  const std::string rest =
      "Of the allocated memory 1.67 GiB is allocated by PyTorch, and 8.08 GiB is reserved by PyTorch but unallocated.";
  EXPECT_EQ(kind_in(torch_text("16.00 GiB", "15.49 GiB", "84.98 GiB", rest)), "contradictory");
  const Failure failure = only_failure(torch_text("16.00 GiB", "15.49 GiB", "5.10 GiB", rest));
  EXPECT_EQ(failure.kind, Kind::larger_than_device);
  EXPECT_EQ(failure.because, "one request is larger than the whole device");
}

TEST(Torch, ALimitOfTheProgramItself) {
  EXPECT_EQ(kind_in(torch_text(
                "1.00 GiB", "79.15 GiB", "60.00 GiB",
                "15.83 GiB allowed; Of the allocated memory 15.00 GiB is allocated by PyTorch, and 300.00 MiB is "
                "reserved by PyTorch but unallocated.")),
            "own_limit");
  EXPECT_EQ(kind_in(old_text(
                "500.00 MiB",
                "24.00 GiB total capacity; 11.80 GiB already allocated; 11.20 GiB free; 12.00 GiB allowed; 11.90 GiB "
                "reserved in total by PyTorch")),
            "own_limit");
  // Not printed: half of the device, by the figures.
  EXPECT_EQ(kind_in(torch_text(
                "500.00 MiB", "40.00 GiB", "19.00 GiB",
                "Of the allocated memory 19.50 GiB is allocated by PyTorch, and 200.00 MiB is reserved by PyTorch "
                "but unallocated.")),
            "own_limit");
}

TEST(Torch, RefusedAlthoughFree) {
  EXPECT_EQ(kind_in(old_text("90.00 MiB",
                             "24.00 GiB total capacity; 12.09 GiB already allocated; 6.75 GiB free; 12.28 GiB reserved "
                             "in total by PyTorch")),
            "refused_though_free");
}

TEST(Torch, SizesThatNothingHas) {
  EXPECT_EQ(kind_in("CUDA out of memory. Tried to allocate more than 1EB memory."), "nonsense_size");
  EXPECT_EQ(kind_in(torch_text(
                "4294967296.00 GiB", "15.77 GiB", "10.00 GiB",
                "Of the allocated memory 1.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but "
                "unallocated.")),
            "nonsense_size");
  EXPECT_EQ(
      kind_in(old_text("37.25 GiB",
                       "15.77 GiB total capacity; 1.00 GiB already allocated; 14.00 GiB free; 1.10 GiB reserved in "
                       "total by PyTorch")),
      "larger_than_device");
  EXPECT_EQ(kind_in("OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 GiB. GPU"), "larger_than_device");
}

TEST(Torch, FiguresThatContradictEachOther) {
  EXPECT_EQ(kind_in(torch_text(
                "20.00 MiB", "15.56 GiB", "51.09 GiB",
                "Of the allocated memory 1.00 GiB is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but "
                "unallocated.")),
            "contradictory");
}

TEST(Torch, WhatWindowsDoesNotSayIsNotSaid) {
  const std::string unknown = "Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use. ";
  const auto rest = [](std::string_view live, std::string_view cached) {
    return "Of the allocated memory " + std::string(live) + " is allocated by PyTorch, and " + std::string(cached) +
           " is reserved by PyTorch but unallocated.";
  };
  EXPECT_EQ(kind_in(torch_text("3.00 GiB", "15.99 GiB", "0 bytes", unknown + rest("14.80 GiB", "512.00 MiB"))), "lack");
  EXPECT_EQ(kind_in(torch_text("4.00 GiB", "23.99 GiB", "1.20 GiB", unknown + rest("15.00 GiB", "6.50 GiB"))),
            "fragmentation");
  EXPECT_EQ(kind_in(torch_text("2.00 GiB", "31.84 GiB", "20.00 GiB",
                               unknown + "10.00 GiB allowed; " + rest("6.00 GiB", "3.00 GiB"))),
            "own_limit");
  EXPECT_EQ(kind_in(torch_text("2.50 GiB", "22.00 GiB", "300.00 MiB",
                               "Process 7 has 17179869184.00 GiB memory in use. " + rest("3.00 GiB", "200.00 MiB"))),
            "other_process");
}

TEST(Torch, TheNumberOfADeviceMayBeALetter) {
  using namespace std::string_literals;
  const std::string rest =
      " has a total capacity of 31.00 GiB of which 600.00 MiB is free. Of the allocated memory 20.00 GiB is allocated "
      "by PyTorch, and 9.00 GiB is reserved by PyTorch but unallocated.\n";
  for (const auto& [letter, device] : {std::pair{"\x02"s, 2}, {"\\u0003"s, 3}, {"\\x1f"s, 31}, {""s, -1}, {"7"s, 7}}) {
    const Failure failure =
        only_failure("[rank5]: CUDA out of memory. Tried to allocate 3.00 GiB. GPU " + letter + rest);
    EXPECT_EQ(failure.kind, Kind::fragmentation) << letter;
    EXPECT_EQ(failure.figures[Field::device].has_value(), device >= 0) << letter;
    EXPECT_EQ(failure.figures[Field::device].value_or(-1), static_cast<std::uint64_t>(device)) << letter;
  }
}

TEST(Torch, ATextThatItsReleaseEndsHasNoRestToFind) {
  const std::string begin = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU";
  for (const std::string_view end : {"", " ", " \n", "\nTraceback (most recent call last):\n", " ')\n"}) {
    const Failure failure = only_failure(begin + std::string(end));
    EXPECT_EQ(failure.grammar->name, "torch.ends_early") << end;
    EXPECT_THAT(answer_to(failure).advice.front().what, testing::Not(testing::HasSubstr("rest of the line"))) << end;
  }
  for (const std::string_view end : {" 0 has a tot", "\n0 has a total capacity of"})
    EXPECT_EQ(only_failure(begin + std::string(end)).grammar->name, "torch.cut") << end;
}

TEST(Torch, WithoutWhatIsCachedNothingIsDecided) {
  const std::string cut =
      "CUDA out of memory. Tried to allocate 3.00 GiB. GPU 1 has a total capacity of 39.39 GiB of "
      "which 1.00 GiB is free.";
  EXPECT_EQ(kind_in(cut), "figures_missing");
  EXPECT_EQ(kind_in(cut + " Including non-PyTorch memory, this process has 38.00 GiB memory in use."),
            "figures_missing");
  EXPECT_EQ(kind_in(cut + " Of the allocated memory 38.00 GiB is allocated by PyTorch, and"), "lack");
  const Failure quoted = only_failure(
      "> CUDA out of memory. Tried to allocate 3.00 GiB. GPU 1 has a\n> total capacity "
      "of 39.39 GiB of which 1.00 GiB\n> is free. Of the allocated memory 30.00 GiB is\n"
      "> allocated by PyTorch, and 7.00 GiB is reserved by PyTorch but\n> unallocated.");
  EXPECT_EQ(quoted.kind, Kind::fragmentation);
}

TEST(Torch, AWarningIsNoFailureUnlessOneFollows) {
  const std::string warning =
      "[rank2]:[W101 10:00:00.000000001 CUDACachingAllocator.cpp:3933] memory allocation failed with OOM on device 2 "
      "while trying to "
      "allocate 33554432 bytes (free: 15794176, total: 85899345920).\n";
  const Failure alone = only_failure(warning);
  EXPECT_EQ(alone.kind, Kind::warning);
  EXPECT_EQ(alone.figures[Field::free], 15794176U);
  EXPECT_EQ(alone.source, "rank 2");
  const Failure followed = only_failure(warning + "[rank2]: " +
                                        torch_text("32.00 MiB", "80.00 GiB", "15.06 MiB",
                                                   "Of the allocated memory 78.00 GiB is allocated by PyTorch, and "
                                                   "10.00 MiB is reserved by PyTorch but unallocated."));
  EXPECT_EQ(followed.kind, Kind::lack);
}

TEST(Torch, OtherAccelerators) {
  EXPECT_EQ(
      kind_in("MPS backend out of memory (MPS allocated: 16.10 GiB, other allocations: 1.00 GiB, max allowed: 18.13 "
              "GiB). Tried "
              "to allocate 1.50 GiB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit"),
      "own_limit");
  EXPECT_EQ(kind_in("NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 29.50 GiB total capacity; 27.40 GiB already "
                    "allocated; "
                    "27.40 GiB current active; 1.30 GiB free; 27.90 GiB reserved in total by PyTorch)"),
            "lack");
  EXPECT_EQ(kind_in("XPU out of memory. Tried to allocate 4.50 GiB. GPU 0 has a total capacity of 15.91 GiB. Of the "
                    "allocated memory "
                    "6.00 GiB is allocated by PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated."),
            "own_limit");
}

std::string driver_pool_text(std::string_view live, std::string_view requested, std::string_view free) {
  return "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently "
         "allocated     : " +
         std::string(live) + "\nRequested               : " + std::string(requested) +
         "\nDevice limit            : 24.00 GiB\nFree (according to CUDA): " + std::string(free) +
         "\nPyTorch limit (set by user-supplied memory fraction)\n                        : 17179869184.00 GiB\n";
}

TEST(Torch, WhatTheDriversPoolKeepsIsNotToldFromWhatOthersHold) {
  struct Case {
    std::string_view live, requested, free, kind, because;
  };
  for (const Case& expected :
       {Case{"2.00 GiB", "1.00 GiB", "0 bytes", "figures_missing", "22.00 GiB are neither live nor free"},
        Case{"20.00 GiB", "1.00 GiB", "0 bytes", "figures_missing", "4.00 GiB are neither live nor free"},
        Case{"22.00 GiB", "50.00 MiB", "0 bytes", "lack", "22.00 GiB of 24.00 GiB are live"},
        Case{"20.00 GiB", "5.00 GiB", "512.00 MiB", "lack", "short by at least 1.00 GiB"},
        Case{"6.00 GiB", "12.50 MiB", "5.00 GiB", "refused_though_free", "5.00 GiB were free"},
        Case{"6.00 GiB", "25.00 GiB", "5.00 GiB", "larger_than_device", "larger than the whole device"}}) {
    const std::string log = driver_pool_text(expected.live, expected.requested, expected.free);
    const Failure failure = only_failure(log);
    EXPECT_EQ(text_of(failure.kind).name, expected.kind) << log;
    EXPECT_THAT(failure.because, testing::HasSubstr(expected.because)) << log;
    for (const Field field : {Field::cached, Field::reserved, Field::others})
      EXPECT_FALSE(failure.figures[field]) << name_of(field) << log;
    EXPECT_EQ(failure.shortfall.has_value(), expected.kind == "larger_than_device") << log;
    const std::string answer = text_of(failure, "log", false);
    EXPECT_THAT(answer, testing::HasSubstr("the pool's cache, contexts or others ")) << answer;
    EXPECT_THAT(answer, testing::Not(testing::ContainsRegex("(cached|, others) [0-9]"))) << answer;
  }
}

std::string advice_for(std::string_view log) {
  std::string all;
  for (const Advice& advice : answer_to(only_failure(log)).advice) all += std::string(advice.what) + "\n";
  return all;
}

TEST(Advice, ReleasesWithoutExpandableSegmentsAreNotToldToUseThem) {
  const std::string old =
      advice_for(old_text("1.20 GiB",
                          "11.91 GiB total capacity; 6.00 GiB already allocated; 40.00 MiB free; 11.00 GiB reserved "
                          "in total by PyTorch"));
  EXPECT_TRUE(old.starts_with("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128")) << old;
  const std::string current = advice_for(torch_text("2.00 GiB", "23.64 GiB", "512.00 MiB",
                                                    "Of the allocated memory 14.00 GiB is allocated by PyTorch, and "
                                                    "8.00 GiB is reserved by PyTorch but unallocated."));
  EXPECT_TRUE(current.starts_with("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n")) << current;
}

TEST(Advice, AcceleratorsGetTheirOwnTools) {
  const std::string pieces = "6.00 GiB already allocated; 40.00 MiB free; 11.00 GiB reserved in total by PyTorch)";
  const std::string others = "2.00 GiB already allocated; 40.00 MiB free; 2.10 GiB reserved in total by PyTorch)";
  const auto text = [](const std::string& accelerator, const std::string& rest) {
    return "RuntimeError: " + accelerator + " out of memory. Tried to allocate 1.20 GiB (" +
           (accelerator == "NPU" ? "NPU" : "GPU") + " 0; 11.91 GiB total capacity; " + rest;
  };
  EXPECT_THAT(advice_for(text("NPU", pieces)), testing::HasSubstr("PYTORCH_NPU_ALLOC_CONF=expandable_segments:True"));
  EXPECT_THAT(advice_for(text("NPU", others)), testing::HasSubstr("npu-smi info"));
  EXPECT_THAT(advice_for(text("HIP", others)), testing::HasSubstr("rocm-smi"));
  EXPECT_THAT(advice_for(text("XPU", pieces)), testing::HasSubstr("torch.xpu.empty_cache()"));
  const std::string limited =
      "5.90 GiB already allocated; 5.50 GiB free; 6.00 GiB allowed; 5.95 GiB reserved in total by PyTorch)";
  for (const std::string accelerator : {"NPU", "XPU", "MLU", "MUSA", "GCU"})
    for (const std::string& rest : {pieces, others, limited})
      EXPECT_THAT(advice_for(text(accelerator, rest)),
                  testing::Not(testing::AnyOf(testing::HasSubstr("torch.cuda"), testing::HasSubstr("nvidia-smi"),
                                              testing::HasSubstr("PYTORCH_CUDA_ALLOC_CONF"))));
  for (const std::string_view log :
       {"alloc_tensor_range: failed to allocate ROCm0 buffer of size 21474836480",
        "ggml_metal: error: failed to allocate buffer, size = 5120.00 MiB",
        "ggml_vulkan: Device memory allocation of size 118497280 failed.",
        "MPS backend out of memory (MPS allocated: 7.20 GiB). Tried to allocate 256.00 MiB on private pool."})
    EXPECT_THAT(advice_for(log), testing::Not(testing::HasSubstr("nvidia-smi"))) << log;
  EXPECT_THAT(advice_for("CUDA out of memory. Tried to allocate 1.20 GiB (GPU 0; 11.91 GiB total capacity; " + others),
              testing::HasSubstr("nvidia-smi"));
}

TEST(Advice, OnWindowsExpandableSegmentsAreNotTheFirstThingToTry) {
  const std::string text = torch_text("2.00 GiB", "23.64 GiB", "512.00 MiB",
                                      "Of the allocated memory 14.00 GiB is allocated by PyTorch, and 8.00 GiB is "
                                      "reserved by PyTorch but unallocated.");
  const std::string old = old_text("1.20 GiB",
                                   "11.91 GiB total capacity; 6.00 GiB already allocated; 40.00 MiB free; 11.00 GiB "
                                   "reserved in total by PyTorch");
  for (const std::string& failure : {text, old})
    for (const std::string_view line :
         {"  File \"C:\\ComfyUI\\execution.py\", line 152, in f\n", "Failed to process D:\\1,MP4\n",
          "\"File \\\"H:\\\\sd\\\\nodes.py\\\", line 1\"\n", "file=D:\\a\\_work\\1\\s\\cuda_stream_handle.cc\n"}) {
      EXPECT_TRUE(advice_for(std::string(line) + failure)
                      .starts_with("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128 (Windows"));
      EXPECT_TRUE(
          advice_for(failure + std::string(line)).starts_with("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128 (W"));
    }
  for (const std::string_view line : {"  File \"/home/c/train.py\", line 152, in f\n", "http://host/a\\b\n",
                                      "\"E:\\nfailed\"\n", "got C:\\ntrace of it\n"})
    EXPECT_TRUE(advice_for(std::string(line) + text).starts_with("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"))
        << line;
}

}  // namespace
}  // namespace memreel::explain
