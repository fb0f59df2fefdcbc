// SPDX-License-Identifier: Apache-2.0
// Lines that mention an error, and those that report one.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/unit/explain/pasted_logs.h"

namespace memreel::explain {
namespace {

TEST(Mentions, AreNoFailures) {
  const std::string long_line =
      "  File \"/home/user/some/where/deep/in/a/tree/of/folders/train.py\", line 12, in main\n";
  for (const std::string_view line :
       {"tests/test_memory.py::test_CUDA_ERROR_OUT_OF_MEMORY_is_caught PASSED",
        "tests/a.py::test[CUDA_ERROR_OUT_OF_MEMORY] PASSED  [ 50%]",
        "tests/a.py::test[CUDA error: out of memory] SKIPPED",
        "errors: CUDA_ERROR_OUT_OF_MEMORY=0 CUDA_ERROR_INVALID_VALUE=0",
        "{\"CUDA_ERROR_OUT_OF_MEMORY\": 0, \"CUDA_ERROR_LAUNCH_FAILED\": 0}",
        "  CUDA_ERROR_OUT_OF_MEMORY = 2,",
        "  hipErrorOutOfMemory = 2,  // the device refused",
        "src/names.cpp:12: case CUDA_ERROR_OUT_OF_MEMORY: return \"out of memory\";",
        "      case cudaErrorMemoryAllocation:",
        "  if (status == CUBLAS_STATUS_ALLOC_FAILED) {",
        "+    return CUDA_ERROR_OUT_OF_MEMORY;",
        "// CUDA out of memory is handled by the caller",
        "#define CUDA_ERROR_OUT_OF_MEMORY 2",
        "warning: unused variable 'hipErrorOutOfMemory' [-Wunused-variable]",
        "a.cu(3): warning #177-D: variable \"cudaErrorMemoryAllocation\" was declared but never referenced",
        "| CUBLAS_STATUS_ALLOC_FAILED | a resource could not be allocated |",
        "| `hipErrorOutOfMemory` | 2 | the device refused |",
        "    raise torch.cuda.OutOfMemoryError(\"CUDA out of memory. Tried to allocate 3.00 GiB (made up)\")",
        ">       raise RuntimeError(f\"CUDA error: out of memory\")",
        "    throw std::runtime_error(\"CUDA error: out of memory\");",
        "    if \"CUDA out of memory\" in str(error):",
        "  EXPECT_EQ(count(\"CUDA out of memory. Tried to allocate 20.00 MiB\"), 1);",
        "    with pytest.raises(RuntimeError, match=\"CUDA out of memory\"):",
        "    logger.warning(\"CUDA out of memory, skipping the batch\")",
        "commit 0a1b2c3d Say what to do about CUDA error: out of memory",
        "0a1b2c3 Fix RuntimeError: CUDA error: out of memory in tests",
        "INFO Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid CUDA out of memory.",
        "Larger batches may cause CUDA out of memory",
        "If you see CUDA error: out of memory, use smaller batches.",
        "A batch of 64 gave CUDA out of memory, so this one has 32."}) {
    EXPECT_TRUE(failures_in(std::string(line) + "\nstep 1\n").empty()) << line;
    EXPECT_TRUE(failures_in("step 0\n" + std::string(line)).empty()) << line;
    EXPECT_TRUE(failures_in(long_line + std::string(line) + "\n").empty()) << line;
  }
}

TEST(Mentions, DoNotHideWhatFollowsThem) {
  const std::string source =
      "    raise torch.cuda.OutOfMemoryError(\"CUDA out of memory. Tried to allocate 2.00 GiB\")\n";
  EXPECT_EQ(only_failure(source + "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB").line,
            2U);
  EXPECT_EQ(only_failure("      case CUDA_ERROR_OUT_OF_MEMORY:\nCUDA error: out of memory").line, 2U);
}

TEST(Mentions, ATextMayEndWithItsLine) {
  EXPECT_EQ(failures_in("could not allocate pinned host memory of size: 34359738368\nnext\n").size(), 1U);
  EXPECT_EQ(failures_in("could not allocate pinned host memory of size: 34359738368\n").size(), 1U);
}

TEST(Mentions, ReportsAreNone) {
  const std::string long_line(100, 'x');
  for (const std::string_view line :
       {"RuntimeError('CUDA error: out of memory')", "E       RuntimeError: CUDA error: out of memory",
        "{\"level\": \"error\", \"msg\": \"CUDA error: out of memory\"}",
        "Error: DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")",
        "FAILED tests/a.py::test_b - RuntimeError: CUDA error: out of memory",
        "cuMemAlloc returned CUDA_ERROR_OUT_OF_MEMORY", "cuMemAlloc failed, code=CUDA_ERROR_OUT_OF_MEMORY (2)",
        "worker-1  | CUDA error: out of memory", "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "Training failed: CUDA out of memory", "rank 3 got CUDA out of memory, exiting",
        "CUDA_CHECK(cudaMalloc(&p, n)) failed: out of memory", "could not run the kernel: CUDA error: out of memory",
        "Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_OUT_OF_MEMORY",
        "Fixed-size pool: CUDA error: out of memory", "CUDA_ERROR_OUT_OF_MEMORY: 3", "hipErrorOutOfMemory"}) {
    EXPECT_EQ(failures_in(line).size(), 1U) << line;
    EXPECT_EQ(failures_in(long_line + "\n" + std::string(line) + "\nnext\n").size(), 1U) << line;
    EXPECT_EQ(failures_in("2026-01-01 10:00:00,123 " + std::string(line) + "\n").size(), 1U) << line;
  }
}

}  // namespace
}  // namespace memreel::explain
