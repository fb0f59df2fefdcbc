// SPDX-License-Identifier: Apache-2.0
// Texts of programs and libraries that allocate for themselves: indexes, boosted trees, simulations, rendering.

#include <algorithm>
#include <array>

#include "analyzer/analysis/explain/failure.h"

namespace memreel::explain {
namespace {

/// CatBoost takes its pool when it starts: what is free is free in the pool.
void catboost_rule(Failure& failure) {
  judge_by_figures(failure);
  if (failure.kind == Kind::lack)
    failure.because = "short by " + in_words(failure.shortfall.value_or(0)) +
                      " in the pool that CatBoost took at the start, gpu_ram_part of what was free";
}

void kokkos_rule(Failure& failure) {
  if (const std::string& space = failure.words["space"]; space.find("Host") == std::string::npos)
    return judge_by_figures(failure);
  failure.kind = Kind::host_memory;
  failure.because = in_words(failure.figures[Field::requested].value_or(0)) + " of the host's memory were requested";
}

/// MindSpore counts blocks in use against what it may take of the device; whatever is only cached it has given back.
void mindspore_rule(Failure& failure) {
  Figures& figures = failure.figures;
  const std::uint64_t capacity = figures[Field::capacity].value_or(0), live = figures[Field::live].value_or(0);
  figures[Field::cached] = 0;
  figures[Field::free] = capacity - std::min(live, capacity);
  judge_by_figures(failure);
}

void ascend_rule(Failure& failure) {
  failure.words["accelerator"] = "NPU";
  judge_by_figures(failure);
}

constexpr std::string_view faiss = "FAISS", cycles = "Cycles";
constexpr std::string_view faiss_source = "faiss/gpu/StandardGpuResources.cpp",
                           cycles_source = "intern/cycles/device/device.cpp of Blender";

const std::array texts_of_libraries{
    Grammar{.name = "faiss.fail_type",
            .framework = faiss,
            .releases = "1.7 and newer",
            .key = "failtype",
            .head = R"(alloc(?:ator)? fail type {purpose:\w+} dev {device#} space \w+ stream \w+ size {requested})",
            .example = "StandardGpuResources: alloc fail type FlatData dev 2 space Device stream 0 size 2764800000 "
                       "bytes (cudaMalloc error out of memory [2])",
            .meaning = "FAISS allocates beside a framework's pool, whose cache it can't use.",
            .printed_by = faiss_source,
            .clauses = {R"(Device free memory: {free})"},
            .rule = judge_by_figures,
            .extent = 600},
    Grammar{.name = "faiss.cudamalloc",
            .framework = faiss,
            .releases = "until 1.7",
            .key = "failedtocudamalloc",
            .head = R"(failed to cudaMalloc {requested}(?: on device {device#})?)",
            .example = "Error: 'err == cudaSuccess' failed: Failed to cudaMalloc 1610612736 bytes on device 0 (error 2 "
                       "out of memory)",
            .meaning = "FAISS allocates beside a framework's pool, whose cache it can't use.",
            .printed_by = faiss_source,
            .rule = judge_by_figures,
            .extent = 200},
    Grammar{.name = "xgboost.allocation",
            .framework = "XGBoost",
            .key = "memoryallocationerroronworker",
            .head = R"(Memory allocation error on worker -?\d+)",
            .example = "XGBoostError: device_helpers.cuh:414: Memory allocation error on worker 0: std::bad_alloc: "
                       "cudaErrorMemoryAllocation: out of memory - Free memory: 11310923776 - Requested memory: 47996",
            .meaning = "What the device had and what was asked for stand below it. XGBoost allocates beside a "
                       "framework's pool, unless it was told to use RMM.",
            .printed_by = "src/common/device_helpers.cuh of XGBoost",
            .clauses = {free_and_requested},
            .rule = judge_by_figures,
            .extent = 400},
    Grammar{.name = "bitsandbytes.check",
            .framework = "bitsandbytes",
            .key = "outofmemory",
            .head = R"(Error out of memory at line \d+ in file)",
            .example = "Error out of memory at line 351 in file /src/csrc/pythonInterface.c",
            .meaning = "The driver refused: bitsandbytes allocates beside PyTorch's pool, whose cache it can't use; no "
                       "figures.",
            .printed_by = "csrc/pythonInterface.cpp of bitsandbytes",
            .rule = judge_by_figures,
            .vague = true,
            .extent = 100},
    Grammar{.name = "catboost.pool",
            .framework = "CatBoost",
            .key = "outofmemory.requested",
            .head = R"(Out of memory\. Requested {requested~MiB}(?: MB)?; Free {free~MiB})",
            .example = "NCudaLib::TOutOfMemoryError: Error: Out of memory. Requested 8880 MB; Free 5902.061425 MB",
            .meaning = "The pool that CatBoost takes at the start (gpu_ram_part) has no room for one more buffer.",
            .printed_by = "catboost/cuda/cuda_lib/memory_pool/stack_like_memory_pool.h",
            .rule = catboost_rule,
            .extent = 200},
    Grammar{
        .name = "kokkos.space",
        .framework = "Kokkos",
        .key = "likelyduetoinsufficientmemory",
        .head =
            R"(MemorySpace named \"?{space:\w+}\"? failed with the following error: Allocation of size {requested} failed)",
        .example = "Kokkos failed to allocate memory for label \"A\".  Allocation using MemorySpace named \"Cuda\" "
                   "failed with the following error:  Allocation of size 4.657 G failed, likely due to insufficient "
                   "memory.  (The allocation mechanism was cudaMalloc().",
        .meaning = "One view did not fit; the label names it.",
        .printed_by = "core/src/impl/Kokkos_SharedAlloc.cpp",
        .rule = kokkos_rule,
        .extent = 400},
    Grammar{.name = "lammps.accelerator",
            .framework = "LAMMPS",
            .key = "insufficientmemoryonaccelerator",
            .head = R"(Insufficient memory on accelerator)",
            .example = "ERROR on proc 0: Insufficient memory on accelerator (src/GPU/gpu_extra.h:38)",
            .meaning = "Atoms and neighbour lists of this process did not fit: fewer processes per device, or more "
                       "devices; no figures.",
            .printed_by = "src/GPU/gpu_extra.h",
            .rule = judge_by_figures,
            .vague = true,
            .extent = 100},
    Grammar{.name = "amrex.arena",
            .framework = "AMReX",
            .key = "outofmemory",
            .head = R"(CUDA error \d+ in file [^\n]{0,200}AMReX_Arena[^\n]{0,40}out of memory)",
            .example = "amrex::Abort::0::CUDA error 2 in file ../../../../amrex/Src/Base/AMReX_Arena.cpp line 169: out "
                       "of memory !!!",
            .meaning = "The arena takes three quarters of the device at the start (amrex.the_arena_init_size); often "
                       "another process holds more than the rest.",
            .printed_by = "Src/Base/AMReX_Arena.cpp",
            .rule = judge_by_figures,
            .vague = true,
            .extent = 100},
    Grammar{
        .name = "mindspore.pool",
        .framework = "MindSpore",
        .key = "ismorethantotalmemsize",
        .head =
            R"(TotalUsedMemStatistics : {live#} (?:plus TotalUsedByEventMemStatistics : \d+ and )?plus alloc size : {requested#} is more than total mem size : {capacity#})",
        .example = "TotalUsedMemStatistics : 29356337664 plus TotalUsedByEventMemStatistics : 0 and plus alloc size "
                   ": 301990400 is more than total mem size : 29464985600.",
        .meaning = "What is in use and the request exceed what the process may take of the device.",
        .printed_by = "mindspore/ccsrc/backend/common/mem_reuse/mem_dynamic_allocator.cc",
        .rule = mindspore_rule,
        .extent = 300},
    Grammar{
        .name = "ascend.malloc",
        .framework = "Ascend",
        .key = "callrtmallocfail",
        .head =
            R"(Call rtMalloc fail, purpose: {purpose:[\w ]+}, type = \d+, size: {requested#}, device_id: {device#})",
        .example = "Call rtMalloc fail, purpose: page caching, type = 2, size:3221291008, "
                   "device_id:0[FUNC:Alloc][FILE:device_allocator.cc]",
        .meaning = "The driver refused; what the device had is not in the text.",
        .printed_by = "CANN, error EL0004",
        .rule = ascend_rule,
        .extent = 200},
    Grammar{.name = "cubecl.no_pool",
            .framework = "CubeCL (Burn)",
            .key = "nopoolhandlesallocationofsize",
            .head = R"(No pool handles allocation of size {requested#})",
            .example = "thread 'main' panicked: No pool handles allocation of size 411041792",
            .meaning = "One buffer is larger than the backend allows for any; how much the device has left does not "
                       "matter.",
            .printed_by = "cubecl-runtime/src/memory_management/memory_manage.rs",
            .rule =
                [](Failure& failure) {
                  failure.kind = Kind::own_limit;
                  failure.because = "the largest buffer that the backend allows is smaller";
                },
            .extent = 100},
    Grammar{.name = "cycles.device",
            .framework = cycles,
            .key = "systemisoutofgpu",
            .head = R"(System is out of GPU (?:and shared host )?memory)",
            .example = "System is out of GPU and shared host memory",
            .meaning = "The scene does not fit, not even with what may lie in the host's memory: smaller textures "
                       "(Simplify), fewer subdivisions; no figures.",
            .printed_by = cycles_source,
            .rule = judge_by_figures,
            .vague = true,
            .extent = 100},
    Grammar{.name = "cycles.call",
            .framework = cycles,
            .key = "outofmemoryin",
            .head = R"(Out of memory in (?:cu|hip)[A-Z]\w+)",
            .example = "Out of memory in cuStreamCreate(&cuda_stream_, CU_STREAM_NON_BLOCKING) (queue.cpp:21)",
            .meaning = "The driver refused; no figures.",
            .printed_by = cycles_source,
            .rule = judge_by_figures,
            .vague = true,
            .extent = 100},
    Grammar{.name = "thrust.bad_alloc",
            .framework = "Thrust",
            .key = "outofmemory",
            .head = R"((?:std::bad_alloc|parallel_for(?: failed)?): out of memory)",
            .example = "terminate called after throwing an instance of 'thrust::system::system_error' what():  "
                       "parallel_for failed: out of memory",
            .meaning = "Thrust allocates temporary memory for each algorithm; no figures. An execution policy with an "
                       "allocator of one's own keeps it.",
            .printed_by = "thrust/system/cuda/detail/util.h",
            .clauses = {free_and_requested},
            .rule = judge_by_figures,
            .vague = true,
            .extent = 300},
};

}  // namespace

std::span<const Grammar> library_texts() { return texts_of_libraries; }

}  // namespace memreel::explain
