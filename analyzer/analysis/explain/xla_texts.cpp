// SPDX-License-Identifier: Apache-2.0
// Texts of TensorFlow and JAX: their BFC allocator, and XLA's programs.

#include <algorithm>
#include <array>
#include <charconv>

#include "analyzer/analysis/explain/failure.h"

namespace memreel::explain {
namespace {

std::uint64_t element_size(std::string_view type) {
  struct Type {
    std::string_view name;
    std::uint64_t bytes;
  };
  constexpr std::array types{Type{"float", 4},   Type{"half", 2},   Type{"bfloat16", 2},  Type{"double", 8},
                             Type{"int8", 1},    Type{"uint8", 1},  Type{"bool", 1},      Type{"int16", 2},
                             Type{"int32", 4},   Type{"int64", 8},  Type{"complex64", 8}, Type{"complex128", 16},
                             Type{"float32", 4}, Type{"float16", 2}};
  const auto found = std::ranges::find(types, type, &Type::name);
  return found == types.end() ? 0 : found->bytes;
}

/// A tensor's size follows from its shape and type, as the text itself does not say it.
void add_tensor_size(Failure& failure) {
  const auto shape = failure.words.find("shape");
  const auto type = failure.words.find("type");
  if (failure.figures[Field::requested] || shape == failure.words.end() || type == failure.words.end()) return;
  std::uint64_t size = element_size(type->second);
  const char* at = shape->second.data();
  const char* const end = at + shape->second.size();
  while (at < end && size > 0) {
    std::uint64_t dimension = 0;
    const auto [next, problem] = std::from_chars(at, end, dimension);
    if (problem != std::errc{}) {
      ++at;
      continue;
    }
    if (dimension != 0 && size > (std::uint64_t{1} << 62U) / dimension) return;
    size *= dimension;
    at = next;
  }
  if (size > 0) failure.figures[Field::requested] = size;
}

/// The arena takes most of the device at the start: its limit is the capacity, what is not in use is free in it.
void bfc_rule(Failure& failure) {
  add_tensor_size(failure);
  if (failure.words["device_kind"] == "CPU" || failure.words["device_kind"] == "cpu") {
    failure.kind = Kind::host_memory;
    failure.because = "the tensor was to be in the host's memory";
    return;
  }
  Figures& figures = failure.figures;
  if (figures[Field::capacity] && figures[Field::live])
    figures[Field::cached] = *figures[Field::capacity] - std::min(*figures[Field::live], *figures[Field::capacity]);
  if (figures[Field::cached]) figures[Field::free] = 0;
  judge_by_figures(failure);
  // What is free in an arena is free for every request: only pieces can keep it from serving one.
  if (failure.kind == Kind::lack && figures[Field::cached].value_or(0) >= figures[Field::requested].value_or(0)) {
    failure.kind = Kind::fragmentation;
    failure.because = in_words(*figures[Field::cached]) + " are free in the arena, in pieces";
    failure.shortfall.reset();
  }
  if (failure.kind == Kind::larger_than_device && figures[Field::live])
    failure.because += "; the arena is what the program reserved, the device may have more";
}

/// XLA plans a program's memory before it runs: the sum is what it needs, whatever the allocator does.
void program_rule(Failure& failure) {
  Figures& figures = failure.figures;
  const auto total = figures[Field::reserved], capacity = figures[Field::capacity];
  if (const auto space = failure.words.find("space");
      space != failure.words.end() && space->second != "hbm" && space->second != "HBM") {
    const auto wanted = total ? total : figures[Field::requested], limit = total ? capacity : figures[Field::limit];
    failure.kind = Kind::not_device_memory;
    failure.because = space->second + " is on the chip";
    if (wanted && limit) failure.because += ": it has " + in_words(*limit) + ", the kernel wants " + in_words(*wanted);
    figures = {};
    return;
  }
  const bool fits = total && capacity && *total <= *capacity;
  // What the program needs is not what anybody holds.
  if (fits || !capacity) figures[Field::reserved].reset();
  if (!total || fits) return bfc_rule(failure);
  const std::string needs = "the compiled program alone needs " + in_words(*total);
  if (capacity) {
    failure.kind = Kind::lack;
    failure.shortfall = *total - *capacity;
    failure.because = needs + " of " + in_words(*capacity);
    return;
  }
  bfc_rule(failure);
  if (failure.kind != Kind::figures_missing) return;
  // Any card that people train on has more, unless somebody else holds it.
  constexpr std::uint64_t least_card = std::uint64_t{8} << 30U;
  if (*total >= least_card) failure.kind = Kind::lack;
  failure.because = needs + "; what the device or the arena had left, the text does not say";
}

void went_on(Failure& failure) {
  failure.kind = Kind::warning;
  failure.because = "the caller goes on with another algorithm, or with a smaller pool";
}

void pinned_rule(Failure& failure) {
  failure.kind = Kind::host_memory;
  failure.because = in_words(failure.figures[Field::requested].value_or(0)) + " of the host's memory were to be pinned";
}

constexpr std::string_view tensorflow = "TensorFlow", jax = "JAX", either = "TensorFlow, JAX";
constexpr std::string_view bfc_source = "tsl/framework/bfc_allocator.cc";

const std::array texts_of_xla{
    Grammar{
        .name = "tf.not_a_failure",
        .framework = either,
        .key = "thecallerindicatesthatthisisnotafailure",
        .head =
            R"(ran out of memory trying to allocate {requested}[^.]{0,80}(?:\.[^.]{0,80})?\. The caller indicates that this is not a failure)",
        .example =
            "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.13GiB with freed_by_count=0. The caller "
            "indicates that this is not a failure, but may mean that there could be performance gains if more memory "
            "were available.",
        .meaning = "A warning: a faster algorithm with more workspace did not fit, a slower one is used.",
        .printed_by = bfc_source,
        .rule = went_on,
        .part = 0,
        .aside = true,
        .extent = 500},
    Grammar{.name = "tf.pinned",
            .framework = tensorflow,
            .key = "couldnotallocatepinnedhostmemory",
            .head = R"(could not allocate pinned host memory of size: {requested})",
            .example = "could not allocate pinned host memory of size: 34359738368",
            .meaning = "Host memory that was to be page-locked, not the GPU's.",
            .printed_by = "tensorflow/core/common_runtime/device/device_host_allocator.h",
            .rule = pinned_rule,
            .part = 1,
            .aside = true,
            .extent = 200},
    Grammar{.name = "tf.on_host",
            .framework = tensorflow,
            .key = "bytesonhost",
            .head = R"(failed to alloc\w* {requested} on host(?: : CUDA_ERROR_OUT_OF_MEMORY(?: : out of memory)?)?)",
            .example = "failed to alloc 34359738368 bytes on host: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
            .meaning = "Host memory that was to be page-locked, not the GPU's.",
            .printed_by = "xla/stream_executor/cuda/cuda_executor.cc",
            .rule = pinned_rule,
            .part = 2,
            .aside = true,
            .extent = 200},
    Grammar{
        .name = "tf.preallocation",
        .framework = either,
        .key = "fromdevice:cuda_error_out_of_memory",
        .head =
            R"(failed to allocate {requested} ?(?:\([\d,]+ ?bytes\))? from device: CUDA_ERROR_OUT_OF_MEMORY(?: : out of memory)?)",
        .example = "failed to allocate 9.38G (10071834624 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        .meaning =
            "The pool that is taken at the start did not fit, usually as another process holds part of the device; a "
            "smaller pool is tried next.",
        .printed_by = "xla/stream_executor/cuda/cuda_executor.cc",
        .rule = went_on,
        .part = 0,
        .aside = true,
        .extent = 300},
    Grammar{
        .name = "tf.preallocation_hip",
        .framework = either,
        .releases = "ROCm",
        .key = "fromdevice:hip",
        .head =
            R"(failed to allocate {requested} ?(?:\([\d,]+ ?bytes\))? from device: hip(?:_?error_?outofmemory|error_t\(\d+\))(?: : out of memory)?)",
        .example = "failed to allocate 890.06M (933298432 bytes) from device: HIP_ERROR_OutOfMemory",
        .meaning =
            "The pool that is taken at the start did not fit, usually as another process holds part of the device; a "
            "smaller pool is tried next.",
        .printed_by = "xla/stream_executor/rocm/rocm_driver.cc",
        .rule = went_on,
        .part = 0,
        .aside = true,
        .extent = 300},
    Grammar{
        .name = "tf.preallocation_status",
        .framework = either,
        .releases = "from about 2024",
        .key = "fromdevice:resource_exhausted",
        .head =
            R"(failed to allocate {requested} ?(?:\([\d,]+ ?bytes\))? from device: RESOURCE_EXHAUSTED[ :]+CUDA_ERROR_OUT_OF_MEMORY(?: : out of memory)?)",
        .example = "failed to allocate 15.02GiB (16128147456 bytes) from device: RESOURCE_EXHAUSTED: : "
                   "CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        .meaning =
            "The pool that is taken at the start did not fit, usually as another process holds part of the device; "
            "a smaller pool is tried next.",
        .printed_by = "xla/stream_executor/cuda/cuda_executor.cc",
        .rule = went_on,
        .part = 0,
        .aside = true,
        .extent = 300},
    Grammar{
        .name = "tf.ran_out",
        .framework = either,
        .key = "ranoutofmemorytryingtoallocate",
        .head = R"((?:Allocator \({allocator:[\w.:]+}\) )?ran out of memory trying to allocate {requested})",
        .example =
            "Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.50GiB (rounded to 1610612736)requested by op "
            "MatMul",
        .meaning = "The statistics below it in the log say whether the arena was full or in pieces.",
        .printed_by = bfc_source,
        .clauses = {R"(rounded to {needed#})"},
        .rule = bfc_rule,
        .part = 2,
        .extent = 300},
    Grammar{
        .name = "tf.stats",
        .framework = either,
        .key = "maxinuse:",
        .head = R"(Limit: {capacity} InUse: {live})",
        .example =
            "Stats: Limit: 2118451200 InUse: 3846144 MaxInUse: 1317554688 NumAllocs: 119350 MaxAllocSize: 1212416000",
        .meaning = "The state of the arena at the failure. Limit minus InUse was free in it, perhaps in pieces.",
        .printed_by = bfc_source,
        .rule = bfc_rule,
        .part = 3,
        .extent = 300},
    Grammar{.name = "tf.tensor",
            .framework = tensorflow,
            .key = "oomwhenallocatingtensorwithshape",
            .head = R"(OOM when allocating tensor with shape ?\[{shape:[\d,]+}\](?: and type {type:\w+})?)",
            .example = "OOM when allocating tensor with shape[64,256,112,112] and type float on "
                       "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
            .meaning = "The size of the tensor follows from its shape; what the arena held is in the dump above it.",
            .printed_by = "tensorflow/core/framework/op_kernel.cc",
            .clauses = {R"(device: ?{device_kind:[A-Z]+} ?:)"},
            .rule = bfc_rule,
            .part = 4,
            .extent = 300},
    Grammar{.name = "tf.eager",
            .framework = tensorflow,
            .key = "failedtoallocatememory[op:",
            .head = R"(failed to allocate memory \[Op: ?\w+)",
            .example = "ResourceExhaustedError: failed to allocate memory [Op:AddV2]",
            .meaning = "A tensor of that operation did not fit; the dump above it in the log says what the arena held.",
            .printed_by = "tensorflow/core/common_runtime/eager",
            .rule = bfc_rule,
            .part = 4,
            .extent = 100},
    Grammar{
        .name = "tf.program",
        .framework = tensorflow,
        .key = "outofmemorywhiletryingtoallocate",
        .head =
            R"((?:OP_REQUIRES failed[^\n]{0,200}|ResourceExhaustedError: Graph execution error.{0,900}?)Out of memory while trying to allocate {requested})",
        .example = "OP_REQUIRES failed at xla_ops.cc:580 : RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
                   "7247757312 bytes.",
        .meaning = "A buffer of a function that TensorFlow compiled with XLA.",
        .printed_by = "tensorflow/core/framework/op_kernel.cc",
        .rule = program_rule,
        .part = 4,
        .extent = 1200},
    Grammar{.name = "xla.while_trying",
            .framework = jax,
            .key = "outofmemorywhiletryingtoallocate",
            .head = R"(Out of memory while trying to allocate {requested})",
            .example = "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 bytes.",
            .meaning = "A buffer of a compiled program. The statistics below it say what the whole program needs.",
            .printed_by = "xla/service/gpu/buffer_allocations.cc",
            .rule = program_rule,
            .part = 4,
            .extent = 200},
    Grammar{.name = "xla.allocating",
            .framework = jax,
            .key = "resource_exhausted:outofmemoryallocating",
            .head = R"(RESOURCE_EXHAUSTED: Out of memory allocating {requested})",
            .example = "RESOURCE_EXHAUSTED: Out of memory allocating 1073741824 bytes.",
            .meaning = "An array did not fit into the pool, 75 % of the device by default.",
            .printed_by = "xla/pjrt/gpu/se_gpu_pjrt_client.cc",
            .rule = program_rule,
            .part = 4,
            .extent = 200},
    Grammar{.name = "xla.failed_to_allocate",
            .framework = jax,
            .key = "resource_exhausted:failedtoallocate",
            .head = R"(RESOURCE_EXHAUSTED: Failed to allocate (?:request for )?{requested})",
            .example = "RESOURCE_EXHAUSTED: Failed to allocate request for 1.00GiB (1073741824B) on device ordinal 0",
            .meaning = "An array did not fit into the pool, 75 % of the device by default.",
            .printed_by = "xla/stream_executor/tf_allocator_adapter.cc",
            .clauses = {R"(device ordinal {device#})"},
            .rule = program_rule,
            .part = 4,
            .extent = 200},
    Grammar{
        .name = "xla.resource_exhausted",
        .framework = jax,
        .releases = "until 2021",
        .key = "resourceexhausted:",
        .head = R"(Resource exhausted: (?:Failed to allocate (?:request for )?|Out of memory allocating ){requested})",
        .example = "RuntimeError: Resource exhausted: Failed to allocate request for 32.00MiB (33554432B) on device "
                   "ordinal 0",
        .meaning = "An array did not fit into the pool, 90 % of the device by default.",
        .printed_by = "tensorflow/compiler/xla/pjrt",
        .clauses = {R"(device ordinal {device#})"},
        .rule = program_rule,
        .part = 4,
        .extent = 200},
    Grammar{
        .name = "xla.attempting",
        .framework = jax,
        .releases = "TPU and GPU",
        .key = "thatwasnotpossible",
        .head =
            R"(Attempting to (?:allocate|reserve) {requested}[^.]{0,60}(?:\.\d[^.]{0,60})?\. That was not possible\.)",
        .example =
            "RESOURCE_EXHAUSTED: Attempting to reserve 7.51G at the bottom of memory. That was not possible. There are "
            "5.33G free, 0B reserved, and 5.33G reservable.",
        .meaning = "What is free on the accelerator is less than the request.",
        .printed_by = "libtpu",
        .clauses = {R"(There are {free} free)"},
        .rule = program_rule,
        .part = 4,
        .extent = 400},
    Grammar{
        .name = "xla.hbm",
        .framework = jax,
        .releases = "TPU",
        .key = "ranoutofmemoryinmemoryspace",
        .head = R"(Ran out of memory in memory space {space:\w+})",
        .example = "Ran out of memory in memory space hbm. Used 20.87G of 15.48G hbm. Exceeded hbm capacity by 5.39G.",
        .meaning = "The compiled program itself needs more than the accelerator has; vmem and smem are memory on the "
                   "chip, not the device's.",
        .printed_by = "libtpu",
        .clauses = {R"(Used {reserved} of {capacity})", R"(Scoped allocation with size {requested} and limit {limit})"},
        .rule = program_rule,
        .part = 4,
        .extent = 400},
    Grammar{.name = "xla.buffers",
            .framework = jax,
            .key = "totalallocation:",
            .head = R"(total allocation: {reserved})",
            .example = "BufferAssignment stats: parameter allocation: 372.76MiB ... total allocation: 14.44GiB",
            .meaning =
                "What the compiled program needs in all: no allocator setting changes it. If that is less than the "
                "device has, look for what else holds the device or the pool.",
            .printed_by = "xla/service/buffer_assignment.cc",
            .rule = program_rule,
            .part = 5,
            .extent = 200},
};

}  // namespace

std::span<const Grammar> xla_texts() { return texts_of_xla; }

}  // namespace memreel::explain
