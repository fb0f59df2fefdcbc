// SPDX-License-Identifier: Apache-2.0
// Texts of serving engines, whose plans fail before any allocation does.

#include <algorithm>
#include <array>
#include <cmath>

#include "analyzer/analysis/explain/failure.h"
#include "formats/model/quantity.h"

namespace memreel::explain {
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

/// TensorRT-LLM names the component that did not fit, and what the device had left for it.
void executor_rule(Failure& failure) {
  const Figures& figures = failure.figures;
  const std::string& component = failure.words["component"];
  failure.kind = Kind::engine_budget;
  failure.because = (component.empty() ? "a component" : '"' + component + '"') + " could not be created";
  if (figures[Field::free] && figures[Field::capacity])
    failure.because += " with " + in_words(*figures[Field::free]) + " free of " + in_words(*figures[Field::capacity]);
}

void warm_up_rule(Failure& failure) {
  failure.kind = Kind::engine_budget;
  failure.because = "the warm-up with " + std::to_string(failure.figures[Field::length].value_or(0)) +
                    " tokens did not fit beside the weights";
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
    Grammar{.name = "trtllm.executor",
            .framework = "TensorRT-LLM",
            .key = "executorcreationfailedduetoinsufficientgpumemory",
            .head = R"(Executor creation failed due to insufficient GPU memory)",
            .example =
                "Executor creation failed due to insufficient GPU memory.\n\nThe following component could not be "
                "created: KV cache\nTotal GPU memory (GiB): 140.06\nFree GPU memory before component creation "
                "attempt (GiB): 108.86",
            .meaning = "The named component did not fit into what the earlier ones left; the table below it in the log "
                       "says what each of them took.",
            .printed_by = "tensorrt_llm/_torch/pyexecutor/py_executor_creator.py",
            .clauses = {R"(could not be created: {component:[^\n]+})", R"(Total GPU memory \(GiB\): {capacity~GiB})",
                        R"(component creation attempt \(GiB\): {free~GiB})"},
            .rule = executor_rule,
            .part = 2,
            .extent = 600},
    Grammar{.name = "tgi.warm_up",
            .framework = "Text Generation Inference",
            .key = "notenoughmemorytohandle",
            .head = R"(Not enough memory to handle {length#} (?:prefill|total) tokens)",
            .example =
                "Error: Warmup(Generation(\"Not enough memory to handle 4096 prefill tokens. You need to decrease "
                "`--max-batch-prefill-tokens`\"))",
            .meaning = "The warm-up with as many tokens as one batch may have did not fit beside the weights.",
            .printed_by = "text_generation_server/models/flash_causal_lm.py",
            .rule = warm_up_rule,
            .part = 2,
            .extent = 200},
};

}  // namespace

std::span<const Grammar> engine_texts() { return texts_of_engines; }

}  // namespace memreel::explain
