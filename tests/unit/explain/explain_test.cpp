// SPDX-License-Identifier: Apache-2.0
// What logs say: each text of the table, variants of it, and logs as launchers, terminals and attackers make them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/analysis/explain/answer.h"
#include "analyzer/analysis/explain/failure.h"
#include "analyzer/analysis/explain/log_scan.h"

namespace memreel::explain {
namespace {

std::vector<Failure> failures_in(std::string_view log, std::size_t piece = std::size_t{1} << 20U) {
  LogScan scan;
  for (std::size_t at = 0; at < log.size(); at += piece) scan.take(log.substr(at, piece));
  return scan.finish().failures;
}

Failure only_failure(std::string_view log) {
  const std::vector<Failure> failures = failures_in(log);
  EXPECT_EQ(failures.size(), 1U) << log;
  return failures.empty() ? Failure{} : failures.front();
}

std::string kind_in(std::string_view log) {
  const std::vector<Failure> failures = failures_in(log);
  if (failures.size() != 1) return std::to_string(failures.size()) + " failures";
  return std::string(text_of(failures.front().kind).name);
}

std::string torch_text(std::string_view requested, std::string_view capacity, std::string_view free,
                       std::string_view rest) {
  return "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " + std::string(requested) +
         ". GPU 0 has a total capacity of " + std::string(capacity) + " of which " + std::string(free) + " is free. " +
         std::string(rest) +
         " If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to "
         "avoid "
         "fragmentation.  See documentation for Memory Management\n";
}

std::string old_text(std::string_view requested, std::string_view rest) {
  return "RuntimeError: CUDA out of memory. Tried to allocate " + std::string(requested) + " (GPU 0; " +
         std::string(rest) + ")\n";
}

TEST(Table, each_example_is_found_by_its_own_expression) {
  for (const Grammar* grammar : all_texts()) {
    if (grammar->fact) continue;
    const Failure failure = only_failure("some line\n" + std::string(grammar->example) + "\n");
    ASSERT_NE(failure.grammar, nullptr) << grammar->name;
    EXPECT_EQ(failure.grammar->name, grammar->name);
    EXPECT_EQ(failure.line, 2U);
  }
}

TEST(Table, names_are_unique_and_rows_are_complete) {
  std::set<std::string_view> names;
  for (const Grammar* grammar : all_texts()) {
    EXPECT_TRUE(names.insert(grammar->name).second) << grammar->name;
    EXPECT_FALSE(grammar->framework.empty() || grammar->key.empty() || grammar->printed_by.empty()) << grammar->name;
    EXPECT_TRUE(grammar->fact || !(grammar->example.empty() || grammar->meaning.empty())) << grammar->name;
    EXPECT_TRUE(std::ranges::none_of(grammar->key, [](char c) { return c == ' ' || (c >= 'A' && c <= 'Z'); }))
        << grammar->name;
  }
}

TEST(Torch, short_even_with_all_cache_is_a_lack) {
  const Failure failure = only_failure(torch_text("3.00 GiB", "39.39 GiB", "1.00 GiB",
                                                  "Including non-PyTorch memory, this process has 38.38 GiB memory in "
                                                  "use. Of the allocated memory 36.50 GiB is allocated by "
                                                  "PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated."));
  EXPECT_EQ(failure.kind, Kind::lack);
  EXPECT_NEAR(static_cast<double>(*failure.shortfall) / (1 << 30), 0.8, 0.01);
  EXPECT_EQ(failure.figures[Field::device], 0U);
}

TEST(Torch, cache_that_would_do_is_fragmentation) {
  EXPECT_EQ(kind_in(torch_text(
                "2.00 GiB", "23.64 GiB", "512.00 MiB",
                "Of the allocated memory 14.00 GiB is allocated by PyTorch, and 8.00 GiB is reserved by PyTorch but "
                "unallocated.")),
            "fragmentation");
}

TEST(Torch, one_percent_of_cache_is_not_fragmentation) {
  EXPECT_EQ(kind_in(torch_text(
                "1.10 GiB", "79.15 GiB", "900.00 MiB",
                "Including non-PyTorch memory, this process has 78.20 GiB memory in use. Of the allocated memory "
                "77.00 GiB is allocated by PyTorch, and 400.00 MiB is reserved by PyTorch but unallocated.")),
            "lack");
}

TEST(Torch, cached_blocks_of_private_pools_are_not_live) {
  const Failure failure = only_failure(torch_text("9.00 GiB", "31.00 GiB", "2.00 GiB",
                                                  "Of the allocated memory 28.00 GiB is allocated by PyTorch, with "
                                                  "20.00 GiB allocated in private pools (e.g., CUDA Graphs), "
                                                  "and 100.00 MiB is reserved by PyTorch but unallocated."));
  EXPECT_EQ(failure.kind, Kind::private_pool);
  EXPECT_EQ(failure.figures[Field::live], std::uint64_t{8} << 30U);
}

TEST(Torch, the_segment_counts_and_not_the_request) {
  // 12 MiB are free, but a request of 2 MiB asks the device for 20.
  const Failure failure = only_failure(old_text(
      "2.00 MiB",
      "10.76 GiB total capacity; 9.70 GiB already allocated; 12.00 MiB free; 9.80 GiB reserved in total by PyTorch"));
  EXPECT_EQ(failure.kind, Kind::lack);
  EXPECT_EQ(failure.figures[Field::needed], std::uint64_t{20} << 20U);
}

TEST(Torch, releases_before_1_4_print_what_is_cached) {
  const Failure failure = only_failure(
      old_text("1.50 GiB", "11.17 GiB total capacity; 7.00 GiB already allocated; 300.00 MiB free; 3.40 GiB cached"));
  EXPECT_EQ(failure.kind, Kind::fragmentation);
  EXPECT_NEAR(static_cast<double>(*failure.figures[Field::reserved]) / (1 << 30), 10.4, 0.01);
}

TEST(Torch, the_process_closest_to_what_is_reserved_is_this_one) {
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

TEST(Torch, a_limit_of_the_program_itself) {
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

TEST(Torch, refused_although_free) {
  EXPECT_EQ(kind_in(old_text("90.00 MiB",
                             "24.00 GiB total capacity; 12.09 GiB already allocated; 6.75 GiB free; 12.28 GiB reserved "
                             "in total by PyTorch")),
            "refused_though_free");
}

TEST(Torch, sizes_that_nothing_has) {
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

TEST(Torch, figures_that_contradict_each_other) {
  EXPECT_EQ(kind_in(torch_text(
                "20.00 MiB", "15.56 GiB", "51.09 GiB",
                "Of the allocated memory 1.00 GiB is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but "
                "unallocated.")),
            "contradictory");
}

TEST(Torch, what_windows_does_not_say_is_not_said) {
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

TEST(Torch, the_number_of_a_device_may_be_a_letter) {
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

TEST(Torch, a_text_that_its_release_ends_has_no_rest_to_find) {
  const std::string begin = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU";
  for (const std::string_view end : {"", " ", " \n", "\nTraceback (most recent call last):\n", " ')\n"}) {
    const Failure failure = only_failure(begin + std::string(end));
    EXPECT_EQ(failure.grammar->name, "torch.ends_early") << end;
    EXPECT_THAT(answer_to(failure).advice.front().what, testing::Not(testing::HasSubstr("rest of the line"))) << end;
  }
  for (const std::string_view end : {" 0 has a tot", "\n0 has a total capacity of"})
    EXPECT_EQ(only_failure(begin + std::string(end)).grammar->name, "torch.cut") << end;
}

TEST(Torch, without_what_is_cached_nothing_is_decided) {
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

TEST(Torch, a_warning_is_no_failure_unless_one_follows) {
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

TEST(Torch, other_accelerators) {
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
  EXPECT_EQ(
      kind_in(
          "Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : 20.00 GiB\n"
          "Requested               : 1.00 GiB\nDevice limit            : 23.99 GiB\nFree (according to CUDA): 0 bytes\n"
          "PyTorch limit (set by user-supplied memory fraction)\n                        : 17179869184.00 GiB\n"),
      "fragmentation");
}

std::string advice_for(std::string_view log) {
  std::string all;
  for (const Advice& advice : answer_to(only_failure(log)).advice) all += std::string(advice.what) + "\n";
  return all;
}

TEST(Advice, releases_without_expandable_segments_are_not_told_to_use_them) {
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

TEST(Advice, accelerators_get_their_own_tools) {
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

TEST(Engines, what_uses_up_the_budget_decides) {
  const Failure failure = only_failure(
      "INFO 01-15 11:06:48 worker.py:240] the current vLLM instance can use total_gpu_memory (24.00GiB) x "
      "gpu_memory_utilization "
      "(0.90) = 21.60GiB\nINFO 01-15 11:06:48 worker.py:240] model weights take 3.00GiB; non_torch_memory takes "
      "0.10GiB; PyTorch "
      "activation peak memory takes 19.00GiB; the rest of the memory reserved for KV Cache is -0.50GiB.\n" +
      std::string(10'000, 'x') + "\nValueError: No available memory for the cache blocks.\n");
  EXPECT_EQ(failure.kind, Kind::engine_budget);
  EXPECT_THAT(answer_to(failure).advice.front().what, testing::HasSubstr("max-num-batched-tokens"));
  EXPECT_EQ(
      kind_in(
          "ValueError: To serve at least one request with the models's max seq len (32768), (4.00 GiB KV cache is "
          "needed, "
          "which is larger than the available KV cache memory (1.37 GiB). Based on the available memory, the estimated "
          "maximum model length is 11216."),
      "engine_budget");
  EXPECT_EQ(kind_in("(EngineCore_DP0 pid=77) ERROR 06-30 13:53:19 [core.py:700] ValueError: Free memory on device "
                    "cuda:0 (10.1/23.5 "
                    "GiB) on startup is less than desired GPU memory utilization (0.9, 21.15 GiB)."),
            "other_process");
}

TEST(Engines, less_than_nothing_is_nothing) {
  const Failure failure =
      only_failure("ValueError: No available memory for the cache blocks. Available KV cache memory: -1.75 GiB.");
  EXPECT_EQ(failure.kind, Kind::engine_budget);
  EXPECT_EQ(failure.because, "nothing is left for the KV cache");
}

TEST(Others, kinds_of_their_texts) {
  const std::vector<std::pair<std::string, std::string_view>> cases{
      {"E tensorflow/x.cc:1] Allocator (GPU_0_bfc) ran out of memory trying to allocate 900.00MiB (rounded to "
       "943718400)requested by op "
       "MatMul\nI x.cc:2] Stats: \nLimit:  8000000000\nInUse:  7900000000\nMaxInUse: 7950000000\n\nW op_kernel.cc:3] "
       "OP_REQUIRES failed: "
       "OOM when allocating tensor with shape[225,1024,1024] and type float on "
       "/job:localhost/replica:0/task:0/device:GPU:0 by "
       "allocator GPU_0_bfc\n",
       "lack"},
      {"Allocator (GPU_0_bfc) ran out of memory trying to allocate 900.00MiB\nStats: \nLimit:  8000000000\nInUse:  "
       "4000000000\nMaxInUse: "
       "4500000000\n",
       "fragmentation"},
      {"Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.13GiB with freed_by_count=0. The caller indicates "
       "that this is not "
       "a failure, but may mean that there could be performance gains if more memory were available.",
       "warning"},
      {"XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 20.87G of 15.48G hbm. "
       "Exceeded hbm capacity by "
       "5.39G.",
       "lack"},
      {"MemoryError: std::bad_alloc: out_of_memory: RMM failure at:/x/pool_memory_resource.hpp:257: Maximum pool size "
       "exceeded (failed "
       "to allocate 1.500 GiB): x",
       "own_limit"},
      {"[3190420][09:18:05:838319][error ] [A][Stream 0x1][Upstream 7449546240B][FAILURE maximum pool size exceeded]",
       "own_limit"},
      {"std::bad_alloc: out_of_memory: CUDA error (failed to allocate 4412336 bytes) at: "
       "/x/cuda_memory_resource.hpp:62: "
       "cudaErrorMemoryAllocation out of memory",
       "figures_missing"},
      {"INFO GpuDeviceManager: Initializing RMM ARENA initial size = 22512.625 MB, max size = 22512.625 MB\nWARN "
       "Device allocation of "
       "2147483648 bytes failed, device store has 0 total and 0 spillable bytes. Total RMM allocated is 12884901888 "
       "bytes.",
       "fragmentation"},
      {"cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 2,097,152,000 bytes (allocated so far: "
       "3,000,000,000 bytes, limit set "
       "to: 4,000,000,000 bytes).",
       "own_limit"},
      {"Out of GPU memory trying to allocate 2.000 GiB\nEffective GPU memory usage: 99.87% (7.785 GiB/7.795 "
       "GiB)\nMemory pool usage: "
       "2.500 GiB (7.156 GiB reserved)\n",
       "fragmentation"},
      {"Out of GPU memory trying to allocate 2.000 GiB\nEffective GPU memory usage: 99.87% (7.785 GiB/7.795 "
       "GiB)\nMemory pool usage: "
       "7.100 GiB (7.156 GiB reserved)\n",
       "lack"},
      {"ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 8589934592", "host_memory"},
      {"RuntimeError: CUDA error: out of memory", "no_figures"},
      {"RuntimeError: Not enough memory. Please try increasing --mem-fraction-static.", "no_figures"},
      {"RuntimeError: [enforce fail at alloc_cpu.cpp:114] data. DefaultCPUAllocator: not enough memory: you tried to "
       "allocate 68719476736 "
       "bytes.",
       "host_memory"},
      {"Out of memory: Killed process 4711 (python) total-vm:98765432kB, anon-rss:63456789kB", "host_memory"},
      {"!!! Exception during processing !!! Allocation on device \ntorch.OutOfMemoryError: Allocation on device 1\n",
       "no_figures"},
      {"error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)", "no_figures"},
      {"vkQueueSubmit failed: VK_ERROR_OUT_OF_DEVICE_MEMORY", "no_figures"},
      {"RuntimeError: level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)", "no_figures"},
      {"ggml_backend_sycl_buffer_type_alloc_buffer: can't allocate 2147483648 Bytes of memory on device",
       "figures_missing"},
      {"NPU out of memory. NPUWorkspaceAllocator tried to allocate 2.50 GiB(NPU 3; 29.50 GiB total capacity; 30.00 MiB "
       "free). If you want to reduce memory usage",
       "figures_missing"},
      {"clCreateBuffer failed: CL_MEM_OBJECT_ALLOCATION_FAILURE", "no_figures"},
      {"clBuildProgram failed: CL_OUT_OF_HOST_MEMORY", "host_memory"},
      {"RuntimeError: HIP error: hipErrorOutOfMemory", "no_figures"},
      {"RuntimeError: CUDA error: HIPBLAS_STATUS_ALLOC_FAILED when calling `hipblasCreate(handle)`", "no_figures"},
      {"RuntimeError: cuda runtime error (2) : out of memory at /x/THCStorage.cu:58", "no_figures"},
      {"pycuda._driver.MemoryError: cuMemAlloc failed: out of memory", "no_figures"},
      {"RuntimeError: cuDNN error: out of memory", "no_figures"},
      {"Last error:\nCuda failure 2 'out of memory'", "no_figures"},
      {"slurmstepd: error: Detected 3 oom-kill event(s) in step 9.0 cgroup. Some of your processes may have been "
       "killed "
       "by the cgroup out-of-memory handler.",
       "host_memory"},
      {"No valid triton configs. OutOfMemoryError: out of resource: triton_mm Required: 294912 Hardware limit:232448 "
       "Reducing block sizes",
       "not_device_memory"},
      {"ResourceExhaustedError: failed to allocate memory [Op:MatMul]", "no_figures"},
      {"ResourceExhaustedError: OOM when allocating tensor with shape[512,64,28,28]\n\t [[Node: Conv2D", "no_figures"},
      {"W bfc_allocator.cc:275] Ran out of memory trying to allocate 256.00MiB.  See logs for memory state.",
       "figures_missing"},
      {"RuntimeError: Resource exhausted: Failed to allocate request for 64.00MiB (67108864B) on device ordinal 2",
       "figures_missing"},
      {"RuntimeError: Resource exhausted: Out of memory allocating 1073741824 bytes.", "figures_missing"},
  };
  for (const auto& [log, kind] : cases) EXPECT_EQ(kind_in(log), kind) << log;
}

TEST(Logs, lines_may_be_broken_anywhere) {
  const std::string text = torch_text("2.00 GiB", "23.64 GiB", "512.00 MiB",
                                      "Of the allocated memory 14.00 GiB is allocated by PyTorch, and 8.00 GiB is "
                                      "reserved by PyTorch but unallocated.");
  for (std::size_t width = 80; width < 130; ++width) {
    std::string broken;
    for (std::size_t at = 0; at < text.size(); at += width) broken += text.substr(at, width) + "\n";
    const Failure failure = only_failure(broken);
    EXPECT_EQ(failure.kind, Kind::fragmentation) << broken;
    EXPECT_EQ(failure.figures[Field::live], std::uint64_t{14} << 30U) << broken;
    EXPECT_EQ(failure.figures[Field::free], std::uint64_t{512} << 20U) << broken;
  }
}

TEST(Logs, ranks_may_be_interleaved) {
  const auto lines_of = [](int rank) {
    return std::vector<std::string>{
        "[rank" + std::to_string(rank) + "]: Allocation on device " + std::to_string(rank) +
            " would exceed allowed memory. (out of memory)\n",
        "[rank" + std::to_string(rank) + "]: Currently allocated     : 2" + std::to_string(rank) + ".00 GiB\n",
        "[rank" + std::to_string(rank) + "]: Requested               : 3.00 GiB\n",
        "[rank" + std::to_string(rank) + "]: Device limit            : 31.00 GiB\n",
        "[rank" + std::to_string(rank) + "]: Free (according to CUDA): 0 bytes\n"};
  };
  std::string log;
  for (std::size_t i = 0; i < 5; ++i)
    for (int rank = 0; rank < 3; ++rank) log += lines_of(rank)[i];
  const std::vector<Failure> failures = failures_in(log);
  ASSERT_EQ(failures.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(failures[i].source, "rank " + std::to_string(i));
    EXPECT_EQ(failures[i].figures[Field::live], (20 + i) << 30U);
  }
}

TEST(Logs, prefixes_colours_and_escapes_do_not_matter) {
  const std::string text =
      "CUDA out of memory. Tried to allocate 2.87 GiB (GPU 3; 14.76 GiB total capacity; 8.77 GiB already allocated; "
      "19.75 MiB free; 13.71 GiB reserved in total by PyTorch)";
  for (const std::string& log :
       {"\x1b[31mRuntimeError\x1b[0m: " + text + "\r\n", "[1,3]<stderr>:" + text + "\n",
        "2026-11-26T07:00:00.123Z stderr F " + text + "\n",
        "{\"level\": \"error\", \"message\": \"Traceback:\\n  File x\\nRuntimeError: " + text + "\\n\"}\n",
        "(RayWorker pid=123, ip=10.0.0.1) ERROR 06-30 13:53:19 [worker.py:1] " + text + "\n",
        "worker-1  | " + text + "\n", "E       " + text + "\n", std::string("no line feed at all: ") + text}) {
    const Failure failure = only_failure(log);
    EXPECT_EQ(failure.kind, Kind::fragmentation) << log;
    EXPECT_EQ(failure.figures[Field::device], 3U) << log;
  }
}

TEST(Logs, utf16_of_a_windows_shell_is_read) {
  std::string wide = "\xff\xfe";
  for (const char letter :
       old_text("2.87 GiB",
                "14.76 GiB total capacity; 8.77 GiB already allocated; 19.75 MiB free; 13.71 GiB reserved "
                "in total by PyTorch"))
    wide += std::string{letter, '\0'};
  EXPECT_EQ(kind_in(wide), "fragmentation");
}

TEST(Logs, a_failure_that_is_printed_again_is_counted) {
  const std::string text =
      old_text("2.87 GiB",
               "14.76 GiB total capacity; 8.77 GiB already allocated; 19.75 MiB free; 13.71 GiB reserved "
               "in total by PyTorch");
  EXPECT_EQ(only_failure(text + "Traceback\n" + text).count, 2U);
}

TEST(Logs, pieces_of_any_size_give_the_same) {
  std::string log;
  for (int i = 0; i < 30; ++i)
    log += std::string(static_cast<std::size_t>(i) * 997, 'x') + "\n" +
           old_text(std::to_string(100 + i) + ".00 MiB",
                    "14.76 GiB total capacity; 13.60 GiB already allocated; 19.75 MiB free; 13.71 GiB reserved in "
                    "total by PyTorch");
  const std::vector<Failure> whole = failures_in(log);
  ASSERT_EQ(whole.size(), 30U);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{4096}}) {
    const std::vector<Failure> failures = failures_in(log, piece);
    ASSERT_EQ(failures.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_EQ(failures[i].line, 2 * i + 2);
      EXPECT_EQ(failures[i].figures, whole[i].figures);
    }
  }
}

TEST(Logs, facts_and_warnings_do_not_hide_a_vague_text_on_another_line) {
  const std::string plain = "RuntimeError: CUDA error: out of memory\n";
  EXPECT_EQ(kind_in("INFO 01-15 [gpu_model_runner.py:2007] Model loading took 7.5 GiB and 3.1 seconds\n" + plain),
            "no_figures");
  EXPECT_EQ(kind_in("llama_model_load: using device CUDA1 (NVIDIA A10) - 22000 MiB free\n" + plain), "no_figures");
  const std::string refused =
      "failed to allocate 7.50G (8053063680 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n";
  const std::string pinned = "ggml_cuda_host_malloc: failed to allocate 512.00 MiB of pinned memory: out of memory\n";
  for (const std::string& warning : {refused, pinned}) {
    EXPECT_EQ(failures_in(warning).size(), 1U) << warning;
    for (const std::string& vague :
         {plain, std::string("Could not create cudnn handle: CUDNN_STATUS_ALLOC_FAILED\n"),
          std::string("Failed setting context: CUDA_ERROR_OUT_OF_MEMORY: out of memory\n")}) {
      for (const std::string& log : {warning + "step\n" + vague, vague + "step\n" + warning}) {
        const std::vector<Failure> failures = failures_in(log);
        ASSERT_EQ(failures.size(), 2U) << log;
        EXPECT_EQ(std::ranges::count(failures, Kind::no_figures, &Failure::kind), 1) << log;
      }
    }
  }
}

TEST(Logs, a_vague_text_is_not_put_together_from_two_lines) {
  EXPECT_TRUE(failures_in("The weights of the first stage are now being copied to the device cuda:1, please wait\n"
                          "out of memory: nothing, malloc() of the host failed\n")
                  .empty());
  for (const std::string_view broken :
       {"(Worker pid=5) ERROR a prefix as wide as a terminal is: RuntimeError: CUDA err\nor: out of memory\n",
        "(Worker pid=5) ERROR a prefix as wide as a terminal is: cudaMalloc fail\ned: out of memory\n",
        "a line that is at least as wide as terminals used to be, and no other\nHIP error: out of memory\n",
        "a line that is at least as wide as terminals used to be, and no other\ncuMemAlloc failed: out of memory\n"})
    EXPECT_EQ(kind_in(broken), "no_figures") << broken;
  EXPECT_EQ(kind_in("(EngineCore pid=5) ERROR something that is as wide as a terminal: CUDA error: out of\nmemory\n"),
            "no_figures");
}

TEST(Others, the_arena_decides_whatever_text_ends_its_dump) {
  const auto dump = [](std::string_view in_use) {
    return "W bfc_allocator.cc:482] Allocator (GPU_0_bfc) ran out of memory trying to allocate 3.00GiB (rounded to "
           "3221225472)requested by op \nI bfc_allocator.cc:1106] Stats: \nLimit:  12000000000\nInUse:  " +
           std::string(in_use) + "\nMaxInUse: 11900000000\nNumAllocs: 12\n\n";
  };
  const std::string jax = "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 3221225472 bytes.\n";
  const std::string tensorflow =
      "W op_kernel.cc:1827] OP_REQUIRES failed at xla_ops.cc:580 : RESOURCE_EXHAUSTED: Out of memory while trying to "
      "allocate 3221225472 bytes.\n";
  const std::string keras =
      "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:\n\nDetected at node f "
      "defined at:\nOut of memory while trying to allocate 3221225472 bytes.\n";
  for (const std::string& end : {jax, tensorflow, keras, tensorflow + "Traceback\n" + keras}) {
    EXPECT_EQ(kind_in(dump("5000000000") + end), "fragmentation") << end;
    EXPECT_EQ(kind_in(dump("11500000000") + end), "lack") << end;
    const Failure failure = only_failure(dump("11500000000") + end);
    EXPECT_EQ(failure.grammar->framework, end == jax ? "JAX" : "TensorFlow") << end;
    EXPECT_EQ(answer_to(failure).advice.front().what.find("jax") != std::string_view::npos, end == jax) << end;
  }
  EXPECT_EQ(kind_in("E cuda_driver.cc:1040] failed to allocate 7.52GiB (8074538516 bytes) from device: "
                    "RESOURCE_EXHAUSTED: : CUDA_ERROR_OUT_OF_MEMORY: out of memory\n"),
            "warning");
}

TEST(Others, a_failure_has_its_own_request_and_not_that_of_a_warning_before_it) {
  const std::string jax = "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 3221225472 bytes.\n";
  for (const std::string_view warning :
       {"failed to allocate 15.02GiB (16128147456 bytes) from device: RESOURCE_EXHAUSTED: : CUDA_ERROR_OUT_OF_MEMORY: "
        "out of memory\n",
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.13GiB with freed_by_count=0. The caller "
        "indicates "
        "that this is not a failure, but may mean that there could be performance gains.\n"}) {
    const Failure failure = only_failure(std::string(warning) + jax);
    EXPECT_EQ(failure.grammar->name, "xla.allocating");
    EXPECT_EQ(failure.figures[Field::requested], 3221225472U);
  }
  const std::vector<Failure> failures =
      failures_in("could not allocate pinned host memory of size: 34359738368\nstep\n" + jax);
  ASSERT_EQ(failures.size(), 2U);
  EXPECT_EQ(failures[0].kind, Kind::host_memory);
  EXPECT_EQ(failures[1].figures[Field::requested], 3221225472U);
}

TEST(Others, memory_on_the_chip_of_a_tpu_is_not_the_devices) {
  for (const std::string_view log :
       {"RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem. Used 33.50M of 32.00M vmem. Exceeded vmem "
        "capacity "
        "by 1.50M.",
        "Ran out of memory in memory space smem while allocating on stack for %custom-call.3. Scoped allocation with "
        "size 2.00M and limit 1.00M exceeded scoped smem limit by 1.00M."}) {
    const Failure failure = only_failure(log);
    EXPECT_EQ(failure.kind, Kind::not_device_memory) << log;
    EXPECT_THAT(failure.because, testing::ContainsRegex("it has (32|1).00 MiB, the kernel wants (33.5|2.0)0 MiB"));
  }
}

TEST(Others, spark_that_can_spill_has_not_failed) {
  const auto text = [](std::string_view store) {
    return "INFO DeviceMemoryEventHandler: Device allocation of 536870912 bytes failed, device store has " +
           std::string(store) + " Total RMM allocated is 9000000000 bytes.\n";
  };
  EXPECT_EQ(kind_in(text("2147483648 total and 1073741824 spillable bytes. Attempt 1.")), "warning");
  EXPECT_EQ(kind_in(text("2147483648 bytes.")), "warning");
  EXPECT_EQ(kind_in(text("2147483648 total and 0 spillable bytes. Attempt 1.")), "figures_missing");
  EXPECT_EQ(kind_in(text("0 bytes.")), "figures_missing");
  const Failure exhausted = only_failure(text("0 total and 0 spillable bytes. Attempt 3.") +
                                         "WARN DeviceMemoryEventHandler: Device store exhausted, unable to allocate "
                                         "536870912 bytes. Total RMM allocated is "
                                         "9000000000 bytes.\n");
  EXPECT_EQ(exhausted.grammar->name, "spark.exhausted");
}

TEST(Logs, names_and_words_that_contain_others_are_no_failure) {
  for (const std::string_view log :
       {"ERROR Executor: Exception in task 1.0: java.lang.OutOfMemoryError: Java heap space\n",
        "Reading the document: out of memory (allocated 8388608)\n", "the current process is out of memory\n",
        "    except torch.cuda.OutOfMemoryError as e:\n",
        "AttributeError: module 'torch.cuda' has no attribute 'OutOfMemoryError'\n",
        "INFO: how to avoid CUDA out of memory errors during training\n"})
    EXPECT_TRUE(failures_in(log).empty()) << log;
}

TEST(Logs, prose_is_no_failure) {
  EXPECT_TRUE(failures_in("the memory is fine; nothing is out of order\nallocated 3 GiB of memory\n").empty());
  EXPECT_TRUE(failures_in("").empty());
}

TEST(Hostile, digits_escapes_and_keys_without_end) {
  std::string log = "CUDA out of memory. Tried to allocate " + std::string(3 << 20, '9') + " GiB (GPU 0; ";
  for (int i = 0; i < 20'000; ++i) log += "out of memory Tried to allocate \x1b[";
  log += std::string(1 << 20, '\x1b') + std::string(1 << 20, '\0') + std::string(1 << 20, '\\') +
         std::string(1 << 20, '\n');
  for (const Failure& failure : failures_in(log))
    for (const char letter : text_of(failure, "log", false))
      EXPECT_TRUE(letter == '\n' || letter >= ' ') << int(letter);
}

TEST(Text, has_at_most_five_lines_that_end_the_same_in_ascii_and_unicode) {
  for (const Grammar* grammar : all_texts()) {
    if (grammar->fact) continue;
    const Failure failure = only_failure(grammar->example);
    for (const bool unicode : {false, true}) {
      const std::string text = text_of(failure, "train.log", unicode);
      EXPECT_LE(std::ranges::count(text, '\n'), 5) << text;
      EXPECT_TRUE(unicode || std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }))
          << text;
    }
  }
}

}  // namespace
}  // namespace memreel::explain
