// SPDX-License-Identifier: Apache-2.0
// The category of an allocation, the phase it was made in, and the evidence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace memreel {

enum class Category : std::uint8_t {
  unknown,
  parameter,
  buffer,
  gradient,
  optimizer_state,
  activation,  // kept by a forward pass for its backward pass
  input,
  temporary,  // made and freed within one pass
  kv_cache,
  parameter_copy,  // moving average, master weights, gathered shards
  communication,   // buckets and collectives of DDP, FSDP, NCCL
  workspace,       // of cuBLAS, cuDNN
  graph_pool,      // held by the private pool of a CUDA graph, for an unknown tensor
};
inline constexpr std::size_t category_count = 13;

/// "parameter", "optimizer_state"...
std::string_view name_of(Category category);
std::optional<Category> category_by_name(std::string_view name);
/// For display: "parameters", "optimizer state"...
std::string_view words_of(Category category);

/// A part of a training step; `other` is everything between and outside of the others: setup, data loading,
/// evaluation's own code.
enum class Phase : std::uint8_t { other, forward, backward, optimizer };
inline constexpr std::size_t phase_count = 4;

std::string_view name_of(Phase phase);
std::optional<Phase> phase_by_name(std::string_view name);

/// How a category is known. Each value has one row in the table of evidence.
enum class Evidence : std::uint8_t {
  none,
  module_parameter,
  module_buffer,
  loaded_weights,
  gets_gradient,
  constructed,
  parameter_before_recording,
  held_throughout,
  norm_statistics,
  module_copy,
  sizes_of_parameters,
  copy_before_recording,
  cleared_by_zero_grad,
  gradient_of_parameter,
  survives_backward,
  gradient_before_recording,
  reduced_shard,
  bucket_is_gradient,
  gradient_buffer,
  rebound_parameter,
  optimizer_keeps,
  carried_like_parameters,
  state_before_recording,
  freed_by_backward,
  recomputed_for_backward,
  held_past_backward,
  kept_graph,
  forward_at_end,
  graph_before_recording,
  feeds_forward,
  held_until_backward,
  loads_data,
  input_before_recording,
  steps_read_it,
  freed_in_pass,
  cache_code,
  carried_between_calls,
  rest_of_serving,
  gathered_shards,
  autocast_copy,
  collective_code,
  driver_library,
  workspace_size,
  workspace_code,
  private_pool,
  profiled_parameter,
  profiled_state,
  profiled_input,
  profiled_temporary,
  profiled_activation,
  profiled_gradient,
  profiled_autograd,
};

struct EvidenceRow {
  Evidence evidence = Evidence::none;
  std::string_view name;  // stable: written to JSON
  Category category = Category::unknown;
  double confidence = 0;  // 0 to 1: how often a category based on this alone is right; an estimate, not a measurement
  std::string_view reason;
};

const EvidenceRow& row_of(Evidence evidence);
/// What a category of PyTorch's profiler is evidence for, by its name in lower case: "optimizer_state"; none for
/// others.
Evidence evidence_of_profiler(std::string_view category);
/// Whether the allocation is older than the recording and known by its size, not by code: reports say so.
bool is_known_by_size(Evidence evidence);
inline Category category_of(Evidence evidence) { return row_of(evidence).category; }

}  // namespace memreel
