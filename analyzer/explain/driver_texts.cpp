// Texts of the driver and of libraries close to it, and of the host: few figures, or none.
#include <array>

#include "analyzer/explain/grammar.h"
#include "analyzer/explain/rules.h"

namespace memreel::explain {
namespace {

void on_the_host(Failure& failure) {
  failure.kind = Kind::host_memory;
  failure.because = failure.figures[Field::requested]
                        ? in_words(*failure.figures[Field::requested]) + " of the host's memory were requested"
                        : "the host's memory ran out";
  if (failure.figures[Field::requested].value_or(0) >= std::uint64_t{1} << 50U) failure.kind = Kind::nonsense_size;
}

constexpr std::string_view nccl = "NCCL", cuda = "CUDA", host = "host";
constexpr std::string_view cuda_docs = "CUDA Runtime API, cudaErrorMemoryAllocation", kernel = "mm/oom_kill.c of Linux";

const std::array texts_of_drivers{
    Grammar{
        .name = "nccl.calloc",
        .framework = nccl,
        .key = "failedtocudacalloc",
        .head = R"(Failed to CUDA (?:m|c)alloc(?: async)? {requested})",
        .example = "NCCL WARN Failed to CUDA calloc 6291456 bytes",
        .meaning = "NCCL allocates beside the framework's pool, whose cache it can't use: the device was full before.",
        .printed_by = "nccl/src/include/alloc.h",
        .rule = judge_by_figures,
        .part = 2,
        .extent = 200},
    Grammar{
        .name = "nccl.failure",
        .framework = nccl,
        .key = "cudafailure",
        .head = R"(NCCL WARN[^\n]{0,40}Cuda failure (?:\d+ )?'out of memory')",
        .example = "NCCL WARN Cuda failure 2 'out of memory'",
        .meaning = "NCCL allocates beside the framework's pool, whose cache it can't use: the device was full before.",
        .printed_by = "nccl/src/include/checks.h",
        .rule = judge_by_figures,
        .part = 1,
        .extent = 100},
    Grammar{.name = "nccl.shared_memory",
            .framework = nccl,
            .key = "errorwhilecreatingsharedmemorysegment",
            .head = R"(Error while creating shared memory segment \S+ \(size {requested}\))",
            .example = "NCCL WARN Error while creating shared memory segment /dev/shm/nccl-XXXXXX (size 9637888)",
            .meaning = "/dev/shm is full: in a container, give it more (--shm-size), not the GPU.",
            .printed_by = "nccl/src/misc/shmutils.cc",
            .rule = on_the_host,
            .extent = 200},
    Grammar{.name = "host.torch",
            .framework = "PyTorch",
            .releases = "any, on the processor",
            .key = "defaultcpuallocator",
            .head = R"(DefaultCPUAllocator: (?:can.t allocate|not enough) memory: you tried to allocate {requested})",
            .example = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 116813856768 bytes.",
            .meaning = "A tensor in the host's memory, not the GPU's.",
            .printed_by = "c10/core/impl/alloc_cpu.cpp",
            .rule = on_the_host,
            .extent = 200},
    Grammar{.name = "host.numpy",
            .framework = "NumPy",
            .key = "foranarraywithshape",
            .head = R"(Unable to allocate {requested} for an array with shape)",
            .example = "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 29.8 GiB for an array with shape "
                       "(4000000000,)",
            .meaning = "An array in the host's memory, not the GPU's.",
            .printed_by = "numpy/_core/_exceptions.py",
            .rule = on_the_host,
            .extent = 200},
    Grammar{.name = "host.oom_killer",
            .framework = "Linux",
            .key = "outofmemory:kill",
            .head = R"(out of memory: Kill(?:ed)? process \d+)",
            .example = "Out of memory: Killed process 4711 (python) total-vm:98765432kB, anon-rss:63456789kB",
            .meaning = "The kernel ended the process: the host's memory, or the container's limit of it.",
            .printed_by = kernel,
            .clauses = {R"(anon-rss: {live})"},
            .rule = on_the_host,
            .extent = 300},
    Grammar{.name = "host.slurm",
            .framework = "Slurm",
            .key = "oom_killevent",
            .head = R"([Dd]etected \d+ oom_kill event)",
            .example = "slurmstepd: error: Detected 1 oom_kill event in StepId=123.0. Some of the step tasks have been "
                       "OOM Killed.",
            .meaning = "The job's limit of host memory (--mem), not the GPU's.",
            .printed_by = "slurm/src/slurmd",
            .rule = on_the_host,
            .extent = 200},
    Grammar{.name = "host.workers",
            .framework = "PyTorch",
            .releases = "data loading",
            .key = "workersareoutofsharedmemory",
            .head = R"(dataloader.s workers are out of shared memory)",
            .example = "It is possible that dataloader's workers are out of shared memory. Please try to raise your "
                       "shared memory limit.",
            .meaning = "/dev/shm is full: in a container, give it more (--shm-size), not the GPU.",
            .printed_by = "torch/utils/data/_utils/signal_handling.py",
            .rule = on_the_host,
            .extent = 200},
    Grammar{.name = "cuda.nvml",
            .framework = "PyTorch",
            .releases = "Jetson and others without NVML",
            .key = "nvml_success==",
            .head = R"(NVML_SUCCESS == [^\n]{0,60}INTERNAL ASSERT FAILED)",
            .example = "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at CUDACachingAllocator.cpp:838",
            .meaning =
                "PyTorch ran out of memory and could not ask the driver who holds it: an OutOfMemoryError without "
                "its figures.",
            .printed_by = "c10/cuda/CUDACachingAllocator.cpp",
            .rule = judge_by_figures,
            .extent = 200},
    Grammar{
        .name = "cuda.libraries",
        .framework = "cuBLAS, cuDNN",
        .key = "_status_alloc_failed",
        .head = R"(CU\w{2,8}_STATUS_ALLOC_FAILED)",
        .example = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)",
        .meaning =
            "The library allocates beside the framework's pool, whose cache it can't use: the device was full before.",
        .printed_by = "cublasStatus_t, cudnnStatus_t",
        .rule = judge_by_figures,
        .vague = true,
        .extent = 100},
    Grammar{.name = "cuda.plain",
            .framework = cuda,
            .key = "outofmemory",
            .head = R"((?:CUDA|HIP|cu|hip|XPU|SYCL|OpenCL|Level Zero|Vulkan)[^\n]{0,60}out of memory)",
            .example = "RuntimeError: CUDA error: out of memory",
            .meaning = "The driver refused; no figures. Often another process holds the device, or a library that "
                       "allocates beside "
                       "the framework's pool.",
            .printed_by = cuda_docs,
            .rule = judge_by_figures,
            .vague = true,
            .extent = 100},
    Grammar{.name = "cuda.named",
            .framework = cuda,
            .key = "out_of_memory",
            .head = R"((?:CUDA_ERROR|hipError|cudaError|CL|VK_ERROR|MTL\w*)_?OUT_OF_(?:DEVICE_|HOST_)?MEMORY)",
            .example = "CUDA_ERROR_OUT_OF_MEMORY",
            .meaning = "The driver refused; no figures.",
            .printed_by = cuda_docs,
            .rule = judge_by_figures,
            .vague = true,
            .extent = 100},
    Grammar{.name = "cuda.allocation",
            .framework = cuda,
            .key = "errormemoryallocation",
            .head = R"((?:cuda|hip)ErrorMemoryAllocation)",
            .example = "cudaErrorMemoryAllocation",
            .meaning = "The driver refused; no figures.",
            .printed_by = cuda_docs,
            .rule = judge_by_figures,
            .vague = true,
            .extent = 100},
};

}  // namespace

std::span<const Grammar> driver_texts() { return texts_of_drivers; }

}  // namespace memreel::explain
