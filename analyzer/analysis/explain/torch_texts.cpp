// SPDX-License-Identifier: Apache-2.0
// PyTorch's texts. Figures are rounded to two decimals; sizes are powers of 1024 whatever the release.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "analyzer/analysis/explain/failure.h"
#include "formats/model/quantity.h"

namespace memreel::explain {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20U;

/// The allocator asks the device for a segment, not for the request: 2 MiB refused with 3.56 MiB free is a request of
/// 20 MiB (CUDACachingAllocator.cpp, get_allocation_size: kSmallBuffer, kLargeBuffer, kMinLargeAlloc, kRoundLarge).
std::uint64_t segment_for(std::uint64_t request) {
  if (request <= mib) return 2 * mib;
  if (request < 10 * mib) return 20 * mib;
  return (request + 2 * mib - 1) / (2 * mib) * (2 * mib);
}

/// "Process N has ..." lists every process that is visible, this one among them. Where pids are hidden (containers),
/// none is called "this process": it is the one closest to what PyTorch itself holds.
void find_this_process(Failure& failure) {
  Figures& figures = failure.figures;
  const auto held = figures[Field::reserved];
  if (failure.processes.empty() || !held) return;
  std::uint64_t others = 0;
  for (const std::uint64_t process : failure.processes) others += process;
  if (!figures[Field::in_use]) {
    const auto distance = [&](std::uint64_t process) {
      return std::abs(static_cast<double>(process) - static_cast<double>(*held));
    };
    const auto own = std::ranges::min_element(failure.processes, {}, distance);
    // A process holds at least what its allocator reserved.
    if (static_cast<double>(*own) < 0.95 * static_cast<double>(*held)) return;
    figures[Field::in_use] = *own;
    others -= *own;
  }
  figures[Field::others] = others;
}

/// 2.3 printed the number of the device as a letter: "GPU \x01 has a total capacity" (pull request 123984).
void read_device_letter(Failure& failure) {
  const auto found = failure.words.find("device_letter");
  if (failure.figures[Field::device] || found == failure.words.end()) return;
  const std::string_view letter = found->second;
  std::uint64_t device = static_cast<unsigned char>(letter.back());
  if (letter.size() > 2) std::from_chars(letter.data() + 2, letter.data() + letter.size(), device, 16);
  failure.figures[Field::device] = device;
}

void torch_rule(Failure& failure) {
  Figures& figures = failure.figures;
  read_device_letter(failure);
  // Windows' driver does not say what a process holds: NVML answers 2^64 - 1, which is "not available".
  constexpr std::uint64_t not_available = std::uint64_t{1} << 50U;
  if (figures[Field::in_use].value_or(0) >= not_available) figures[Field::in_use].reset();
  std::erase_if(failure.processes, [](std::uint64_t process) { return process >= not_available; });
  if (const auto request = figures[Field::requested]; request && !figures[Field::needed])
    figures[Field::needed] = segment_for(*request);
  // The cached blocks of private pools count as allocated (pull request 124673).
  if (const auto pools = figures[Field::pools]; pools && figures[Field::live])
    figures[Field::live] = *figures[Field::live] - std::min(*pools, *figures[Field::live]);
  const auto live = figures[Field::live];
  // 1.0 to 1.3 printed what is cached beyond the allocated, 1.4 to 2.0 what is reserved in all, 2.1 both parts.
  if (live && figures[Field::reserved] && !figures[Field::cached])
    figures[Field::cached] = *figures[Field::reserved] - std::min(*live, *figures[Field::reserved]);
  if (live && figures[Field::cached] && !figures[Field::reserved])
    figures[Field::reserved] = *live + *figures[Field::cached] + figures[Field::pools].value_or(0);
  find_this_process(failure);
  judge_by_figures(failure);
  // Unless what is live leaves no room, an allocator's cache decides, and a text that was cut off lacks it.
  if (failure.kind == Kind::lack && figures[Field::free] && !figures[Field::cached] &&
      !(live && figures[Field::capacity] &&
        *figures[Field::capacity] - std::min(*live, *figures[Field::capacity]) < *figures[Field::needed])) {
    failure.kind = Kind::figures_missing;
    failure.because = "the text does not say how much of what is held is only cached";
    failure.shortfall.reset();
  }
}

/// MPS counts against recommendedMaxWorkingSetSize times a ratio, never against what is free.
void mps_rule(Failure& failure) {
  judge_by_figures(failure);
  if (failure.kind == Kind::nonsense_size || !failure.figures[Field::limit]) return;
  failure.kind = Kind::own_limit;
  failure.because = "MPS refuses what would exceed its high watermark, whatever the machine has left";
}

/// No single buffer of Level Zero may be larger than 4 GiB unless relaxed limits are asked for.
void xpu_rule(Failure& failure) {
  torch_rule(failure);
  constexpr std::uint64_t largest_buffer = std::uint64_t{4} << 30U;
  if (failure.figures[Field::requested].value_or(0) > largest_buffer && failure.kind != Kind::nonsense_size &&
      failure.kind != Kind::larger_than_device) {
    failure.kind = Kind::own_limit;
    failure.because = "one block may have at most 4 GiB on this device";
    failure.shortfall.reset();
  }
}

/// cudaMallocAsync: the driver's pool keeps memory too, and no figure separates that from what others hold. A context
/// takes about half a GiB of it.
void async_rule(Failure& failure) {
  Figures& figures = failure.figures;
  const auto capacity = figures[Field::capacity], free = figures[Field::free], live = figures[Field::live];
  constexpr std::uint64_t context = std::uint64_t{1} << 29U;
  if (capacity && free && live && *capacity > *live + *free) {
    const std::uint64_t rest = *capacity - *live - *free;
    figures[Field::cached] = rest - std::min(rest, context);
  }
  judge_by_figures(failure);
  if (failure.kind == Kind::fragmentation)
    failure.because += "; the text does not separate what the driver's pool keeps from what others hold";
}

void warning_rule(Failure& failure) {
  failure.kind = Kind::warning;
  failure.because = "PyTorch releases its cache and asks again; only an OutOfMemoryError after it is a failure";
}

constexpr std::string_view pytorch = "PyTorch";
constexpr std::string_view allocator_source = "c10/cuda/CUDACachingAllocator.cpp";

const std::array texts{
    Grammar{.name = "torch.refused_once",
            .framework = pytorch,
            .releases = "2.13 and newer",
            .key = "failedwithoomondevice",
            .head = R"(allocation failed with OOM on device {device#} while trying to allocate {requested})",
            .example = "memory allocation failed with OOM on device 0 while trying to allocate 20971520 bytes (free: "
                       "..., total: ...)",
            .meaning =
                "A warning with exact bytes: PyTorch now releases its cache and asks again. It failed only if an "
                "OutOfMemoryError follows.",
            .printed_by = allocator_source,
            .clauses = {R"(free: {free})", R"(total: {capacity})"},
            .rule = warning_rule,
            .part = 0,
            .aside = true,
            .extent = 300},
    Grammar{
        .name = "torch.mps",
        .framework = pytorch,
        .releases = "1.12 and newer, Apple GPUs",
        .key = "mpsbackendoutofmemory",
        .head = R"(MPS backend out of memory)",
        .example =
            "MPS backend out of memory (MPS allocated: 8.12 GiB, other allocations: 1.20 GiB, max allowed: 9.07 GiB). "
            "Tried to allocate 256.00 MiB on private pool.",
        .meaning =
            "The high watermark of the MPS allocator, a share of the recommended working set, would be exceeded; the "
            "machine may have more.",
        .printed_by = "aten/src/ATen/mps/MPSAllocator.mm",
        .clauses = {R"(MPS allocated: {live})", R"(other allocations: {others})", R"(max allowed: {limit})",
                    R"(Tried to allocate {requested})"},
        .rule = mps_rule,
        .extent = 500},
    Grammar{.name = "torch.mps_buffer",
            .framework = pytorch,
            .releases = "Apple GPUs",
            .key = "invalidbuffersize",
            .head = R"(Invalid buffer size: {requested})",
            .example = "RuntimeError: Invalid buffer size: 20.00 GiB",
            .meaning = "One tensor is larger than the largest buffer that Metal allows.",
            .printed_by = "aten/src/ATen/mps/MPSAllocator.mm",
            .rule =
                [](Failure& failure) {
                  judge_by_figures(failure);
                  if (failure.kind == Kind::nonsense_size) return;
                  failure.kind = Kind::larger_than_device;
                  failure.because = "one tensor is larger than the largest buffer that Metal allows";
                },
            .extent = 100},
    Grammar{.name = "torch.xpu_block",
            .framework = pytorch,
            .releases = "Intel extension, Intel GPUs",
            .key = "cannotallocatememoryblockwithsize",
            .head = R"(can ?NOT allocate memory block with size larger than {limit})",
            .example =
                "Current platform can NOT allocate memory block with size larger than 4GB! Tried to allocate 6.25 GiB",
            .meaning = "One block is larger than the device allows, however much is free.",
            .printed_by = "intel-extension-for-pytorch, CachingDeviceAllocator.cpp",
            .clauses = {R"(Tried to allocate {requested})", R"(\(GPU {device#} ;)", R"({capacity} total capacity)",
                        R"({live} already allocated)", R"({free} free)", R"({reserved} reserved in total)"},
            .rule =
                [](Failure& failure) {
                  judge_by_figures(failure);
                  failure.kind = Kind::own_limit;
                  failure.because = "one block may have at most " +
                                    in_words(failure.figures[Field::limit].value_or(0)) + " on this device";
                },
            .extent = 500},
    Grammar{
        .name = "torch.xpu",
        .framework = pytorch,
        .releases = "2.3 and newer, Intel GPUs",
        .key = "xpuoutofmemory",
        .head = R"({accelerator:XPU} out of memory\W+Tried to allocate {requested})",
        .example =
            "XPU out of memory. Tried to allocate 4.50 GiB. GPU 0 has a total capacity of 15.91 GiB. Of the allocated "
            "memory 10.00 GiB is allocated by PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated.",
        .meaning =
            "As on other GPUs, but the text does not say what is free; a block above 4 GiB is refused by many devices.",
        .printed_by = "c10/xpu/XPUCachingAllocator.cpp",
        .clauses = {R"(GPU {device#})", R"(total capac\w+ of {capacity})", R"({capacity} total capacity)",
                    R"(of which {free} is free)", R"({live} already allocated)", R"({live} is allocated by PyTorch)",
                    R"({cached} is reserved by PyTorch but)", R"({reserved} reserved in total)"},
        .rule = xpu_rule,
        .extent = 800},
    Grammar{.name = "torch.exabyte",
            .framework = pytorch,
            .releases = "1.4 and newer",
            .key = "triedtoallocatemorethan",
            .head = R"({accelerator:\w+}? out of memory\W+Tried to allocate more than {requested} memory)",
            .example = "CUDA out of memory. Tried to allocate more than 1EB memory.",
            .meaning = "A size was computed wrongly: a negative number, or an overflow.",
            .printed_by = allocator_source,
            .rule = torch_rule,
            .extent = 200},
    Grammar{
        .name = "torch.of_which",
        .framework = pytorch,
        .releases = "2.1 and newer",
        .key = "triedtoallocate",
        .head =
            R"({accelerator:[A-Z]+}? out of memory\W+Tried to allocate {requested}\W+ [A-Z]+ (?:{device#}|{device_letter:[\x01-\x1f]|\\(?:u00|x)[0-9a-f][0-9a-f]})? has a total capac\w+ of {capacity})",
        .example = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which "
                   "1.03 GiB is "
                   "free. Including non-PyTorch memory, this process has 78.08 GiB memory in use. Of the allocated "
                   "memory 70.00 "
                   "GiB is allocated by PyTorch, and 7.50 GiB is reserved by PyTorch but unallocated.",
        .meaning =
            "Compare what is free and what is reserved but unallocated with the request: if both together are smaller, "
            "memory is lacking and no setting helps; if not, the cache is in pieces. What is allocated in private "
            "pools "
            "is partly cache too.",
        .printed_by = allocator_source,
        .clauses = {R"(of which {free} is free)", R"(this process has {in_use} memory in use)",
                    R"(Process \d+ has {process} memory in use)", R"({limit} allowed)",
                    R"({live} is allocated by PyTorch)", R"(with {pools} allocated in private pools)",
                    R"({cached} is reserved by PyTorch but)"},
        .rule = torch_rule},
    Grammar{
        .name = "torch.total_capacity",
        .framework = pytorch,
        .releases = "1.0 to 2.0, and accelerators that follow them",
        .key = "triedtoallocate",
        .head =
            R"({accelerator:[A-Z]+}? out of memory\W+Tried to allocate {requested} ?\(\w+ {device#} ; {capacity} total capacity)",
        .example = "CUDA out of memory. Tried to allocate 2.87 GiB (GPU 0; 14.76 GiB total capacity; 8.77 GiB already "
                   "allocated; "
                   "19.75 MiB free; 13.71 GiB reserved in total by PyTorch)",
        .meaning =
            "Reserved minus allocated is cached. If that and what is free exceed the request, the cache is in pieces; "
            "until 1.3 the text says what is cached itself.",
        .printed_by = allocator_source,
        .clauses = {R"({live} already allocated)", R"({free} free)", R"({limit} allowed)", R"({cached} cached)",
                    R"({reserved} reserved in total)"},
        .rule = torch_rule,
        .extent = 700},
    Grammar{.name = "torch.driver_pool",
            .framework = pytorch,
            .releases = "2.0 and newer, backend:cudaMallocAsync",
            .key = "wouldexceedallowedmemory",
            .head = R"(Allocation on device {device#} would exceed allowed memory)",
            .example =
                "Allocation on device 0 would exceed allowed memory. (out of memory) Currently allocated: 5.29 GiB "
                "Requested: 12.50 MiB Device limit: 5.81 GiB Free (according to CUDA): 10.31 MiB PyTorch limit (set by "
                "user-supplied memory fraction): 17179869184.00 GiB",
            .meaning = "The driver's pool was refused. What is neither allocated nor free is kept by that pool, or "
                       "held by others.",
            .printed_by = "c10/cuda/CUDAMallocAsyncAllocator.cpp",
            .clauses = {R"(Currently allocated : {live})", R"(Requested : {requested})", R"(Device limit : {capacity})",
                        R"(according to CUDA\) : {free})", R"(memory fraction\) : {limit})"},
            .rule = async_rule,
            .extent = 900},
    Grammar{.name = "torch.driver_pool_short",
            .framework = pytorch,
            .releases = "ComfyUI, backend:cudaMallocAsync",
            .key = "allocationondevice",
            .head = R"(OutOfMemoryError\W+Allocation on device(?: {device#})?)",
            .example = "torch.OutOfMemoryError: Allocation on device 0",
            .meaning = "The driver's pool was refused; only the first words of the text were printed.",
            .printed_by = "c10/cuda/CUDAMallocAsyncAllocator.cpp",
            .rule =
                [](Failure& failure) {
                  failure.kind = Kind::no_figures;
                  failure.because = "the log has only the first words of the text";
                },
            .extent = 100},
    Grammar{.name = "torch.npu_workspace",
            .framework = pytorch,
            .releases = "Ascend NPUs",
            .key = "npuworkspaceallocatortriedtoallocate",
            .head = R"({accelerator:NPU} out of memory\W+NPUWorkspaceAllocator tried to allocate {requested})",
            .example = "NPU out of memory. NPUWorkspaceAllocator tried to allocate 1.50 GiB(NPU 0; 60.97 GiB total "
                       "capacity; 20.00 MiB free).",
            .meaning = "The workspace of an operator, outside PyTorch's pool: what that holds, the text does not say.",
            .printed_by = "torch_npu/csrc/core/npu/NPUWorkspaceAllocator.cpp",
            .clauses = {R"(\(NPU {device#} ;)", R"({capacity} total capacity)", R"({free} free)"},
            .rule = torch_rule,
            .extent = 300},
    Grammar{
        .name = "torch.ends_early",
        .framework = pytorch,
        .releases = "2.3, device 0",
        .key = "triedtoallocate",
        .head =
            R"({accelerator:[A-Z]+}? out of memory\W+Tried to allocate {requested}\. GPU\s*(?:\z|[^\x01-\x1f\s\d\\h]|h[^a]))",
        .example = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU",
        .meaning = "This release prints the number of the device as a letter, and 0 ends the text: the figures are "
                   "not in the log.",
        .printed_by = allocator_source,
        .rule = torch_rule,
        .extent = 200},
    Grammar{.name = "torch.cut",
            .framework = pytorch,
            .releases = "any, cut off",
            .key = "triedtoallocate",
            .head = R"({accelerator:[A-Z]+}? out of memory\W+Tried to allocate {requested})",
            .example = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a tot",
            .meaning = "The text is cut off: only the request is known.",
            .printed_by = allocator_source,
            .clauses = {R"(GPU {device#})", R"(total capac\w+ of {capacity})", R"({capacity} total capacity)",
                        R"(of which {free} is free)", R"({live} already allocated)"},
            .rule = torch_rule,
            .extent = 400},
};

}  // namespace

