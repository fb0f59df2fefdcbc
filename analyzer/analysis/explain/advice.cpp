// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/explain/advice.h"

#include <algorithm>
#include <array>

namespace memreel::explain {
namespace {

/// Advice for a kind of failure. The first row whose texts' names begin with `texts` counts.
struct Row {
  Kind kind;
  std::string_view texts;  // "torch", "xla.hbm"; empty: all
  Advice first;
  Advice second = {};
};

constexpr std::array rows{
    Row{Kind::lack,
        "torch",
        {"hold less: smaller batch, shorter sequences, activation checkpointing, offloading or quantization",
         "checkpointing and offloading take time"}},
    Row{Kind::lack, "tf", {"hold less: a smaller batch, mixed precision (tf.keras.mixed_precision)", ""}},
    Row{Kind::lack,
        "xla",
        {"a smaller program: donate_argnums for inputs that are not needed again, jax.checkpoint, smaller inputs",
         "jax.checkpoint computes activations twice"}},
    Row{Kind::lack,
        "paddle.chunk",
        {"lower FLAGS_fraction_of_gpu_memory_to_use to what is free, or end what else holds the device (nvidia-smi)",
         "the pool grows in more pieces"}},
    Row{Kind::lack,
        "paddle",
        {"hold less: a smaller batch; then FLAGS_eager_delete_tensor_gb=0, which frees what is not used again", ""}},
    Row{Kind::lack, "ggml", {"fewer layers on the device (--n-gpu-layers), a shorter context (--ctx-size)", "slower"}},
    Row{Kind::lack,
        "catboost",
        {"hold less: gpu_cat_features_storage=CpuPinnedMemory, a smaller border_count or depth", "slower"}},
    Row{Kind::lack, "", {"hold less: smaller inputs or batches", ""}},

    Row{Kind::fragmentation,
        "torch.total_capacity",
        {"PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128 (PyTorch 1.10 and newer)",
         "blocks that are not split may need more memory"},
        {"PyTorch 2.1 or newer with expandable_segments:True: the release of this text refuses that key", ""}},
    Row{Kind::fragmentation,
        "torch",
        {"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
         "such memory can't be shared by cudaIpc (custom all-reduce), not on Windows"},
        {"torch.cuda.empty_cache() between phases", "what is given back must be requested anew, which takes time"}},
    Row{Kind::fragmentation, "tf", {"TF_GPU_ALLOCATOR=cuda_malloc_async", "not every release and driver has it"}},
    Row{Kind::fragmentation,
        "xla",
        {"XLA_PYTHON_CLIENT_MEM_FRACTION=0.9 for a larger pool", "less is left for libraries"}},
    Row{Kind::fragmentation, "spark", {"spark.rapids.memory.gpu.pool=ASYNC", "needs CUDA 11.5 or newer"}},
    Row{Kind::fragmentation, "julia", {"CUDA.reclaim() between phases", "what is given back must be requested anew"}},
    Row{Kind::fragmentation, "", {"give the cache back between phases", "what is given back must be requested anew"}},

    Row{Kind::larger_than_device,
        "ggml",
        {"spread the layers: --tensor-split, or fewer on the device (--n-gpu-layers)",
         "layers on the host are slower"}},
    Row{Kind::larger_than_device,
        "trt",
        {"limit the workspace (IBuilderConfig::setMemoryPoolLimit), or the profile's largest shapes",
         "faster tactics may be left out"}},
    Row{Kind::larger_than_device,
        "tf",
        {"a smaller request (workspace, batch), or a larger share of the device for the arena (memory_limit)",
         "less is left for libraries"}},
    Row{Kind::larger_than_device,
        "",
        {"look at the shape of that tensor: a quadratic buffer (attention without a fused kernel, logits of all "
         "tokens), or a wrong dimension",
         ""}},

    Row{Kind::other_process,
        "vllm.profiling",
        {"start vLLM when no other process is starting or ending on the device", ""}},
    Row{Kind::other_process,
        "vllm",
        {"end the other process (nvidia-smi), or lower gpu_memory_utilization to what is free", "a smaller KV cache"}},
    Row{Kind::other_process,
        "",
        {"end what holds it, which no setting of this program can: nvidia-smi --query-compute-apps=pid,used_memory "
         "--format=csv (rocm-smi --showpids)",
         ""}},

    Row{Kind::own_limit,
        "torch",
        {"raise torch.cuda.set_per_process_memory_fraction(), or per_process_memory_fraction in the settings",
         "less is left for others"}},
    Row{Kind::own_limit,
        "rmm",
        {"raise the pool's maximum if one is set, and its initial size to at least the largest request",
         "the device has less for others from the start"}},
    Row{Kind::own_limit, "ort", {"raise gpu_mem_limit of the CUDA execution provider", "less is left for others"}},
    Row{Kind::own_limit,
        "cupy",
        {"raise the limit: mempool.set_limit(), CUPY_GPU_MEMORY_LIMIT", "less is left for others"}},
    Row{Kind::own_limit, "cubecl", {"make that one buffer smaller: a smaller batch, or tiles", ""}},
    Row{Kind::own_limit, "", {"raise the limit that the program set", "less is left for others"}},

    Row{Kind::private_pool,
        "",
        {"leave the pool before the larger request: end torch.cuda.use_mem_pool(), drop CUDA graphs that are not "
         "replayed, then torch.cuda.empty_cache()",
         "graphs must be captured again"}},

    Row{Kind::refused_though_free,
        "torch.xpu",
        {"see who else uses the device: the text does not say what is free", ""}},
    Row{Kind::refused_though_free,
        "",
        {"not a smaller batch: raise what is limited: mappings (sysctl vm.max_map_count), Windows' page file "
         "(commit limit), handles; look for driver errors in dmesg",
         ""}},

    Row{Kind::engine_budget,
        "vllm.max_length",
        {"lower --max-model-len to what fits", "longer requests are refused"},
        {"raise --gpu-memory-utilization, if nothing else uses the device", "less is left for graphs and libraries"}},
    Row{Kind::engine_budget,
        "vllm.one_request",
        {"lower --max-model-len to the length that the text names", "longer requests are refused"},
        {"raise --gpu-memory-utilization, if nothing else uses the device", "less is left for graphs and libraries"}},
    Row{Kind::engine_budget, "vllm.warm_up", {"lower --max-num-seqs", "fewer requests at once"}},
    Row{Kind::engine_budget,
        "sglang",
        {"raise --mem-fraction-static, or spread the model (--tp)", "less is left for activations"}},
    Row{Kind::engine_budget,
        "trtllm",
        {"lower free_gpu_memory_fraction if it is the KV cache, max_num_tokens if it is the model; or more devices "
         "(tensor parallelism)",
         "fewer or shorter requests at once"}},
    Row{Kind::engine_budget,
        "tgi",
        {"lower --max-batch-prefill-tokens and --max-batch-total-tokens, quantize the weights or spread them "
         "(--num-shard)",
         "fewer tokens at once"}},
    Row{Kind::engine_budget,
        "",
        {"quantize the weights or spread them (--tensor-parallel-size); raise --gpu-memory-utilization",
         "less is left for graphs and libraries"}},

    Row{Kind::host_memory, "host.workers", {"a larger /dev/shm (docker --shm-size), or fewer workers", ""}},
    Row{Kind::host_memory, "nccl", {"a larger /dev/shm (docker --shm-size)", ""}},
    Row{Kind::host_memory, "ggml.pinned", {"nothing must be done; with less pinned memory copies are slower", ""}},
    Row{Kind::host_memory, "host.slurm", {"ask for more with --mem, or load less into the host's memory", ""}},
    Row{Kind::host_memory,
        "",
        {"less in the host's memory: smaller arrays, fewer workers, less pinning; or more memory for the job or "
         "container",
         ""}},

    Row{Kind::not_device_memory,
        "xla",
        {"smaller blocks in the kernel that the text names, or a higher --xla_tpu_scoped_vmem_limit_kib",
         "the kernel may be slower"}},
    Row{Kind::not_device_memory, "", {"smaller BLOCK sizes, or fewer num_stages", "the kernel may be slower"}},
    Row{Kind::nonsense_size,
        "",
        {"print the shape: a negative number, an overflow or damaged input was taken for a size", ""}},
    Row{Kind::warning,
        "tritonserver",
        {"nothing must be done; a larger --cuda-memory-pool-byte-size saves copies", "less is left for models"}},
    Row{Kind::warning, "trt", {"nothing, unless the build fails for want of a tactic: then limit the workspace", ""}},
    Row{Kind::warning, "", {"nothing, unless a failure follows in the log", ""}},
    Row{Kind::contradictory,
        "",
        {"trust the driver's tools (nvidia-smi, rocm-smi) rather than these figures; shared memory of integrated GPUs "
         "is counted differently by each",
         ""}},

    Row{Kind::figures_missing,
        "xla",
        {"look for what else holds the pool (jax.live_arrays()) or the device (nvidia-smi); "
         "XLA_PYTHON_CLIENT_MEM_FRACTION=0.9 for a larger pool",
         "less is left for libraries"},
        {"a smaller program: donate_argnums for inputs that are not needed again, jax.checkpoint, smaller inputs",
         "jax.checkpoint computes activations twice"}},
    Row{Kind::figures_missing,
        "nccl",
        {"leave room for NCCL: torch.cuda.empty_cache() before the first collective, or a memory fraction below 1",
         "what is given back must be requested anew"}},
    Row{Kind::figures_missing,
        "torch.ends_early",
        {"PyTorch 2.4 or newer, which prints the rest; until then torch.cuda.memory_summary() where the error is "
         "caught",
         ""}},
    Row{Kind::figures_missing,
        "torch.driver_pool",
        {"nvidia-smi, to see what others hold; if it is this program: torch.cuda.empty_cache() between phases",
         "what is given back must be requested anew, which takes time"}},
    Row{Kind::figures_missing, "torch.of_which", {"find the rest of the line: the figures are in it", ""}},
    Row{Kind::figures_missing, "torch.total_capacity", {"find the rest of the line: the figures are in it", ""}},
    Row{Kind::figures_missing, "torch.cut", {"find the rest of the line: the figures are in it", ""}},
    Row{Kind::figures_missing,
        "mlx",
        {"close other programs, whose memory the GPU shares (Activity Monitor); a smaller model or shorter context",
         ""}},
    Row{Kind::figures_missing, "dml", {"the task manager while it runs, for what the device had left", ""}},
    Row{Kind::figures_missing, "", {"nvidia-smi while it runs, for what the device had left", ""}},
    Row{Kind::no_figures,
        "sglang",
        {"raise --mem-fraction-static if weights leave no room for the KV cache, or spread the model (--tp)",
         "less is left for activations"}},
    Row{Kind::no_figures,
        "vllm",
        {"read the lines on weights and activations above it: the larger one is to be reduced", ""}},
    Row{Kind::no_figures,
        "torch.driver_pool_short",
        {"close what else uses the device, smaller images or batches, --lowvram; --disable-cuda-malloc makes errors "
         "have figures",
         "--lowvram is slower"}},
    Row{Kind::no_figures,
        "nccl",
        {"leave room for NCCL: torch.cuda.empty_cache() before the first collective, or a memory fraction below 1",
         "what is given back must be requested anew"}},
    Row{Kind::no_figures,
        "metal",
        {"a smaller model or shorter context, or a higher limit: sysctl iogpu.wired_limit_mb",
         "less is left for the system"}},
    Row{Kind::no_figures,
        "ggml",
        {"fewer layers on the device (--n-gpu-layers), a shorter context (--ctx-size)", "slower"}},
    Row{Kind::no_figures, "dml", {"the task manager while it runs, for who holds the device", ""}},
    Row{Kind::no_figures,
        "nvenc",
        {"end other encodings, and what else holds the device (nvidia-smi): consumer cards also allow few sessions",
         ""}},
    Row{Kind::no_figures,
        "spark.retry",
        {"smaller batches (spark.rapids.sql.batchSizeBytes), fewer tasks at once (spark.rapids.sql.concurrentGpuTasks)",
         "slower"}},
    Row{Kind::no_figures, "nvrm", {"nvidia-smi and free: the device or the host may be full", ""}},
    Row{Kind::no_figures, "cuda.device_memory", {"smaller buffers: drivers also limit the size of one", ""}},
    Row{Kind::no_figures, "cuda.vulkan", {"smaller buffers: drivers also limit the size of one", ""}},
    Row{Kind::no_figures, "cuda.opencl", {"smaller buffers: drivers also limit the size of one", ""}},
    Row{Kind::no_figures,
        "rmm.pool",
        {"raise the pool's maximum if one is set, and its initial size to at least the largest request",
         "the device has less for others from the start"}},
    Row{Kind::no_figures, "", {"nvidia-smi or rocm-smi, for who holds the device: often it is another process", ""}},
};

/// Advice where the setting or tool of the rows above does not exist. `accelerator` is empty for all but CUDA and HIP.
struct AcceleratorRow {
  Kind kind;
  std::string_view accelerator;
  Advice first;
  Advice second = {};
};

constexpr std::string_view anew = "what is given back must be requested anew, which takes time";

constexpr std::array accelerator_rows{
    AcceleratorRow{Kind::fragmentation,
                   "NPU",
                   {"PYTORCH_NPU_ALLOC_CONF=expandable_segments:True", "not every driver of the NPU has it"},
                   {"torch.npu.empty_cache() between phases", anew}},
    AcceleratorRow{Kind::fragmentation, "XPU", {"torch.xpu.empty_cache() between phases", anew}},
    AcceleratorRow{
        Kind::fragmentation,
        "HIP",
        {"torch.cuda.empty_cache() between stages; expandable segments are not available on every ROCm", anew},
        {"PYTORCH_HIP_ALLOC_CONF=max_split_size_mb:128", "blocks that are not split may need more memory"}},
    AcceleratorRow{Kind::fragmentation,
                   "",
                   {"empty_cache() of the accelerator's module (torch.mlu, torch.musa ...) between phases", anew}},

    AcceleratorRow{
        Kind::private_pool,
        "",
        {"leave the pool before the larger request: drop graphs that are not replayed, then empty_cache() of "
         "the accelerator's module",
         "graphs must be captured again"}},

    AcceleratorRow{Kind::own_limit,
                   "MPS",
                   {"close other programs; then PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0",
                    "the machine may swap, or stop responding"}},
    AcceleratorRow{Kind::own_limit,
                   "XPU",
                   {"split the tensor, or UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1", "slower, not on every driver"}},
    AcceleratorRow{Kind::own_limit,
                   "",
                   {"raise set_per_process_memory_fraction() of the accelerator's module (torch.npu, torch.mlu ...)",
                    "less is left for others"}},

    AcceleratorRow{
        Kind::other_process, "NPU", {"end what holds it, which no setting of this program can: npu-smi info", ""}},
    AcceleratorRow{
        Kind::other_process, "XPU", {"end what holds it, which no setting of this program can: xpu-smi ps", ""}},
    AcceleratorRow{Kind::other_process,
                   "HIP",
                   {"end what holds it, which no setting of this program can: rocm-smi --showpids", ""}},
    AcceleratorRow{Kind::other_process,
                   "",
                   {"end what holds it, which no setting of this program can: the vendor's tool lists processes", ""}},

    AcceleratorRow{Kind::contradictory, "", {"trust the driver's tools rather than these figures", ""}},

    AcceleratorRow{Kind::figures_missing, "NPU", {"npu-smi info while it runs, for what the device had left", ""}},
    AcceleratorRow{Kind::figures_missing, "XPU", {"xpu-smi stats while it runs, for what the device had left", ""}},
    AcceleratorRow{
        Kind::figures_missing, "HIP", {"rocm-smi --showmeminfo vram while it runs, for what the device had left", ""}},
    AcceleratorRow{Kind::figures_missing,
                   "MPS",
                   {"close other programs: the GPU shares the machine's memory (Activity Monitor)", ""}},
    AcceleratorRow{
        Kind::figures_missing,
        "Metal",
        {"fewer layers on the GPU or a shorter context: it shares the machine's memory (Activity Monitor)", ""}},
    AcceleratorRow{Kind::figures_missing,
                   "Vulkan",
                   {"fewer layers on the device or a shorter context; drivers also limit the size of one buffer", ""}},
    AcceleratorRow{Kind::figures_missing, "", {"the vendor's tool while it runs, for what the device had left", ""}},
};

/// What the memory belongs to: "NPU"; empty: CUDA, or the text does not say.
std::string_view accelerator_of(const Failure& failure) {
  if (is_family(failure, "torch.mps")) return "MPS";
  if (is_family(failure, "torch.xpu")) return "XPU";
  if (is_family(failure, "ggml.metal")) return "Metal";
  if (is_family(failure, "ggml.sycl")) return "XPU";
  if (is_family(failure, "ggml.vulkan")) return "Vulkan";
  if (const auto buffer = failure.words.find("buffer"); buffer != failure.words.end()) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 5> backends{
        {{"ROCm", "HIP"}, {"Metal", "Metal"}, {"Vulkan", "Vulkan"}, {"SYCL", "XPU"}, {"CANN", "NPU"}}};
    for (const auto& [backend, accelerator] : backends)
      if (buffer->second.starts_with(backend)) return accelerator;
  }
  const auto found = failure.words.find("accelerator");
  if (found == failure.words.end() || found->second == "CUDA" || found->second == "GPU") return {};
  // Before "out of memory" there may be another word than an accelerator's name.
  const bool is_name = std::ranges::all_of(found->second, [](char letter) { return letter >= 'A' && letter <= 'Z'; });
  return is_name ? std::string_view(found->second) : std::string_view{};
}

/// PyTorch ignored expandable_segments there until pull request 189163 of July 2026.
constexpr std::pair on_windows{
    Advice{"PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128 (Windows: expandable_segments is new there, older PyTorch "
           "ignores it)",
           "blocks that are not split may need more memory"},
    Advice{"torch.cuda.empty_cache() between phases", anew}};

/// The last line of llama.cpp's text names what fewer layers don't make smaller.
std::optional<Advice> advice_for_buffer(const Failure& failure) {
  if (failure.kind != Kind::lack && failure.kind != Kind::larger_than_device && failure.kind != Kind::figures_missing &&
      failure.kind != Kind::no_figures)
    return {};
  if (is_family(failure, "ggml.compute"))
    return Advice{
        "a smaller compute buffer: flash attention (-fa on), a smaller micro-batch (-ub), a shorter context (-c); if "
        "the log has n_copies above 1, a build with GGML_SCHED_MAX_COPIES=1",
        "a smaller micro-batch is slower"};
  if (is_family(failure, "ggml.kv_cache"))
    return Advice{"a smaller KV cache: a shorter context (-c), fewer slots (-np), or quantized (-ctk q8_0 -ctv q8_0)",
                  "a quantized cache is less exact"};
  return {};
}

}  // namespace

bool is_family(const Failure& failure, std::string_view texts) { return failure.grammar->name.starts_with(texts); }

std::pair<Advice, Advice> usual_advice(const Failure& failure) {
  if (const std::optional<Advice> advice = advice_for_buffer(failure)) return {*advice, {}};
  if (failure.kind == Kind::fragmentation && is_family(failure, "torch") && accelerator_of(failure).empty() &&
      failure.words.contains("system"))
    return on_windows;
  if (const std::string_view accelerator = accelerator_of(failure); !accelerator.empty()) {
    const auto row = std::ranges::find_if(accelerator_rows, [&](const AcceleratorRow& candidate) {
      return candidate.kind == failure.kind &&
             (candidate.accelerator == accelerator || (candidate.accelerator.empty() && accelerator != "HIP"));
    });
    if (row != accelerator_rows.end()) return {row->first, row->second};
  }
  const auto row = std::ranges::find_if(rows, [&](const Row& candidate) {
    return candidate.kind == failure.kind && is_family(failure, candidate.texts);
  });
  return {row->first, row->second};
}

}  // namespace memreel::explain
