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
  failure.figures[Field::needed] = failure.figures[Field::requested];  // that of the plan is another one
  const std::string& buffer = failure.words["buffer"];
  if (buffer.starts_with("CPU") || buffer.starts_with("cpu")) return host_rule(failure);
  // What a device had when the model began to load is an upper bound at best.
  auto& free = failure.figures[Field::free];
  if (free && *free >= failure.figures[Field::requested].value_or(0)) free.reset();
  judge_by_figures(failure);
}

/// A buffer without its size. Before it, llama.cpp may have said by how much its plan exceeds the device.
void ggml_load_rule(Failure& failure) {
  const auto excess = failure.figures[Field::needed];
  ggml_rule(failure);
  if (!excess || failure.kind == Kind::host_memory) return;
  failure.kind = Kind::lack;
  failure.shortfall = excess;
  failure.because =
      "llama.cpp said before it loaded the model that it must take " + in_words(*excess) + " less of the device";
}

/// The last line of these says which buffer it was.
void ggml_named_rule(Failure& failure, const std::string& buffer) {
  ggml_rule(failure);
  if (failure.kind == Kind::host_memory || failure.kind == Kind::nonsense_size) return;
  if (failure.kind == Kind::figures_missing || failure.kind == Kind::no_figures)
    failure.because = buffer + " did not fit; the text does not say what the device had left";
  else
    failure.because += "; it is " + buffer;
}

void chip_rule(Failure& failure) {
  failure.kind = Kind::not_device_memory;
  failure.because = "a multiprocessor has " + failure.words["limit_on_chip"] + ", the kernel wants " +
                    failure.words["wanted_on_chip"];
}

constexpr std::string_view ort = "ONNX Runtime", tensorrt = "TensorRT", ggml = "llama.cpp", paddle = "PaddlePaddle",
                           julia = "CUDA.jl", triton = "Triton", mlx = "MLX";