std::span<const Grammar> torch_texts() { return texts; }

// Texts of serving engines, whose plans fail before any allocation does.

namespace {

/// The budget is a share of the device; weights, the profiled peak of activations and other libraries come off it
/// first.
void budget_rule(Failure& failure) {
  Figures& figures = failure.figures;
  const auto budget = figures[Field::budget], activations = figures[Field::activations],
             weights = figures[Field::weights];
  if (!budget && !weights && !figures[Field::kv_cache] && !figures[Field::kv_needed] && !figures[Field::length]) {
    failure.kind = Kind::no_figures;
    failure.because = "the engine's budget leaves no room for the KV cache; its profile is not in the text";
    return;
  }
  failure.kind = Kind::engine_budget;
  if (figures[Field::kv_needed] && figures[Field::kv_cache]) {
    failure.shortfall = *figures[Field::kv_needed] - std::min(*figures[Field::kv_needed], *figures[Field::kv_cache]);
    failure.because = "one request of that length needs " + in_words(*figures[Field::kv_needed]) + " of KV cache, " +
                      in_words(*figures[Field::kv_cache]) + " are left";
  } else if (figures[Field::length] && figures[Field::fitting]) {
    failure.because = std::to_string(*figures[Field::length]) + " tokens do not fit into a KV cache for " +
                      std::to_string(*figures[Field::fitting]);
  } else if (activations && weights && *activations > *weights) {
    failure.because = "activations of the profiling run take " + in_words(*activations) +
                      (budget ? " of a budget of " + in_words(*budget) : "") + ", weights " + in_words(*weights);
  } else if (weights) {
    failure.because = "weights take " + in_words(*weights) + (budget ? " of a budget of " + in_words(*budget) : "");
  } else {
    // Engines print what is left as a negative size where the plan exceeds the budget.
    failure.because = figures[Field::kv_cache].value_or(0) > 0
                          ? in_words(*figures[Field::kv_cache]) + " are left for the KV cache"
                          : "nothing is left for the KV cache";
  }
}

/// The share that was asked for is not free at the start: whoever holds it came first.
void startup_rule(Failure& failure) {
  Figures& figures = failure.figures;
  const auto capacity = figures[Field::capacity], free = figures[Field::free], wanted = figures[Field::budget];
  failure.kind = Kind::other_process;
  if (!capacity || !free) return;
  figures[Field::others] = *capacity - std::min(*free, *capacity);
  if (wanted) failure.shortfall = *wanted - std::min(*wanted, *free);
  failure.because =
      in_words(*figures[Field::others]) + " of " + in_words(*capacity) + " were held before the engine started";
  if (*capacity > 0)
    failure.because +=
        "; a utilization of at most " +
        memreel::text_of(std::floor(100 * static_cast<double>(*free) / static_cast<double>(*capacity)) / 100, 2) +
        " fits";
}

constexpr std::string_view vllm = "vLLM", sglang = "SGLang";
constexpr std::string_view vllm_utils = "vllm/v1/worker/utils.py", vllm_kv = "vllm/v1/core/kv_cache_utils.py";
constexpr std::string_view vllm_worker = "vllm/worker/worker.py";

const std::array texts_of_engines{
    Grammar{
        .name = "vllm.budget",
        .framework = vllm,
        .releases = "0.6 to 0.8",
        .key = "thecurrentvllminstancecanuse",
        .head =
            R"(current vLLM instance can use total_gpu_memory \({capacity}\) x gpu_memory_utilization \([\d.]+\) = {budget})",
        .printed_by = vllm_worker,
        .fact = true,
        .extent = 400},
    Grammar{.name = "vllm.profile",
            .framework = vllm,
            .releases = "0.6 to 0.8",
            .key = "modelweightstake",
            .head = R"(model weights take {weights})",
            .printed_by = vllm_worker,
            .clauses = {R"(non_torch_memory takes {non_torch})", R"(activation peak memory takes {activations})",
                        R"(reserved for KV Cache is {kv_cache})"},
            .fact = true,
            .extent = 400},
    Grammar{.name = "vllm.weights",
            .framework = vllm,
            .key = "modelloadingtook",
            .head = R"(Model loading took {weights})",
            .printed_by = "vllm/v1/worker/gpu_model_runner.py",
            .fact = true,
            .extent = 100},
    Grammar{.name = "vllm.left",
            .framework = vllm,
            .key = "availablekvcachememory",
            .head = R"(Available KV cache memory: {kv_cache})",
            .printed_by = "vllm/v1/worker/gpu_worker.py",
            .fact = true,
            .extent = 100},
    Grammar{.name = "vllm.startup",
            .framework = vllm,
            .releases = "0.8 and newer",
            .key = "freememoryondevice",
            .head = R"(Free memory on device[^(]{0,20}\({free~GiB}/{capacity}\))",
            .example = "ValueError: Free memory on device (31.44/47.38 GiB) on startup is less than desired GPU memory "
                       "utilization "
                       "(0.95, 45.01 GiB).",
            .meaning =
                "Somebody holds memory before vLLM starts: another process, or an earlier engine that has not ended.",
            .printed_by = vllm_utils,
            .clauses = {R"(utilization \([\d.]+ , {budget}\))"},
            .rule = startup_rule,
            .extent = 400},
    Grammar{
        .name = "vllm.no_blocks",
        .framework = vllm,
        .key = "noavailablememoryforthecacheblocks",
        .head = R"(No available memory for the cache blocks)",
        .example = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
                   "initializing the engine.",
        .meaning =
            "Weights and the activations of the profiling run use up the budget. If activations are the larger part, "
            "max_num_batched_tokens and max_num_seqs help, a higher utilization hardly.",
        .printed_by = vllm_kv,
        .rule = budget_rule,
        .part = 2,
        .extent = 300},
    Grammar{
        .name = "vllm.max_length",
        .framework = vllm,
        .releases = "until 0.8",
        .key = "islargerthanthemaximumnumberoftokens",
        .head =
            R"(max seq len \({length#}\) is larger than the maximum number of tokens that can be stored in (?:the )?KV cache \({fitting#}\))",
        .example = "The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in "
                   "KV cache "
                   "(29984).",
        .meaning =
            "The KV cache is too small for one request of the model's full length: lower max_model_len to what fits.",
        .printed_by = vllm_worker,
        .rule = budget_rule,
        .part = 2,
        .extent = 500},
    Grammar{.name = "vllm.one_request",
            .framework = vllm,
            .releases = "0.8 and newer",
            .key = "toserveatleastonerequest",
            .head = R"(To serve at least one request with (?:the )?model[^(]{0,12}max seq len \({length#}\))",
            .example = "To serve at least one request with the models's max seq len (32768), (4.00 GiB KV cache is "
                       "needed, which is "
                       "larger than the available KV cache memory (1.37 GiB).",
            .meaning = "The KV cache is too small for one request of the model's full length: lower max_model_len to "
                       "the length that "
                       "the text names.",
            .printed_by = vllm_kv,
            .clauses = {R"({kv_needed} KV cache is needed)", R"(available KV cache memory \({kv_cache}\))",
                        R"(estimated maximum model length is {fitting#})"},
            .rule = budget_rule,
            .part = 2,
            .extent = 700},
    Grammar{
        .name = "vllm.profiling",
        .framework = vllm,
        .key = "errorinmemoryprofiling",
        .head = R"(Error in memory profiling)",
        .example =
            "AssertionError: Error in memory profiling. Initial free memory 21.30 GiB, current free memory 22.10 GiB.",
        .meaning = "Another process gave memory back while vLLM measured; start it when the device is quiet.",
        .printed_by = vllm_worker,
        .clauses = {R"(Initial free memory {free})"},
        .rule =
            [](Failure& failure) {
              failure.kind = Kind::other_process;
              failure.because = "the free memory of the device grew while vLLM measured its own use";
            },
        .extent = 500},
    Grammar{.name = "vllm.warm_up",
            .framework = vllm,
            .key = "outofmemoryoccurredwhenwarmingup",
            .head = R"(out of memory occurred when warming up sampler with {length#} dummy requests)",
            .example = "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests.",
            .meaning =
                "The sampler needs memory for max_num_seqs sequences beyond the budget: lower it, or leave more room.",
            .printed_by = "vllm/v1/worker/gpu_model_runner.py",
            .rule =
                [](Failure& failure) {
                  failure.kind = Kind::engine_budget;
                  failure.because = "the sampler's memory for " +
                                    std::to_string(failure.figures[Field::length].value_or(0)) +
                                    " sequences is outside the budget";
                },
            .extent = 300},
    Grammar{.name = "sglang.avail",
            .framework = sglang,
            .key = "loadweightend",
            .head = R"(Load weight end\.)",
            .printed_by = "sglang/srt/model_executor/model_runner.py",
            .clauses = {R"(avail mem ?= ?{free})", R"(mem usage ?= ?{weights})"},
            .fact = true,
            .extent = 400},
    Grammar{
        .name = "sglang.static",
        .framework = sglang,
        .key = "notenoughmemory.pleasetry",
        .head = R"(Not enough memory\. Please try (?:to )?increas\w+ --mem-fraction-static)",
        .example = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        .meaning =
            "Weights leave nothing of the static budget for the KV cache: raise the fraction, or spread the model over "
            "more devices. If what then runs out is activations, it must be lowered.",
        .printed_by = "sglang/srt/model_executor/model_runner.py",
        .rule = budget_rule,
        .part = 2,
        .extent = 300},
};

}  // namespace

std::span<const Grammar> engine_texts() { return texts_of_engines; }

}  // namespace memreel::explain
