// SPDX-License-Identifier: Apache-2.0
// Texts of inference runtimes and other frameworks: ONNX Runtime, TensorRT, llama.cpp, PaddlePaddle, CUDA.jl, Triton.

#include <algorithm>
#include <array>

#include "analyzer/analysis/explain/failure.h"

namespace memreel::explain {
namespace {

/// The text gives what the arena may still take of its gpu_mem_limit, not what the device has.
void arena_rule(Failure& failure) {
  judge_by_figures(failure);
  if (failure.kind == Kind::nonsense_size) return;
  failure.kind = Kind::own_limit;
  const auto& figures = failure.figures;
  failure.shortfall = figures[Field::requested].value_or(0) -
                      std::min(figures[Field::requested].value_or(0), figures[Field::free].value_or(0));
  failure.because = in_words(figures[Field::free].value_or(0)) + " are left of the arena's own limit";
}

void tactic_rule(Failure& failure) {
  judge_by_figures(failure);
  if (failure.kind == Kind::larger_than_device) return;
  failure.kind = Kind::warning;
  failure.because = "the tactic is skipped, another is used";
}

void host_rule(Failure& failure) {
  failure.kind = Kind::host_memory;
  failure.because = failure.figures[Field::requested]
                        ? in_words(*failure.figures[Field::requested]) + " of the host's memory"
                        : "the host's memory";
  if (failure.figures[Field::free])
    failure.because += ", " + in_words(*failure.figures[Field::free]) + " were available";
}

/// llama.cpp's buffers are in the host's memory where the backend is the processor.
void ggml_rule(Failure& failure) {
  const std::string& buffer = failure.words["buffer"];
  if (buffer.starts_with("CPU") || buffer.starts_with("cpu")) return host_rule(failure);
  // What a device had when the model began to load is an upper bound at best.
  auto& free = failure.figures[Field::free];
  if (free && *free >= failure.figures[Field::requested].value_or(0)) free.reset();
  judge_by_figures(failure);
}

void chip_rule(Failure& failure) {
  failure.kind = Kind::not_device_memory;
  failure.because = "a multiprocessor has " + failure.words["limit_on_chip"] + ", the kernel wants " +
                    failure.words["wanted_on_chip"];
}

constexpr std::string_view ort = "ONNX Runtime", tensorrt = "TensorRT", ggml = "llama.cpp", paddle = "PaddlePaddle",
                           julia = "CUDA.jl", triton = "Triton";
constexpr std::string_view ggml_cuda = "ggml/src/ggml-cuda/ggml-cuda.cu", ggml_alloc = "ggml/src/ggml-alloc.c";
constexpr std::string_view trt_source = "TensorRT's log";

const std::array texts_of_runtimes{
    Grammar{.name = "ort.limit",
            .framework = ort,
            .key = "issmallerthanrequestedbytesof",
            .head = R"(Available memory of {free} is smaller than requested bytes of {requested})",
            .example = "onnxruntime::BFCArena::AllocateRawInternal Available memory of 0 is smaller than requested "
                       "bytes of 135383040",
            .meaning = "The arena has reached gpu_mem_limit, which the program set; the device may have more.",
            .printed_by = "onnxruntime/core/framework/bfc_arena.cc",
            .rule = arena_rule,
            .extent = 200},
    Grammar{.name = "ort.buffer",
            .framework = ort,
            .key = "failedtoallocatememoryforrequestedbuffer",
            .head = R"(Failed to allocate memory for requested buffer of size {requested})",
            .example = "BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 4718592",
            .meaning = "The device refused when the arena wanted to grow. kNextPowerOfTwo doubles what it asks for; "
                       "kSameAsRequested does not.",
            .printed_by = "onnxruntime/core/framework/bfc_arena.cc",
            .rule = judge_by_figures,
            .extent = 200},
    Grammar{.name = "trt.allocator",
            .framework = tensorrt,
            .key = "userallocatorerrorallocating",
            .head = R"(User allocator error allocating {requested#}-byte buffer)",
            .example =
                "Skipping tactic 0x0000000000000000 due to exception autotuning: User allocator error allocating "
                "86114304000-byte buffer",
            .meaning =
                "A tactic's scratch memory did not fit. The tactic is skipped; the build fails only if none is left.",
            .printed_by = trt_source,
            .rule = tactic_rule,
            .part = 1,
            .extent = 200},
    Grammar{.name = "trt.device_insufficient",
            .framework = tensorrt,
            .key = "tacticdevicerequest",
            .head = R"(Tactic Device request: {requested} Available: {free})",
            .example = "Tactic Device request: 8505MB Available: 4095MB. Device memory is insufficient to use tactic.",
            .meaning = "A warning: the tactic is skipped, another is used.",
            .printed_by = trt_source,
            .rule = tactic_rule,
            .part = 1,
            .extent = 200},
    Grammar{.name = "trt.skipping",
            .framework = tensorrt,
            .key = "duetoinsufficientmemory",
            .head = R"(Skipping tactic \S+ due to insufficient memory on requested size of {requested})",
            .example = "Skipping tactic 3 due to insufficient memory on requested size of 8505 detected for tactic 4.",
            .meaning = "A warning: the tactic is skipped, another is used.",
            .printed_by = trt_source,
            .rule = tactic_rule,
            .part = 1,
            .extent = 200},
    Grammar{
        .name = "trt.requested",
        .framework = tensorrt,
        .key = "outofmemory(requestedsizewas",
        .head = R"(OutOfMemory \(Requested size was {requested}\.?\))",
        .example = "Error Code 2: OutOfMemory (Requested size was 16581132288 bytes.)",
        .meaning =
            "The builder or the engine asked for that much at once: limit the workspace, or the shapes of the profile.",
        .printed_by = trt_source,
        .rule = judge_by_figures,
        .part = 4,
        .extent = 200},
    Grammar{.name = "trt.could_not",
            .framework = tensorrt,
            .key = "requestedamountofgpumemory",
            .head = R"(Requested amount of GPU memory \({requested}\) could not be allocated)",
            .example = "Requested amount of GPU memory (4831838208 bytes) could not be allocated. There may not be "
                       "enough free memory "
                       "for allocation to succeed.",
            .meaning = "The builder or the engine asked for that much at once; what the device had is not in the text.",
            .printed_by = trt_source,
            .rule = judge_by_figures,
            .part = 4,
            .extent = 200},
    Grammar{
        .name = "ggml.free",
        .framework = ggml,
        .key = "mibfree",
        .head =
            R"(using device [A-Za-z]+{device#} \([^()\n]{0,100}(?:\([^()\n]{0,40}\)[^()\n]{0,40})?\) (?:\([^()\n]{0,60}\) )?- {free} free)",
        .printed_by = "src/llama.cpp",
        .fact = true,
        .extent = 300},
    Grammar{
        .name = "ggml.allocating",
        .framework = ggml,
        .key = "failed:outofmemory",
        .head = R"(allocating {requested} on device {device#} : \w+ failed: out of memory)",
        .example = "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 14481.04 MiB on device 0: cudaMalloc "
                   "failed: out of memory",
        .meaning =
            "One buffer for all layers of that device: fewer layers on it (--n-gpu-layers), or a split over several.",
        .printed_by = ggml_cuda,
        .rule = ggml_rule,
        .part = 1,
        .extent = 200},
    Grammar{.name = "ggml.buffer",
            .framework = ggml,
            .key = "bufferofsize",
            .head = R"(failed to allocate {buffer:\w+} buffer of size {requested})",
            .example = "alloc_tensor_range: failed to allocate CUDA0 buffer of size 15185167462",
            .meaning = "One buffer for weights, the KV cache or the graph did not fit on that device.",
            .printed_by = ggml_alloc,
            .rule = ggml_rule,
            .part = 2,
            .extent = 200},
    Grammar{.name = "ggml.cpu_buffer",
            .framework = ggml,
            .key = "bufferofsize",
            .head = R"(ggml_backend_{buffer:cpu}\w* : failed to allocate buffer of size {requested})",
            .example = "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 8589934592",
            .meaning = "Host memory, not the GPU's.",
            .printed_by = "ggml/src/ggml-backend.cpp",
            .rule = ggml_rule,
            .part = 1,
            .extent = 200},
    Grammar{.name = "ggml.pinned",
            .framework = ggml,
            .key = "ofpinnedmemory",
            .head = R"(failed to allocate {requested} of pinned memory(?: : out of memory)?)",
            .example = "ggml_cuda_host_malloc: failed to allocate 1024.00 MiB of pinned memory: out of memory",
            .meaning = "A warning: host memory could not be page-locked, copies are slower.",
            .printed_by = ggml_cuda,
            .rule =
                [](Failure& failure) {
                  failure.kind = Kind::host_memory;
                  failure.because = "host memory could not be page-locked; llama.cpp goes on with slower copies";
                },
            .part = 1,
            .aside = true,
            .extent = 200},
    Grammar{
        .name = "ggml.vulkan",
        .framework = ggml,
        .releases = "Vulkan",
        .key = "devicememoryallocationofsize",
        .head = R"(Device memory allocation of size {requested} failed)",
        .example = "ggml_vulkan: Device memory allocation of size 1073741824 failed.",
        .meaning =
            "One buffer did not fit, or is larger than the driver allows for one allocation (maxMemoryAllocationSize).",
        .printed_by = "ggml/src/ggml-vulkan/ggml-vulkan.cpp",
        .rule = ggml_rule,
        .part = 1,
        .extent = 200},
    Grammar{.name = "ggml.metal",
            .framework = ggml,
            .releases = "Metal",
            .key = "failedtoallocatebuffer,size",
            .head = R"(failed to allocate buffer, size = {requested})",
            .example = "ggml_metal: error: failed to allocate buffer, size = 10240.00 MiB",
            .meaning = "One buffer did not fit, or is larger than Metal allows.",
            .printed_by = "ggml/src/ggml-metal/ggml-metal.m",
            .rule = ggml_rule,
            .part = 1,
            .extent = 200},
    Grammar{.name = "ggml.metal_named",
            .framework = ggml,
            .releases = "Metal, until 2024",
            .key = "'buffer,size=",
            .head = R"(failed to allocate '[\w ]{1,40}' buffer, size = {requested})",
            .example = "ggml_metal_add_buffer: error: failed to allocate 'data' buffer, size = 19283.21 MiB",
            .meaning = "One buffer did not fit, or is larger than Metal allows.",
            .printed_by = "ggml-metal.m",
            .rule = ggml_rule,
            .part = 1,
            .extent = 200},
    Grammar{
        .name = "ggml.sycl",
        .framework = ggml,
        .releases = "SYCL",
        .key = "ofmemoryondevice",
        .head = R"(can.t allocate {requested} of memory on device)",
        .example = "ggml_backend_sycl_buffer_type_alloc_buffer: can't allocate 5368709120 Bytes of memory on device",
        .meaning = "One buffer did not fit, or is larger than Level Zero allows for one allocation.",
        .printed_by = "ggml/src/ggml-sycl/ggml-sycl.cpp",
        .rule = ggml_rule,
        .part = 1,
        .extent = 200},
    Grammar{.name = "ollama.host",
            .framework = "Ollama",
            .key = "requiresmoresystemmemory",
            .head = R"(model requires more system memory \({requested}\) than is available \({free}\))",
            .example = "Error: model requires more system memory (5.5 GiB) than is available (4.2 GiB)",
            .meaning = "Host memory, not the GPU's.",
            .printed_by = "ollama/llm/server.go",
            .rule = host_rule,
            .aside = true,
            .extent = 200},
    Grammar{.name = "paddle.held",
            .framework = paddle,
            .releases = "2.0 and newer",
            .key = "outofmemoryerrorongpu",
            .head = R"(Out of memory error on (?:GPU|device) {device#}\. Cannot allocate {requested} memory on)",
            .example = "ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 3.621826GB memory on GPU "
                       "0, 21.184814GB "
                       "memory has been allocated and available memory is only 2.814575GB.",
            .meaning = "What has been allocated includes what auto_growth keeps: part of it may be cached.",
            .printed_by = "paddle/fluid/memory/allocation/cuda_allocator.cc",
            .clauses = {R"({reserved} memory has been allocated)", R"(available memory is only {free})"},
            .rule = judge_by_figures,
            .extent = 500},
    Grammar{.name = "julia.effective",
            .framework = julia,
            .key = "outofgpumemory",
            .head = R"(Out of GPU memory(?: trying to allocate {requested})?)",
            .example = "Out of GPU memory trying to allocate 2.000 GiB. Effective GPU memory usage: 99.87% (7.785 "
                       "GiB/7.795 GiB). Memory "
                       "pool usage: 6.500 GiB (7.156 GiB reserved)",
            .meaning = "Reserved minus used is what the pool keeps: CUDA.reclaim() returns it.",
            .printed_by = "CUDA.jl/src/pool.jl",
            .clauses = {R"(memory usage: [\d.]+% \({used}/{capacity}\))", R"(pool usage: {live})",
                        R"(pool usage: [\d.]+ \w+ \({reserved} reserved\))",
                        R"(usage: [\d.]+ \w+ \([\d.]+ \w+ allocated, {cached} cached\))",
                        R"(usage: [\d.]+ \w+ \({live} allocated, [\d.]+ \w+ cached\))"},
            .rule = judge_by_figures,
            .extent = 500},
    Grammar{
        .name = "triton.on_chip",
        .framework = triton,
        .key = "outofresource:",
        .head =
            R"(out of resource: {what_on_chip:[\w ]+?},? Required: {wanted_on_chip:\d+},? Hardware limit: {limit_on_chip:\d+})",
        .example = "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware "
                   "limit: 101376.",
        .meaning = "On-chip memory of one multiprocessor, not the GPU's main memory: smaller blocks or fewer stages.",
        .printed_by = "triton/runtime/errors.py",
        .rule = chip_rule,
        .extent = 200},
};

}  // namespace

std::span<const Grammar> runtime_texts() { return texts_of_runtimes; }

// Texts of the driver and of libraries close to it, and of the host: few figures, or none.

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
    Grammar{.name = "cuda.prose",
            .framework = cuda,
            .key = "outofmemory",
            .head = R"(out[ -]of[ -]memory\x20(?:errors|issues|problems|exceptions|situations))",
            .printed_by = "documentation, and hints in logs",
            .fact = true,
            .extent = 1},
    Grammar{
        .name = "nccl.failure_status",
        .framework = nccl,
        .releases = "2.19 and newer",
        .key = "lasterror:",
        .head = R"(Last error: Cuda failure (?:\d+ )?'out of memory')",
        .example = "ncclUnhandledCudaError: Call to CUDA function failed. Last error: Cuda failure 2 'out of memory'",
        .meaning = "NCCL allocates beside the framework's pool, whose cache it can't use: the device was full before.",
        .printed_by = "torch/csrc/distributed/c10d/NCCLUtils.hpp",
        .rule = judge_by_figures,
        .part = 1,
        .extent = 100},
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
            .aside = true,
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
            .aside = true,
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
            .aside = true,
            .extent = 300},
    Grammar{.name = "host.slurm",
            .framework = "Slurm",
            .key = "oom_killevent",
            .head = R"(Detected \d+ oom_kill event)",
            .example = "slurmstepd: error: Detected 1 oom_kill event in StepId=123.0. Some of the step tasks have been "
                       "OOM Killed.",
            .meaning = "The job's limit of host memory (--mem), not the GPU's.",
            .printed_by = "slurm/src/slurmd",
            .rule = on_the_host,
            .aside = true,
            .extent = 200},
    Grammar{.name = "host.slurm_events",
            .framework = "Slurm",
            .releases = "until 22.05",
            .key = "oom-killevent",
            .head = R"(Detected \d+ oom-kill event)",
            .example = "slurmstepd: error: Detected 1 oom-kill event(s) in step 1234567.batch cgroup.",
            .meaning = "The job's limit of host memory (--mem), not the GPU's.",
            .printed_by = "slurm/src/slurmd",
            .rule = on_the_host,
            .aside = true,
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
            .aside = true,
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
        .head = R"((?:CU|HIP|ROC)\w{2,8}_STATUS_ALLOC_FAILED)",
        .example = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)",
        .meaning =
            "The library allocates beside the framework's pool, whose cache it can't use: the device was full before.",
        .printed_by = "cublasStatus_t, cudnnStatus_t",
        .rule = judge_by_figures,
        .vague = true,
        .extent = 100},
    Grammar{
        .name = "cuda.plain",
        .framework = cuda,
        .key = "outofmemory",
        // Names of exceptions (OutOfMemoryError) have no spaces; words such as "executor" and "document" have a "cu".
        .head =
            R"((?-i:[Cc]uda|CUDA|(?:cu|CU)(?:DNN|BLAS|FFT|SPARSE|SOLVER|RAND|TLASS|dnn|blas|fft|sparse|solver|rand)|\b(?:cu[A-Z]|HIP|hip(?:[A-Z]| error))|[a-z_](?:HIP|(?:cu|hip)(?:Mem|Malloc|Ctx|Device|Module|Launch|Stream))|XPU|SYCL|OpenCL|Level Zero|Vulkan)[^\n]{0,60}out\s+of memory)",
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
            .head = R"((?:CUDA_ERROR|HIP_ERROR)_OUT_OF_MEMORY)",
            .example = "CUDA_ERROR_OUT_OF_MEMORY",
            .meaning = "The driver refused; no figures.",
            .printed_by = cuda_docs,
            .rule = judge_by_figures,
            .vague = true,
            .extent = 100},
    Grammar{.name = "cuda.error_name",
            .framework = cuda,
            .key = "erroroutofmemory",
            .head = R"((?:hip|cuda|MTLCommandBuffer)ErrorOutOfMemory)",
            .example = "hipErrorOutOfMemory",
            .meaning = "The driver refused; no figures.",
            .printed_by = cuda_docs,
            .rule = judge_by_figures,
            .vague = true,
            .extent = 100},
    Grammar{.name = "cuda.device_memory",
            .framework = "Vulkan, SYCL, Level Zero",
            .key = "out_of_device_memory",
            .head = R"((?:VK_ERROR|UR_RESULT_ERROR|ZE_RESULT_ERROR|PI_ERROR)_OUT_OF_DEVICE_MEMORY)",
            .example = "VK_ERROR_OUT_OF_DEVICE_MEMORY",
            .meaning = "The driver refused, or one allocation is larger than it allows; no figures.",
            .printed_by = "Vulkan, Unified Runtime, Level Zero: result codes",
            .rule = judge_by_figures,
            .vague = true,
            .extent = 100},
    Grammar{.name = "cuda.vulkan",
            .framework = "Vulkan, SYCL, Level Zero",
            .key = "erroroutofdevicememory",
            .head = R"(ErrorOutOfDeviceMemory)",
            .example = "vk::Device::allocateMemory: ErrorOutOfDeviceMemory",
            .meaning = "The driver refused, or one allocation is larger than it allows; no figures.",
            .printed_by = "vulkan.hpp",
            .rule = judge_by_figures,
            .vague = true,
            .extent = 100},
    Grammar{.name = "cuda.opencl",
            .framework = "OpenCL",
            .key = "mem_object_allocation_failure",
            .head = R"((?:CL_)?MEM_OBJECT_ALLOCATION_FAILURE)",
            .example = "clEnqueueNDRangeKernel failed: MEM_OBJECT_ALLOCATION_FAILURE",
            .meaning = "The driver could not allocate a buffer when a kernel wanted it; no figures.",
            .printed_by = "OpenCL: error codes",
            .rule = judge_by_figures,
            .vague = true,
            .extent = 100},
    Grammar{.name = "host.driver",
            .framework = "Vulkan, SYCL, Level Zero",
            .key = "out_of_host_memory",
            .head = R"((?:CL|VK_ERROR|UR_RESULT_ERROR|ZE_RESULT_ERROR|PI_ERROR)_OUT_OF_HOST_MEMORY)",
            .example = "CL_OUT_OF_HOST_MEMORY",
            .meaning = "The driver's own structures did not fit into the host's memory.",
            .printed_by = "OpenCL, Vulkan, Unified Runtime, Level Zero: result codes",
            .rule = on_the_host,
            .vague = true,
            .extent = 100},
    Grammar{.name = "metal.command_buffer",
            .framework = "Metal",
            .key = "iogpucommandbuffercallbackerroroutofmemory",
            .head = R"(kIOGPUCommandBufferCallbackErrorOutOfMemory)",
            .example = "error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
            .meaning = "What the commands use exceeds what the GPU may take of the machine's memory; no figures.",
            .printed_by = "Metal: MTLCommandBufferErrorOutOfMemory",
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