constexpr std::string_view ggml_cuda = "ggml/src/ggml-cuda/ggml-cuda.cu", ggml_alloc = "ggml/src/ggml-alloc.c";
constexpr std::string_view trt_source = "TensorRT's log", mlx_source = "mlx/backend/metal/allocator.cpp";

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
    Grammar{
        .name = "trt.no_information",
        .framework = tensorrt,
        .key = "outofmemory(nofurtherinformation)",
        .head = R"(OutOfMemory \(no further information\))",
        .example = "[virtualMemoryBuffer.cpp::resizePhysical::144] Error Code 2: OutOfMemory (no further information)",
        .meaning = "The builder or the engine was refused; no figures.",
        .printed_by = trt_source,
        .rule = judge_by_figures,
        .vague = true,
        .extent = 100},
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
    Grammar{
        .name = "ggml.compute",
        .framework = ggml,
        .key = "failedtoallocatecompute",
        .head =
            R"(failed to allocate compute (?:\w+ )?buffers(?:.{0,100}failed to allocate compute (?:\w+ )?buffers)?)",
        .example = "graph_reserve: failed to allocate compute buffers",
        .meaning = "The buffer for activations, whose size is in the lines before it, grows with the micro-batch and "
                   "the context, not with the layers: -ub, -fa, -c.",
        .printed_by = "src/llama-context.cpp",
        .rule = [](Failure& failure) { ggml_named_rule(failure, "the compute buffer"); },
        .part = 3,
        .extent = 300},
    Grammar{.name = "ggml.kv_cache",
            .framework = ggml,
            .key = "failedtoallocatebufferforkvcache",
            .head = R"(failed to allocate buffer for kv cache(?:.{0,100}failed to allocate buffer for kv cache)?)",
            .example = "llama_kv_cache: failed to allocate buffer for kv cache",
            .meaning = "The KV cache, whose size is in the lines before it, grows with the context and the slots: -c, "
                       "-np, -ctk and -ctv.",
            .printed_by = "src/llama-kv-cache.cpp",
            .rule = [](Failure& failure) { ggml_named_rule(failure, "the KV cache"); },
            .part = 3,
            .extent = 300},
    Grammar{.name = "ggml.excess",
            .framework = ggml,
            .key = "needtoreducedevicememoryby",
            .head = R"(need to reduce device memory by {needed})",
            .printed_by = "src/llama.cpp",
            .fact = true,
            .extent = 100},
    Grammar{.name = "ggml.load",
            .framework = ggml,
            .key = "unabletoallocate",
            .head = R"(unable to allocate {buffer:(?-i:CUDA|ROCm|Vulkan|SYCL|CANN|Metal|MUSA|OpenCL|CPU)\w*} buffer)",
            .example = "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
            .meaning = "The weights did not fit on that device: fewer layers on it (--n-gpu-layers); no figures.",
            .printed_by = "src/llama-model.cpp",
            .rule = ggml_load_rule,
            .vague = true,
            .extent = 100},
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
                  failure.figures[Field::needed].reset();
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
    Grammar{.name = "mlx.buffer",
            .framework = mlx,
            .key = "greaterthanthemaximumallowedbuffersize",
            .head = R"(Attempting to allocate {requested} which is greater than the maximum allowed buffer size)",
            .example = "[metal::malloc] Attempting to allocate 48736917632 bytes which is greater than the maximum "
                       "allowed buffer size of 30150672384 bytes.",
            .meaning = "One array is larger than the largest buffer that Metal allows.",
            .printed_by = mlx_source,
            .rule =
                [](Failure& failure) {
                  judge_by_figures(failure);
                  if (failure.kind == Kind::nonsense_size) return;
                  failure.kind = Kind::larger_than_device;
                  failure.because = "one array is larger than the largest buffer that Metal allows";
                },
            .extent = 200},
    Grammar{.name = "mlx.malloc",
            .framework = mlx,
            .key = "unabletoallocate",
            .head = R"(\[(?:metal::)?malloc\w*\] Unable to allocate {requested})",
            .example = "[malloc_or_wait] Unable to allocate 124367104 bytes.",
            .meaning = "The machine's memory, which the GPU shares, had no room; what it had is not in the text.",
            .printed_by = mlx_source,
            .rule = judge_by_figures,
            .extent = 100},
    Grammar{
        .name = "tritonserver.pool",
        .framework = "Triton Inference Server",
        .key = "cnmem_status_out_of_memory",
        .head =
            R"(Failed to allocate CUDA memory with byte size {requested} on GPU {device#} : CNMEM_STATUS_OUT_OF_MEMORY)",
        .example = "Failed to allocate CUDA memory with byte size 102236160 on GPU 0: CNMEM_STATUS_OUT_OF_MEMORY, "
                   "falling back to pinned system memory",
        .meaning = "A warning: the server's pool for inputs and outputs is full, and pinned host memory is used.",
        .printed_by = "triton-inference-server/core, memory.cc",
        .rule =
            [](Failure& failure) {
              failure.kind = Kind::warning;
              failure.because = "the server's own pool is full; it goes on with pinned host memory";
            },
        .aside = true,
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
    Grammar{.name = "paddle.chunk",
            .framework = paddle,
            .releases = "until 1.5",
            .key = "enforceallocating<",
            .head = R"(enforce allocating <=? available failed, {requested#} >=? {free#})",
            .example = "paddle.fluid.core.EnforceNotMet: enforce allocating <= available failed, 14802874401 > "
                       "12088311552",
            .meaning =
                "The pool takes a share of the device as one piece, and less was free: another process holds the "
                "rest, or the first piece is used up.",
            .printed_by = "paddle/fluid/platform/gpu_info.cc",
            .rule =
                [](Failure& failure) {
                  judge_by_figures(failure);
                  if (failure.kind == Kind::lack)
                    failure.because =
                        "the pool takes its share of the device as one piece, and less is free: another "
                        "process holds the rest, or the first piece is used up";
                },
            .extent = 200},
    Grammar{.name = "paddle.malloc",
            .framework = paddle,
            .releases = "1.5 to 1.7",
            .key = "gpumemory.pleaseshrinkflags_",
            .head = R"(Cannot malloc {requested} GPU memory\. Please shrink FLAGS_)",
            .example = "Cannot malloc 49.0002 MB GPU memory. Please shrink FLAGS_fraction_of_gpu_memory_to_use or "
                       "FLAGS_initial_gpu_memory_in_mb",
            .meaning = "The device refused one more piece for the pool; what it had is not in the text.",
            .printed_by = "paddle/fluid/memory/detail/system_allocator.cc",
            .rule = judge_by_figures,
            .extent = 200},
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

}  // namespace memreel::explain
