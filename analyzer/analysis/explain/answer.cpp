// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/explain/answer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "formats/model/printable.h"
#include "formats/model/quantity.h"

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
        {"raise the pool's maximum, and its initial size to at least the largest request",
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
    Row{Kind::no_figures, "cuda.device_memory", {"smaller buffers: drivers also limit the size of one", ""}},
    Row{Kind::no_figures, "cuda.vulkan", {"smaller buffers: drivers also limit the size of one", ""}},
    Row{Kind::no_figures, "cuda.opencl", {"smaller buffers: drivers also limit the size of one", ""}},
    Row{Kind::no_figures,
        "rmm.pool",
        {"raise the pool's maximum, and its initial size to at least the largest request",
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

constexpr std::string_view record_flight = "memreel record --flight 256MiB -- PROGRAM";
constexpr std::string_view record_whole = "memreel record -o run.reel -- PROGRAM && memreel tune run.reel";

std::string_view unknown_in(Kind kind) {
  switch (kind) {
    case Kind::fragmentation:
      return "which setting would have served it, and whether cached blocks wait for another stream";
    case Kind::other_process:
      return "who holds it";
    case Kind::refused_though_free:
      return "how many mappings there were, and what the driver answered";
    case Kind::own_limit:
      return "whether the limit is too low, or the program grows";
    case Kind::private_pool:
      return "which pool or graph it is";
    case Kind::larger_than_device:
      return "which line asked for it";
    default:
      return "who holds the memory; a leak can't be told from need";
  }
}

bool is_family(const Failure& failure, std::string_view texts) { return failure.grammar->name.starts_with(texts); }

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

/// The rows' advice, or that for the accelerator.
std::pair<Advice, Advice> usual_advice(const Failure& failure) {
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

/// A stretch of the bar.
struct Stretch {
  std::string_view name;
  std::uint64_t bytes;
  char ascii;
  std::string_view unicode;
};

std::vector<Stretch> stretches_of(const Failure& failure) {
  const Figures& figures = failure.figures;
  const auto value = [&](Field field) { return figures[field].value_or(0); };
  const std::uint64_t reserved = value(Field::reserved);
  const std::uint64_t context = figures[Field::in_use] && figures[Field::reserved] && value(Field::in_use) > reserved
                                    ? value(Field::in_use) - reserved
                                    : 0;
  const bool parts = figures[Field::live].has_value();
  std::vector<Stretch> all;
  if (parts) all.push_back({"live", value(Field::live), '#', "█"});
  if (!parts && reserved > 0) all.push_back({"held", reserved, '#', "█"});
  if (figures[Field::pools]) all.push_back({"cached in private pools", value(Field::pools), '%', "▚"});
  if (figures[Field::cached]) all.push_back({"cached", value(Field::cached), '+', "▓"});
  if (context > 0) all.push_back({"context and libraries", context, 'c', "▒"});
  // A difference of figures with two decimals is uncertain by their sum.
  constexpr std::uint64_t least_difference = std::uint64_t{32} << 20U;
  if (value(Field::others) >= least_difference) all.push_back({"others", value(Field::others), 'o', "░"});
  const std::uint64_t known = value(Field::live) + value(Field::free);
  if (is_family(failure, "torch.driver_pool") && parts && figures[Field::free] && value(Field::capacity) > known)
    all.push_back({"the pool's cache, contexts or others", value(Field::capacity) - known, '?', "░"});
  if (figures[Field::free]) all.push_back({"free", value(Field::free), '.', "·"});
  return all;
}

std::string bar_of(const Failure& failure, bool unicode) {
  constexpr std::size_t width = 32;
  const Figures& figures = failure.figures;
  const std::vector<Stretch> all = stretches_of(failure);
  std::string words;
  std::uint64_t sum = 0;
  for (const Stretch& stretch : all) {
    words += (words.empty() ? "" : ", ") + std::string(stretch.name) + " " + in_words(stretch.bytes);
    sum += std::min(stretch.bytes, std::uint64_t{1} << 60U);
  }
  if (figures[Field::budget] && figures[Field::weights]) {
    words = "weights " + in_words(*figures[Field::weights]);
    if (figures[Field::activations]) words += ", activations " + in_words(*figures[Field::activations]);
    if (figures[Field::non_torch]) words += ", libraries " + in_words(*figures[Field::non_torch]);
    return words + " of a budget of " + in_words(*figures[Field::budget]);
  }
  if (!figures[Field::capacity] || all.empty() || *figures[Field::capacity] == 0) return words;
  const std::uint64_t whole = std::max(sum, *figures[Field::capacity]);
  std::string bar;
  std::size_t drawn = 0;
  std::uint64_t so_far = 0;
  for (const Stretch& stretch : all) {
    so_far += stretch.bytes;
    const auto end =
        std::min(width, static_cast<std::size_t>(std::llround(static_cast<double>(width) * static_cast<double>(so_far) /
                                                              static_cast<double>(whole))));
    for (; drawn < end; ++drawn)
      if (unicode)
        bar += stretch.unicode;
      else
        bar += stretch.ascii;
  }
  bar.append(width - drawn, ' ');
  return "[" + bar + "] " + words + " of " + in_words(*figures[Field::capacity]);
}

/// For a table of Markdown: no cell ends early, and nothing is taken for a tag.
std::string cell(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '|') out += '\\';
    out += letter;
  }
  return out;
}

}  // namespace

Answer answer_to(const Failure& failure) {
  Answer answer{.advice = {}, .record = {}, .unknown = unknown_in(failure.kind)};
  const auto [first, second] = usual_advice(failure);
  const Figures& figures = failure.figures;
  const auto activations = figures[Field::activations], weights = figures[Field::weights];
  if (failure.kind == Kind::engine_budget && activations && weights && *activations > *weights)
    answer.advice.push_back(
        {"lower --max-num-batched-tokens or --max-num-seqs: activations, not the utilization, are the problem",
         "fewer tokens at once"});
  if (failure.kind == Kind::lack && figures[Field::capacity] && figures[Field::requested] &&
      *figures[Field::requested] > *figures[Field::capacity] / 2)
    answer.advice.push_back(
        {"make that one tensor smaller: it is more than half of the device (tiles, chunks, a fused kernel)", ""});
  if (failure.kind == Kind::lack && failure.because.find("moved memory to the host") != std::string::npos)
    answer.advice.push_back(
        {"hold less, and switch off the driver's fallback to host memory, which makes everything slow", ""});
  if (failure.kind == Kind::refused_though_free && figures[Field::capacity] && figures[Field::free] &&
      *figures[Field::free] < *figures[Field::capacity] / 50)
    answer.advice.push_back(
        {"hold a little less: the device is as good as full, and drivers keep some memory for themselves", ""});
  if (failure.kind == Kind::other_process && figures[Field::in_use] && figures[Field::reserved] &&
      *figures[Field::in_use] - std::min(*figures[Field::in_use], *figures[Field::reserved]) >
          figures[Field::others].value_or(0))
    answer.advice.push_back(
        {"limit what else allocates in this process: another framework's or engine's pool, NCCL's buffers, TensorRT",
         ""});
  answer.advice.push_back(first);
  if (!second.what.empty()) answer.advice.push_back(second);
  switch (failure.kind) {
    case Kind::host_memory:
    case Kind::not_device_memory:
    case Kind::warning:
      break;
    case Kind::other_process:
      answer.record = "memreel top";
      break;
    case Kind::fragmentation:
    case Kind::private_pool:
      answer.record = record_whole;
      break;
    default:
      answer.record = record_flight;
  }
  return answer;
}

std::string text_of(const Failure& failure, std::string_view name, bool unicode) {
  const Figures& figures = failure.figures;
  std::string out(name);
  out += ":" + std::to_string(failure.line) + ": ";
  if (!failure.source.empty()) out += printable(failure.source) + ": ";
  out += failure.grammar->framework;
  if (figures[Field::device]) out += ", device " + std::to_string(*figures[Field::device]);
  out += ": " + std::string(text_of(failure.kind).title);
  if (figures[Field::requested]) out += ", " + in_words(*figures[Field::requested]) + " requested";
  if (figures[Field::needed] && figures[Field::needed] != figures[Field::requested] &&
      *figures[Field::needed] >= 2 * figures[Field::requested].value_or(0))
    out += " (a segment of " + in_words(*figures[Field::needed]) + ")";
  if (failure.shortfall && failure.kind != Kind::larger_than_device)
    out += ", short by " + in_words(*failure.shortfall);
  if (failure.count > 1) out += " (" + std::to_string(failure.count) + " times)";
  out += '\n';
  if (const std::string bar = bar_of(failure, unicode); !bar.empty()) out += "  " + bar + '\n';
  if (!failure.because.empty()) out += "  why: " + printable(failure.because) + '\n';
  const Answer answer = answer_to(failure);
  const Advice& first = answer.advice.front();
  out += "  try: " + std::string(first.what);
  if (!first.side_effects.empty()) out += " (side effect: " + std::string(first.side_effects) + ")";
  out += '\n';
  if (!answer.record.empty()) out += "  " + answer.record + ": " + std::string(answer.unknown) + '\n';
  return out;
}

std::string errors_page() {
  std::string page =
      "# Error texts, and what they mean\n\n"
      "`memreel explain LOG` finds these texts in a log and says what their figures decide. This page is the same "
      "table: each text as\n"
      "people search for it. It is generated: `memreel explain --texts > docs/errors.md`.\n\n"
      "What no text can say: who holds the memory, and whether it is a leak or a need. A recording can\n"
      "([out of memory](out-of-memory.md)).\n";
  std::vector<const Grammar*> texts = all_texts();
  std::erase_if(texts, [](const Grammar* grammar) { return grammar->fact; });
  while (!texts.empty()) {
    const std::string_view framework = texts.front()->framework;
    page += "\n## " + std::string(framework) + "\n\n| text | printed by | meaning |\n|---|---|---|\n";
    for (const Grammar* grammar : texts) {
      if (grammar->framework != framework) continue;
      page += "| `" + cell(grammar->example) + "` | " + cell(grammar->printed_by);
      if (!grammar->releases.empty()) page += " (" + cell(grammar->releases) + ")";
      page += " | " + cell(grammar->meaning) + " |\n";
    }
    std::erase_if(texts, [&](const Grammar* grammar) { return grammar->framework == framework; });
  }
  page += "\n## Kinds\n\n| kind | in JSON |\n|---|---|\n";
  for (const KindText& kind : all_kinds())
    page += "| " + std::string(kind.title) + " | `" + std::string(kind.name) + "` |\n";
  return page;
}

}  // namespace memreel::explain
