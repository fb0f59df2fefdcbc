// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/category/category.h"

#include <algorithm>
#include <array>

namespace memreel {
namespace {

constexpr std::array<std::string_view, category_count> category_names{
    "unknown",   "parameter", "buffer",         "gradient",      "optimizer_state", "activation", "input",
    "temporary", "kv_cache",  "parameter_copy", "communication", "workspace",       "graph_pool"};
constexpr std::array<std::string_view, category_count> category_words{
    "unknown",     "parameters", "buffers",          "gradients",     "optimizer state", "activations", "inputs",
    "temporaries", "KV cache",   "parameter copies", "communication", "workspaces",      "graph pools"};
constexpr std::array<std::string_view, phase_count> phase_names{"other", "forward", "backward", "optimizer"};

constexpr auto evidence_rows = [] {
  using enum Evidence;
  return std::array{
      EvidenceRow{none, "none", Category::unknown, 0, "no evidence of its purpose"},
      EvidenceRow{module_parameter, "module_parameter", Category::parameter, 0.97,
                  "allocated where nn.Module._apply moves parameters"},
      EvidenceRow{module_buffer, "module_buffer", Category::buffer, 0.97,
                  "allocated where nn.Module._apply moves buffers"},
      EvidenceRow{loaded_weights, "loaded_weights", Category::parameter, 0.9,
                  "allocated by code that builds modules or loads weights, and kept"},
      EvidenceRow{gets_gradient, "gets_gradient", Category::parameter, 0.8,
                  "allocated before the first step, kept, and a gradient of its size comes back"},
      EvidenceRow{constructed, "constructed", Category::parameter, 0.5,
                  "allocated by a constructor before the first forward pass, and kept"},
      EvidenceRow{parameter_before_recording, "parameter_before_recording", Category::parameter, 0.8,
                  "older than the recording, with the size of a gradient; probably the first of that size"},
      EvidenceRow{held_throughout, "held_throughout", Category::parameter, 0.6,
                  "older than the recording and held throughout it, with sizes that repeat as those of layers do"},
      EvidenceRow{norm_statistics, "norm_statistics", Category::buffer, 0.8,
                  "allocated by the constructor of a batch norm after its parameters, and kept"},
      EvidenceRow{module_copy, "module_copy", Category::parameter_copy, 0.9, "allocated by copy.deepcopy of a module"},
      EvidenceRow{sizes_of_parameters, "sizes_of_parameters", Category::parameter_copy, 0.8,
                  "allocated together at one place and kept, with the sizes of the parameters"},
      EvidenceRow{copy_before_recording, "copy_before_recording", Category::parameter_copy, 0.5,
                  "older than the recording, with the sizes of the parameters, and one more than an optimizer keeps"},
      EvidenceRow{cleared_by_zero_grad, "cleared_by_zero_grad", Category::gradient, 0.99,
                  "allocated in the backward pass and freed by zero_grad"},
      EvidenceRow{gradient_of_parameter, "gradient_of_parameter", Category::gradient, 0.95,
                  "allocated in the backward pass, outlives it, and has the size of a parameter"},
      EvidenceRow{survives_backward, "survives_backward", Category::gradient, 0.6,
                  "allocated in the backward pass and outlives it; the parameters were allocated before the recording"},
      EvidenceRow{gradient_before_recording, "gradient_before_recording", Category::gradient, 0.8,
                  "older than the recording, with the size of a gradient, and freed as gradients are or added to"},
      EvidenceRow{reduced_shard, "reduced_shard", Category::gradient, 0.8,
                  "left to the optimizer by a collective of the backward pass"},
      EvidenceRow{bucket_is_gradient, "bucket_is_gradient", Category::gradient, 0.8,
                  "a bucket of DistributedDataParallel in a program whose gradients are views of buckets"},
      EvidenceRow{gradient_buffer, "gradient_buffer", Category::gradient, 0.9,
                  "allocated by code that lays out gradients in one buffer"},
      EvidenceRow{rebound_parameter, "rebound_parameter", Category::parameter, 0.8,
                  "takes a parameter's place in an optimizer's step, or had it until the first step"},
      EvidenceRow{optimizer_keeps, "optimizer_keeps", Category::optimizer_state, 0.97,
                  "allocated by an optimizer, and outlives its step"},
      EvidenceRow{carried_like_parameters, "carried_like_parameters", Category::optimizer_state, 0.6,
                  "allocated after a backward pass, outlives the steps, and has the size of a parameter"},
      EvidenceRow{state_before_recording, "state_before_recording", Category::optimizer_state, 0.6,
                  "older than the recording, with the sizes of the parameters; probably made after them"},
      EvidenceRow{freed_by_backward, "freed_by_backward", Category::activation, 0.95,
                  "allocated in a forward pass and freed by the backward pass"},
      EvidenceRow{recomputed_for_backward, "recomputed_for_backward", Category::activation, 0.85,
                  "allocated by a forward pass that checkpointing repeats, and freed by the backward pass"},
      EvidenceRow{held_past_backward, "held_past_backward", Category::activation, 0.6,
                  "allocated in a forward pass and held by the program beyond the backward pass"},
      EvidenceRow{kept_graph, "kept_graph", Category::activation, 0.8,
                  "allocated in a forward pass and, without a backward pass, freed at once with much of what that "
                  "pass allocated"},
      EvidenceRow{forward_at_end, "forward_at_end", Category::activation, 0.5,
                  "the recording ends in a forward pass that frees little of what it allocates"},
      EvidenceRow{graph_before_recording, "graph_before_recording", Category::activation, 0.8,
                  "older than the recording, with sizes that forward passes leave, and freed at once or by a backward "
                  "pass"},
      EvidenceRow{feeds_forward, "feeds_forward", Category::input, 0.8,
                  "allocated between steps outside any module, and live when the forward pass begins"},
      EvidenceRow{held_until_backward, "held_until_backward", Category::input, 0.8,
                  "allocated between steps outside any module, and freed by the backward pass"},
      EvidenceRow{loads_data, "loads_data", Category::input, 0.9, "allocated by code that moves batches to the device"},
      EvidenceRow{input_before_recording, "input_before_recording", Category::input, 0.8,
                  "older than the recording, and freed where the program frees inputs"},
      EvidenceRow{steps_read_it, "steps_read_it", Category::input, 0.5,
                  "allocated before the first step outside any module, and kept by a program whose steps load nothing"},
      EvidenceRow{freed_in_pass, "freed_in_pass", Category::temporary, 0.95, "allocated and freed within one pass"},
      EvidenceRow{cache_code, "cache_code", Category::kv_cache, 0.95, "allocated by code of a key-value cache"},
      EvidenceRow{carried_between_calls, "carried_between_calls", Category::kv_cache, 0.8,
                  "allocated inside one call of a model that is never trained, and replaced inside a later one"},
      EvidenceRow{rest_of_serving, "rest_of_serving", Category::kv_cache, 0.5,
                  "held outside the modules of a model that is never trained, over many calls"},
      EvidenceRow{gathered_shards, "gathered_shards", Category::parameter_copy, 0.8,
                  "allocated where FSDP gathers the parameters of a module, or DataParallel copies them"},
      EvidenceRow{autocast_copy, "autocast_copy", Category::parameter_copy, 0.9,
                  "autocast's copy of a weight in 16 bit, which no backward pass uses"},
      EvidenceRow{collective_code, "collective_code", Category::communication, 0.9,
                  "allocated by code of a collective or of its buckets"},
      EvidenceRow{driver_library, "driver_library", Category::communication, 0.9,
                  "allocated by NCCL or another collectives library"},
      EvidenceRow{workspace_size, "workspace_size", Category::workspace, 0.8,
                  "allocated once for a stream, never freed, and of a size that cuBLAS uses"},
      EvidenceRow{workspace_code, "workspace_code", Category::workspace, 0.9,
                  "allocated by cuBLAS, cuDNN or their wrappers"},
      EvidenceRow{private_pool, "private_pool", Category::graph_pool, 0.7,
                  "held in a private pool beyond the pass that allocated it"},
      EvidenceRow{profiled_parameter, "profiled_parameter", Category::parameter, 0.97,
                  "a parameter according to PyTorch's profiler"},
      EvidenceRow{profiled_state, "profiled_state", Category::optimizer_state, 0.97,
                  "optimizer state according to PyTorch's profiler"},
      EvidenceRow{profiled_input, "profiled_input", Category::input, 0.97, "an input according to PyTorch's profiler"},
      EvidenceRow{profiled_temporary, "profiled_temporary", Category::temporary, 0.97,
                  "a temporary according to PyTorch's profiler"},
      EvidenceRow{profiled_activation, "profiled_activation", Category::activation, 0.97,
                  "an activation according to PyTorch's profiler"},
      EvidenceRow{profiled_gradient, "profiled_gradient", Category::gradient, 0.97,
                  "a gradient according to PyTorch's profiler"},
      EvidenceRow{profiled_autograd, "profiled_autograd", Category::temporary, 0.8,
                  "an intermediate result of the backward pass (autograd_detail) according to PyTorch's profiler"},
  };
}();

constexpr bool in_order() {
  for (std::size_t i = 0; i < evidence_rows.size(); ++i)
    if (static_cast<std::size_t>(evidence_rows[i].evidence) != i) return false;
  return static_cast<std::size_t>(Evidence::profiled_autograd) + 1 == evidence_rows.size();
}
static_assert(in_order());

}  // namespace

std::string_view words_of(Category category) { return category_words.at(static_cast<std::size_t>(category)); }

std::string_view name_of(Category category) { return category_names[static_cast<std::size_t>(category)]; }

std::optional<Category> category_by_name(std::string_view name) {
  const auto* const found = std::ranges::find(category_names, name);
  if (found == category_names.end()) return std::nullopt;
  return static_cast<Category>(found - category_names.begin());
}

std::optional<Phase> phase_by_name(std::string_view name) {
  const auto* const found = std::ranges::find(phase_names, name);
  if (found == phase_names.end()) return std::nullopt;
  return static_cast<Phase>(found - phase_names.begin());
}

std::string_view name_of(Phase phase) { return phase_names[static_cast<std::size_t>(phase)]; }

bool is_known_by_size(Evidence evidence) {
  using enum Evidence;
  constexpr std::array by_size{parameter_before_recording, held_throughout,        copy_before_recording,
                               gradient_before_recording,  state_before_recording, graph_before_recording};
  return std::ranges::find(by_size, evidence) != by_size.end();
}

Evidence evidence_of_profiler(std::string_view category) {
  using enum Evidence;
  constexpr std::array<std::pair<std::string_view, Evidence>, 7> rows{{{"parameter", profiled_parameter},
                                                                       {"optimizer_state", profiled_state},
                                                                       {"input", profiled_input},
                                                                       {"temporary", profiled_temporary},
                                                                       {"activation", profiled_activation},
                                                                       {"gradient", profiled_gradient},
                                                                       {"autograd_detail", profiled_autograd}}};
  const auto* const found = std::ranges::find(rows, category, &std::pair<std::string_view, Evidence>::first);
  return found == rows.end() ? none : found->second;
}

const EvidenceRow& row_of(Evidence evidence) { return evidence_rows[static_cast<std::size_t>(evidence)]; }

}  // namespace memreel
