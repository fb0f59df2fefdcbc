// SPDX-License-Identifier: Apache-2.0
// What drivers, engines and other frameworks say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "analyzer/analysis/explain/answer.h"
#include "tests/unit/explain/pasted_logs.h"

namespace memreel::explain {
namespace {

TEST(Engines, WhatUsesUpTheBudgetDecides) {
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

TEST(Engines, LessThanNothingIsNothing) {
  const Failure failure =
      only_failure("ValueError: No available memory for the cache blocks. Available KV cache memory: -1.75 GiB.");
  EXPECT_EQ(failure.kind, Kind::engine_budget);
  EXPECT_EQ(failure.because, "nothing is left for the KV cache");
}

TEST(Engines, NameWhatDidNotFit) {
  const Failure failure = only_failure(
      "[TRT-LLM] [RANK 1] [E] Failed to initialize executor on rank 1: Executor creation failed due to insufficient "
      "GPU memory.\n\nThe following component could not be created: KV cache\nTotal GPU memory (GiB): 140.06\nFree "
      "GPU memory before component creation attempt (GiB): 108.86\n\nPreviously created components and free GPU "
      "memory before/after creation (GiB):\nModel: 139.55 / 110.70\n");
  EXPECT_EQ(failure.kind, Kind::engine_budget);
  EXPECT_EQ(failure.because, "\"KV cache\" could not be created with 108.86 GiB free of 140.06 GiB");
  const std::string tgi = "Error: Warmup(Generation(\"Not enough memory to handle ";
  EXPECT_THAT(only_failure(tgi + "4096 prefill tokens.").because, testing::HasSubstr("4096 tokens"));
  EXPECT_THAT(only_failure(tgi + "16000 total tokens with 2 prefill tokens.").because,
              testing::HasSubstr("16000 tokens"));
}

TEST(Others, KindsOfTheirTexts) {
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
      {"E rocm_driver.cc:606] failed to allocate 890.06M (933298432 bytes) from device: HIP_ERROR_OutOfMemory",
       "warning"},
      {"failed to allocate 8.00G from device: hipError_t(1002)", "warning"},
      {"W bfc_allocator.cc:275] Ran out of memory trying to allocate 256.00MiB.  See logs for memory state.",
       "figures_missing"},
      {"RuntimeError: Resource exhausted: Failed to allocate request for 64.00MiB (67108864B) on device ordinal 2",
       "figures_missing"},
      {"RuntimeError: Resource exhausted: Out of memory allocating 1073741824 bytes.", "figures_missing"},
  };
  for (const auto& [log, kind] : cases) EXPECT_EQ(kind_in(log), kind) << log;
}

TEST(Others, TheArenaDecidesWhateverTextEndsItsDump) {
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

TEST(Others, AFailureHasItsOwnRequestAndNotThatOfAWarningBeforeIt) {
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

TEST(Others, MemoryOnTheChipOfATpuIsNotTheDevices) {
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

TEST(Others, SparkThatCanSpillHasNotFailed) {
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

std::string program_text(std::string_view request, std::string_view total) {
  return "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate " +
         std::string(request) +
         " bytes.\nBufferAssignment OOM Debugging.\nBufferAssignment stats:\n             parameter allocation:    "
         "1.00MiB\n                 total allocation:  " +
         std::string(total) + "\n              total fragmentation:         0B (0.00%)\n";
}

TEST(Runtimes, AProgramThatAnyCardHoldsIsNotBlamed) {
  for (const auto& [request, total] : {std::pair{"6291456", "12.00MiB"}, std::pair{"2147483648", "6.00GiB"}}) {
    const Failure failure = only_failure(program_text(request, total));
    EXPECT_EQ(text_of(failure.kind).name, "figures_missing") << total;
    EXPECT_FALSE(failure.figures[Field::reserved]) << "nobody holds it";
    EXPECT_THAT(failure.because, testing::HasSubstr("what the device or the arena had left, the text does not say"));
    EXPECT_THAT(answer_to(failure).advice.front().what, testing::StartsWith("look for what else holds"));
  }
  const Failure large = only_failure(program_text("6442450944", "30.00GiB"));
  EXPECT_EQ(text_of(large.kind).name, "lack");
  EXPECT_THAT(large.because, testing::HasSubstr("needs 30.00 GiB"));
  EXPECT_EQ(kind_in(program_text("118111600640", "120.00GiB")), "larger_than_device");
}

std::string llama_text(std::string_view mib, std::string_view bytes, std::string_view buffer, std::string_view last) {
  return "ggml_backend_cuda_buffer_type_alloc_buffer: allocating " + std::string(mib) +
         " MiB on device 0: cudaMalloc failed: out of memory\nggml_gallocr_reserve_n: failed to allocate " +
         std::string(buffer) + " buffer of size " + std::string(bytes) + "\n" + std::string(last) + "\n";
}

TEST(Runtimes, LlamasLastLineNamesTheBuffer) {
  struct Case {
    std::string_view last, advice, because;
  };
  for (const Case& expected : {Case{"graph_reserve: failed to allocate compute buffers", "-ub", "the compute buffer"},
                               Case{"llama_init_from_model: failed to allocate compute pp buffers", "-ub", "compute"},
                               Case{"graph_reserve: failed to allocate compute buffers\nllama_init_from_model: failed "
                                    "to initialize the context: failed to allocate compute pp buffers",
                                    "-ub", "the compute buffer"},
                               Case{"failed to allocate buffer for kv cache", "-ctk q8_0", "the KV cache"}})
    for (const std::string_view buffer : {"CUDA0", "CUDA3", "ROCm0", "Vulkan0"})
      for (const auto& [mib, bytes, kind] : {std::tuple{"9866.00", "10345253120", "figures_missing"},
                                             std::tuple{"279356.51", "292926534144", "larger_than_device"}}) {
        const Failure failure = only_failure(llama_text(mib, bytes, buffer, expected.last));
        EXPECT_EQ(text_of(failure.kind).name, kind) << expected.last;
        EXPECT_THAT(failure.because, testing::HasSubstr(expected.because));
        const std::string_view advice = answer_to(failure).advice.front().what;
        EXPECT_THAT(advice, testing::HasSubstr(expected.advice));
        EXPECT_THAT(advice, testing::Not(testing::HasSubstr("layers"))) << "they don't make it smaller";
      }
  const Failure weights =
      only_failure(llama_text("279356.51", "292926534144", "CUDA0", "unable to allocate CUDA0 buffer"));
  EXPECT_THAT(answer_to(weights).advice.front().what, testing::HasSubstr("layers"));
  EXPECT_EQ(kind_in("ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 437944320\n"
                    "alloc_tensor_range: failed to allocate CPU buffer of size 437944320\n"
                    "graph_reserve: failed to allocate compute buffers\n"),
            "host_memory");
}

TEST(Runtimes, LlamaSaysBeforeHowMuchIsTooMuch) {
  const std::string plan =
      "llama_params_fit_impl: cannot meet free memory target of 1024 MiB, need to reduce device memory by 30211 MiB\n";
  const Failure failure =
      only_failure(plan + "llama_model_load: error loading model: unable to allocate ROCm0 buffer\n");
  EXPECT_EQ(failure.kind, Kind::lack);
  EXPECT_EQ(failure.shortfall, std::uint64_t{30211} << 20U);
  EXPECT_TRUE(failures_in(plan + "load_tensors: offloaded 12/99 layers to GPU\n").empty()) << "it adapts, and goes on";
  const Failure sized = only_failure(plan + llama_text("100.00", "104857600", "CUDA0", ""));
  EXPECT_EQ(sized.figures[Field::needed], sized.figures[Field::requested]);
}

}  // namespace
}  // namespace memreel::explain
