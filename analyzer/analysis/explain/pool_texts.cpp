// SPDX-License-Identifier: Apache-2.0
// Texts of pools in front of the driver: RMM and what uses it (cuDF, Spark), and CuPy.

#include <algorithm>
#include <array>

#include "analyzer/analysis/explain/failure.h"

namespace memreel::explain {
namespace {

/// A pool grows to its maximum and no further, whatever the device has left. By default it has none, and then the same
/// text says that the device refused.
void pool_maximum_rule(Failure& failure) {
  failure.kind = failure.figures.empty() ? Kind::no_figures : Kind::own_limit;
  failure.because =
      "the pool may not grow beyond the maximum that it was given; if it was given none, the device refused";
}

/// Spark's pool takes its maximum at the start: what is not allocated of it is free, in pieces.
void spark_rule(Failure& failure) {
  Figures& figures = failure.figures;
  const auto limit = figures[Field::limit], live = figures[Field::live], requested = figures[Field::requested];
  if (limit && live && requested) {
    const std::uint64_t free = *limit - std::min(*live, *limit);
    figures[Field::capacity] = *limit;
    figures[Field::limit].reset();
    figures[Field::cached] = free;
    figures[Field::free] = 0;
  }
  judge_by_figures(failure);
}

/// CuPy's older text includes the request in its total, "allocated so far" does not.
void cupy_rule(Failure& failure) {
  Figures& figures = failure.figures;
  if (const auto total = figures[Field::used]) {
    figures[Field::reserved] = *total - std::min(*total, figures[Field::requested].value_or(0));
    figures[Field::used].reset();
  }
  judge_by_figures(failure);
}

constexpr std::string_view rmm = "RMM", spark = "Spark RAPIDS", cupy = "CuPy";

const std::array texts_of_rapids{
    Grammar{
        .name = "rmm.pool_maximum",
        .framework = rmm,
        .releases = "24.12 and newer",
        .key = "maximumpoolsizeexceeded",
        .head = R"(Maximum pool size exceeded \(failed to allocate {requested}\))",
        .example = "std::bad_alloc: out_of_memory: RMM failure at: pool_memory_resource.hpp: Maximum pool size "
                   "exceeded (failed to "
                   "allocate 1.500 GiB)",
        .meaning =
            "The pool's own maximum or, if none was set, the device: a pool can't serve a request from two upstream "
            "blocks, so that an initial size near the maximum serves more.",
        .printed_by = "rmm/mr/device/pool_memory_resource.hpp",
        .rule = pool_maximum_rule,
        .extent = 200},
    Grammar{
        .name = "rmm.pool_maximum_short",
        .framework = rmm,
        .releases = "before 24.12",
        .key = "maximumpoolsizeexceeded",
        .head = R"((?:\[Upstream {requested}\]\[FAILURE )?Maximum pool size exceeded)",
        .example = "MemoryError: std::bad_alloc: out_of_memory: RMM failure at: pool_memory_resource.hpp: Maximum "
                   "pool size exceeded",
        .meaning =
            "The pool's own maximum or, if none was set, the device; this release does not say how much was requested.",
        .printed_by = "rmm/mr/device/pool_memory_resource.hpp",
        .rule = pool_maximum_rule,
        .extent = 120},
    Grammar{.name = "rmm.driver_sized",
            .framework = rmm,
            .releases = "22.04 and newer",
            .key = "cudaerror(failedtoallocate",
            .head = R"(CUDA error \(failed to allocate {requested}\))",
            .example = "std::bad_alloc: out_of_memory: CUDA error (failed to allocate 4412336 bytes) at: "
                       "cuda_memory_resource.hpp: "
                       "cudaErrorMemoryAllocation out of memory",
            .meaning = "The driver refused; what the device had is not in the text.",
            .printed_by = "rmm/mr/device/cuda_memory_resource.hpp",
            .rule = judge_by_figures,
            .extent = 200},
    Grammar{.name = "rmm.driver",
            .framework = rmm,
            .key = "memory_resource.hpp",
            .head = R"(std::bad_alloc: [^\n]{0,300}memory_resource\.hpp)",
            .example = "MemoryError: std::bad_alloc: CUDA error at: cuda_memory_resource.hpp: "
                       "cudaErrorMemoryAllocation out of memory",
            .meaning = "The driver refused; this release says neither the request nor what there was.",
            .printed_by = "rmm/mr/device/cuda_memory_resource.hpp",
            .clauses = {R"(failed to allocate {requested})"},
            .rule = judge_by_figures,
            .vague = true,
            .extent = 500},
    Grammar{.name = "spark.pool",
            .framework = spark,
            .key = "initializingrmm",
            .head = R"(Initializing RMM[^\n]{0,100}max(?:imum)? (?:pool )?size = {limit})",
            .printed_by = "com.nvidia.spark.rapids.GpuDeviceManager",
            .fact = true,
            .extent = 300},
    Grammar{
        .name = "spark.spilling",
        .framework = spark,
        .key = "devicestorehas",
        .head =
            R"(Device allocation of {requested} failed, device store has (?:[\d,]+ total and )?[1-9][\d,]*(?: spillable)? bytes)",
        .example = "Device allocation of 1073741824 bytes failed, device store has 8589934592 total and 8589934592 "
                   "spillable bytes.",
        .meaning = "A warning: what can be spilled is spilled, and the request is made again.",
        .printed_by = "com.nvidia.spark.rapids.DeviceMemoryEventHandler",
        .clauses = {R"(Total RMM allocated is {live})"},
        .rule =
            [](Failure& failure) {
              failure.kind = Kind::warning;
              failure.because = "the device store has data to spill, after which the request is made again";
            },
        .part = 0,
        .aside = true,
        .extent = 400},
    Grammar{
        .name = "spark.allocation",
        .framework = spark,
        .key = "devicestorehas",
        .head = R"(Device allocation of {requested} failed, device store has)",
        .example =
            "Device allocation of 1073741824 bytes failed, device store has 0 total and 0 spillable bytes. Total RMM "
            "allocated is 21474836480 bytes.",
        .meaning = "Nothing was left to spill. If the pool is larger than what is allocated, it is in pieces: the "
                   "pool's size is in "
                   "the line `Initializing RMM` at the start of the log.",
        .printed_by = "com.nvidia.spark.rapids.DeviceMemoryEventHandler",
        .clauses = {R"(Total RMM allocated is {live})"},
        .rule = spark_rule,
        .extent = 400},
    Grammar{.name = "spark.retry",
            .framework = spark,
            .key = "retryingallocationof",
            .head = R"(Retrying allocation of {requested} after)",
            .example =
                "[RETRY 1] Retrying allocation of 1073741824 after a synchronize. Total RMM allocated is 5368709120 "
                "bytes.",
            .meaning = "A warning: the request is made again. It failed only if an error follows.",
            .printed_by = "com.nvidia.spark.rapids.DeviceMemoryEventHandler",
            .clauses = {R"(Total RMM allocated is {live})"},
            .rule =
                [](Failure& failure) {
                  failure.kind = Kind::warning;
                  failure.because = "the request is made again";
                },
            .part = 0,
            .aside = true,
            .extent = 300},
    Grammar{
        .name = "spark.exhausted",
        .framework = spark,
        .key = "devicestoreexhausted",
        .head = R"(Device store exhausted, unable to (?:allocate|satisfy allocation of) {requested})",
        .example =
            "Device store exhausted, unable to allocate 1073741824 bytes. Total RMM allocated is 21474836480 bytes.",
        .meaning = "Nothing was left to spill. If the pool is larger than what is allocated, it is in pieces: the "
                   "pool's size is in "
                   "the line `Initializing RMM` at the start of the log.",
        .printed_by = "com.nvidia.spark.rapids.DeviceMemoryEventHandler",
        .clauses = {R"(Total RMM allocated is {live})"},
        .rule = spark_rule,
        .part = 2,
        .extent = 400},
    Grammar{
        .name = "spark.retry_oom",
        .framework = spark,
        .key = "gpuoutofmemory",
        .head = R"((?:SplitAnd)?RetryOOM: GPU OutOfMemory)",
        .example = "com.nvidia.spark.rapids.jni.GpuSplitAndRetryOOM: GPU OutOfMemory: could not split inputs and retry",
        .meaning = "The task was made smaller until nothing could be split any more; no figures.",
        .printed_by = "spark-rapids-jni, SparkResourceAdaptor",
        .rule = judge_by_figures,
        .vague = true,
        .extent = 100},
    Grammar{.name = "cupy.so_far",
            .framework = cupy,
            .releases = "7 and newer, Chainer",
            .key = "(allocatedsofar",
            .head = R"(Out of memory allocating {requested} \(allocated so far: {reserved})",
            .example = "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 25,600,000 bytes (allocated so "
                       "far: 3,635,267,072 "
                       "bytes).",
            .meaning = "What the pool holds, in use or cached. The size of the device is not in the text.",
            .printed_by = "cupy/cuda/memory.pyx",
            .clauses = {R"(limit set to: {limit})"},
            .rule = cupy_rule,
            .extent = 200},
    Grammar{.name = "cupy.total",
            .framework = cupy,
            .releases = "before 7",
            .key = "outofmemorytoallocate",
            .head = R"(out of memory to allocate {requested} \(total {used})",
            .example =
                "cupy.cuda.memory.OutOfMemoryError: out of memory to allocate 819200000 bytes (total 3686400000 bytes)",
            .meaning = "The total includes the request. The size of the device is not in the text.",
            .printed_by = "cupy/cuda/memory.pyx",
            .rule = cupy_rule,
            .extent = 200},
};

}  // namespace

std::span<const Grammar> rapids_texts() { return texts_of_rapids; }

}  // namespace memreel::explain
