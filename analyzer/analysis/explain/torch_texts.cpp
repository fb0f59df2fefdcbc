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
    // A process holds at least what its allocator reserved. If it holds far more, it may as well be another one.
    constexpr std::uint64_t most_beside = 2048 * mib;
    if (static_cast<double>(*own) < 0.95 * static_cast<double>(*held)) return;
    if (*own <= *held + most_beside) {
      figures[Field::in_use] = *own;
      others -= *own;
    } else {
      others -= *held;
    }
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

/// cudaMallocAsync: no figure separates what the driver's pool keeps from contexts and from what others hold.
void async_rule(Failure& failure) {
  judge_by_figures(failure);
  Figures& figures = failure.figures;
  for (const Field field : {Field::cached, Field::reserved, Field::others}) figures[field].reset();
  if (failure.kind != Kind::lack && failure.kind != Kind::fragmentation && failure.kind != Kind::other_process) return;
  failure.shortfall.reset();
  failure.kind = Kind::figures_missing;
  failure.because = "the text does not say how much of what is held is only cached";
  const auto capacity = figures[Field::capacity], free = figures[Field::free], live = figures[Field::live];
  if (!capacity || !free || !live) return;
  const std::uint64_t rest = *capacity - std::min(*capacity, *live + *free);
  const std::uint64_t needed = figures[Field::needed].value_or(0);
  if (*free + rest < needed) {
    failure.kind = Kind::lack;
    failure.because =
        "short by at least " + in_words(needed - *free - rest) + ", even if all that is not live came back";
  } else if (static_cast<double>(*live) >= 0.9 * static_cast<double>(*capacity)) {
    failure.kind = Kind::lack;
    failure.because = in_words(*live) + " of " + in_words(*capacity) + " are live";
  } else {
    failure.because =
        in_words(rest) + " are neither live nor free: the text does not say who has them, the driver's pool or others";
  }
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
            .meaning = "The driver's pool was refused. What is neither allocated nor free is kept by that pool, "
                       "taken by contexts or held by others: the text does not separate them.",
            .printed_by = "c10/cuda/CUDAMallocAsyncAllocator.cpp",
            .clauses = {R"(Currently allocated : {live})", R"(Requested : {requested})", R"(Device limit : {capacity})",
                        R"(according to CUDA\) : {free})", R"(memory fraction\) : {limit})"},
            .rule = async_rule,
            .extent = 900},
    Grammar{.name = "torch.driver_pool_short",
            .framework = pytorch,
            .releases = "ComfyUI, backend:cudaMallocAsync",
            .key = "allocationondevice",
            .head = R"(OutOfMemoryError\W+(?:Exception Message\W+)?Allocation on device(?: {device#})?)",
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

}  // namespace memreel::explain
