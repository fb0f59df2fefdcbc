// SPDX-License-Identifier: Apache-2.0
// What programs and libraries say that allocate for themselves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "analyzer/analysis/explain/answer.h"
#include "tests/unit/explain/pasted_logs.h"

namespace memreel::explain {
namespace {

TEST(Libraries, KindsAndFiguresOfTheirTexts) {
  struct Case {
    std::string_view log, framework, kind;
    std::uint64_t requested, free;  // 0: not in the text
  };
  constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
  for (const Case& expected : {
           Case{"Error: 'err == cudaSuccess' failed: StandardGpuResources: alloc\n fail type FlatData dev 2 space "
                "Device stream 0 size 2764800000 bytes (cudaMalloc error out of memory [2])",
                "FAISS", "figures_missing", 2764800000, 0},
           Case{"StandardGpuResources: Faiss device allocator fail type IVFLists dev 1 space Device stream 0x7fa07 "
                "size 1024 bytes Allocator state:\nGPU device 1 allocator state:\nDevice free memory: 82400968704 "
                "bytes",
                "FAISS", "refused_though_free", 1024, 82400968704},
           Case{"failed: failed to cudaMalloc 47064032 bytes (error 2 out of memory)", "FAISS", "figures_missing",
                47064032, 0},
           Case{"stack_like_memory_pool.h:294: Error: Out of memory. Requested 1070.5; Free 1010.25", "CatBoost",
                "lack", 1122500608, 1010 * mib + mib / 4},
           Case{"stack_like_memory_pool.h:303: Error: Out of memory. Requested 8880 MB; Free 5902 MB", "CatBoost",
                "lack", 8880 * mib, 5902 * mib},
           Case{"Allocation using MemorySpace named \"Cuda\" failed with the following error:  Allocation of size 2 G "
                "failed, likely due to insufficient memory.  (The allocation mechanism was cudaMalloc().)",
                "Kokkos", "figures_missing", 2048 * mib, 0},
           Case{"Allocation using MemorySpace named \"Host\" failed with the following error:  Allocation of size 2 G "
                "failed, likely due to insufficient memory.",
                "Kokkos", "host_memory", 2048 * mib, 0},
           Case{"TotalUsedMemStatistics : 1000000000 plus alloc size : 301990400 is more than total mem size : "
                "1100000000.",
                "MindSpore", "lack", 301990400, 100000000},
           Case{"Call rtMalloc fail, purpose: page caching, type = 2, size:3221291008, device_id:0[FUNC:Alloc]",
                "Ascend", "figures_missing", 3221291008, 0},
           Case{"paddle.fluid.core.EnforceNotMet: enforce allocating < available failed, 11475179929 >= 11156224154",
                "PaddlePaddle", "lack", 11475179929, 11156224154},
       }) {
    const Failure failure = only_failure(expected.log);
    ASSERT_NE(failure.grammar, nullptr);
    EXPECT_EQ(failure.grammar->framework, expected.framework) << expected.log;
    EXPECT_EQ(text_of(failure.kind).name, expected.kind) << expected.log;
    EXPECT_EQ(failure.figures[Field::requested].value_or(0), expected.requested) << expected.log;
    EXPECT_EQ(failure.figures[Field::free].value_or(0), expected.free) << expected.log;
  }
}

TEST(Libraries, PinnedMemoryIsTheHosts) {
  for (const std::string_view log :
       {"[ERROR] MD(14433,python) [arena.cc:250] Init] cudaHostAlloc failed, ret[2], out of memory",
        "cudaMallocHost(&p, n) failed: out of memory", "cuMemHostRegister_v2 failed: out of memory",
        "hipHostMalloc: out of memory"})
    EXPECT_EQ(kind_in(log), "host_memory") << log;
  EXPECT_EQ(kind_in("cudaMalloc failed: out of memory"), "no_figures");
}

TEST(Libraries, TheirNamesArePartOfVagueTexts) {
  for (const auto& [log, framework] : std::array<std::pair<std::string_view, std::string_view>, 6>{
           {{"ERROR on proc 0: Insufficient memory on accelerator (src/GPU/pair_lj_cut_gpu.cpp:110)", "LAMMPS"},
            {"System is out of GPU memory", "Cycles"},
            {"Out of memory in cuMemAlloc(&device_pointer, size)", "Cycles"},
            {"  what():  parallel_for failed: out of memory", "Thrust"},
            {"  what(): std::bad_alloc: out of memory", "Thrust"},
            {"CUDA error 2 in file ../../amrex/Src/Base/AMReX_Arena.cpp line 169: out of memory !!!", "AMReX"}}}) {
    const Failure failure = only_failure(log);
    EXPECT_EQ(failure.kind, Kind::no_figures) << log;
    EXPECT_EQ(failure.grammar->framework, framework) << log;
  }
}

TEST(Libraries, ACommaBeforeTwoDigitsIsADecimalPoint) {
  const auto requested = [](std::string_view size) {
    return only_failure("ggml_cuda_host_malloc: failed to allocate " + std::string(size) +
                        " of pinned memory: invalid argument")
        .figures[Field::requested];
  };
  constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
  EXPECT_EQ(requested("1900,00 MiB"), 1900 * mib);
  EXPECT_EQ(requested("0,5 MiB"), mib / 2);
  EXPECT_EQ(requested("1,900.00 MiB"), 1900 * mib);
  EXPECT_EQ(requested("1,900 MiB"), 1900 * mib);
  EXPECT_EQ(requested("1,073,741,824 bytes"), 1024 * mib);
}

TEST(Libraries, FiguresBelowAVagueTextAreRead) {
  const std::string figures = "\n- Free memory: 11310923776\n- Requested memory: 47996\n\nStack trace:\n";
  for (const std::string_view text :
       {"Memory allocation error on worker 0: std::bad_alloc: cudaErrorMemoryAllocation: out of memory",
        "Memory allocation error on worker -1: std::bad_alloc: out of memory", "std::bad_alloc: out of memory",
        "CUDA error: out of memory", "cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY", "hipErrorOutOfMemory",
        "cudaErrorMemoryAllocation"}) {
    const Failure failure = only_failure(std::string(text) + figures);
    EXPECT_EQ(text_of(failure.kind).name, "refused_though_free") << text;
    EXPECT_EQ(failure.figures[Field::free], 11310923776U) << text;
    EXPECT_EQ(failure.figures[Field::requested], 47996U) << text;
    EXPECT_EQ(kind_in(std::string(text) + "\n- Free memory: 10 MB\n- Requested memory: 2 GB\n"), "lack") << text;
    EXPECT_NE(kind_in(std::string(text) + "\nstep 3\nFree memory: 10 MB\n"), "lack") << text;
  }
  EXPECT_EQ(only_failure("Memory allocation error on worker 3: out of memory" + figures).grammar->framework, "XGBoost");
}

TEST(Libraries, TextsWithARequestAndNothingElse) {
  struct Case {
    std::string_view log, framework, kind;
    std::uint64_t requested;
  };
  for (const Case& expected :
       {Case{"RuntimeError: [metal::malloc] Attempting to allocate 48736917632 bytes which is greater than the maximum "
             "allowed buffer size of 30150672384 bytes.",
             "MLX", "larger_than_device", 48736917632},
        Case{
            "RuntimeError: [metal::malloc] Attempting to allocate 18446744069414600704 bytes which is greater than the "
            "maximum allowed buffer size of 86586540032 bytes.",
            "MLX", "nonsense_size", std::uint64_t{1} << 63U},
        Case{"  what(): [malloc_or_wait] Unable to allocate 1000 bytes.", "MLX", "figures_missing", 1000},
        Case{"[metal::malloc] Unable to allocate 1000 bytes.", "MLX", "figures_missing", 1000},
        Case{"RuntimeError: Could not allocate tensor with 4096 bytes. There is not enough GPU video memory available!",
             "DirectML, Direct3D", "figures_missing", 4096},
        Case{"PxgCudaDeviceMemoryAllocator fail to allocate memory 4096 bytes!! Result = 2", "PhysX", "figures_missing",
             4096},
        Case{"jit_malloc(): out of memory! Could not allocate 512 bytes of device memory.", "Dr.Jit", "figures_missing",
             512},
        Case{"jit_malloc(): out of memory! Could not allocate 512 bytes of host memory.", "Dr.Jit", "host_memory", 512},
        Case{"cv2.error: OpenCV(4.4.0) alloc.cpp:73: error: (-4:Insufficient memory) Failed to allocate 4096 bytes in "
             "function 'cv::OutOfMemoryError'",
             "OpenCV", "host_memory", 4096},
        Case{"OpenCV Error: Insufficient memory (Failed to allocate 4096 bytes) in cv::OutOfMemoryError", "OpenCV",
             "host_memory", 4096},
        Case{
            "W memory.cc:212] Failed to allocate CUDA memory with byte size 4096 on GPU 1: CNMEM_STATUS_OUT_OF_MEMORY, "
            "falling back to pinned system memory",
            "Triton Inference Server", "warning", 4096}}) {
    const Failure failure = only_failure(expected.log);
    ASSERT_NE(failure.grammar, nullptr);
    EXPECT_EQ(failure.grammar->framework, expected.framework) << expected.log;
    EXPECT_EQ(text_of(failure.kind).name, expected.kind) << expected.log;
    EXPECT_EQ(failure.figures[Field::requested], expected.requested) << expected.log;
  }
  const Failure budget = only_failure(
      "dx : CreateResource 'd3d12 Texture' (1920 x 1080) format 72 failed (8007000e).\n\tDevice Memory Stats:\n"
      "\t\tLocal AvailableForReservation: 2739 MB, Budget: 5223 MB, CurrentUsage: 5183 MB, CurrentReservation: 64 MB");
  EXPECT_EQ(budget.figures[Field::free], std::uint64_t{40} << 20U);
}

TEST(Libraries, TextsWithoutFigures) {
  for (const auto& [log, framework] : std::array<std::pair<std::string_view, std::string_view>, 20>{{
           {"[virtualMemoryBuffer.cpp::resizePhysical::144] Error Code 2: OutOfMemory (no further information)",
            "TensorRT"},
           {"Error out of memory at line 351 in file /src/csrc/pythonInterface.c", "bitsandbytes"},
           {"GPUassert: out of memory mean.cu 377", "CUDA"},
           {"Encountered a CUDA error: cudaDriver().CuDevicePrimaryCtxRetain( &context, dev.get() ) returned (2): Out "
            "of "
            "memory",
            "OptiX"},
           {"[saver.cpp] CUresult error  result=2 file=saver.cpp func=cu_mem_create line=103", "CUDA"},
           {"ManagedCuda.CudaException: ErrorOutOfMemory: The API call failed because it was unable to allocate enough "
            "memory to perform the requested operation.",
            "CUDA"},
           {"OpenCV Error: Gpu API call (out of memory) in CudaFuncTable::mallocPitch", "OpenCV"},
           {"error: (-217:Gpu API call) out of memory in function 'allocate'", "OpenCV"},
           {"[h264_nvenc @ 0000023a79212040] OpenEncodeSessionEx failed: out of memory (10): (no details)", "NVENC"},
           {"nvenc : Error on nvEncOpenEncodeSessionEx: 10 (NVENC indicates that the API call failed because it was "
            "unable to allocate enough memory to perform the requested operation.)",
            "NVENC"},
           {"  what():  Memory Object Allocation Failure", "OpenCL"},
           {"NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from f()",
            "NVIDIA's kernel driver"},
           {"jni.SplitAndRetryOOM: GPU OutOfMemory", "Spark RAPIDS"},
           {"jni.GpuSplitAndRetryOOM: GPU OutOfMemory: could not split inputs and retry", "Spark RAPIDS"},
           {"DmlExecutionProvider\\src\\BucketizedBufferAllocator.cpp(122): Exception(2) tid(3a4) 8007000E Not enough "
            "memory resources are available to complete this operation.",
            "DirectML, Direct3D"},
           {"LogRHI: Fatal: Out of video memory trying to allocate a rendering resource.", "Unreal Engine"},
           {"thread 'main' panicked at wgpu-core: wgpu error: Out of Memory", "wgpu"},
           {"error loading model: unable to allocate CUDA0 buffer", "llama.cpp"},
           {"graph_reserve: failed to allocate compute pp buffers", "llama.cpp"},
           {"- **Exception Type:** torch.OutOfMemoryError\n- **Exception Message:** Allocation on device \n## Stack",
            "PyTorch"},
       }}) {
    const Failure failure = only_failure(log);
    ASSERT_NE(failure.grammar, nullptr) << log;
    EXPECT_EQ(failure.kind, Kind::no_figures) << log;
    EXPECT_EQ(failure.grammar->framework, framework) << log;
  }
}

TEST(Libraries, WhoEndsAProcessForWantOfTheHostsMemory) {
  for (const std::string_view log :
       {"    Last State:     Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n",
        "Container trainer exceeded memory limit, OOMKilled (exit code 137)", "\"OOMKilled\": true,",
        "trainer-0   0/1   OOMKilled   3   5m", "DataLoader worker (pid 12345) is killed by signal: Killed. ",
        "Memory on the node (IP: 10.0.0.2, ID: 8c5a) where the task (name=f, pid=548, memory used=12.18GB) was running "
        "was 31.91GB / 33.28GB (0.958834), which exceeds the memory usage threshold of 0.95.",
        "4 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons",
        "LightGBMError: Out of Host Memory", "vk::Device::allocateMemory: ErrorOutOfHostMemory"})
    EXPECT_EQ(kind_in(log), "host_memory") << log;
  for (const std::string_view log :
       {"\"OOMKilled\": false,", "OOMKilled=0", "0 Workers (tasks / actors) killed due to memory pressure (OOM)",
        "DataLoader worker (pid 12345) is killed by signal: Aborted.", "CUresult error  result=201 file=a.cpp",
        "OpenEncodeSessionEx failed: unsupported device (2)", "HRESULT 80070005 of d3d12"})
    EXPECT_TRUE(failures_in(log).empty()) << log;
}

}  // namespace
}  // namespace memreel::explain
