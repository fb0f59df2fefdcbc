// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/category/frame_rules.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "formats/model/frame_kind.h"

namespace memreel {
namespace {

/// Separates a stack of the backward pass from that of the corresponding forward operator
/// (collector/trace/trace_builder.h).
constexpr std::string_view backward_frame = "[backward of]";

/// Matches at a path boundary: "torch/optim/" is not in "mytorch/optim/".
bool has_folder(std::string_view path, std::string_view folder) {
  for (std::size_t at = path.find(folder); at != std::string_view::npos; at = path.find(folder, at + 1))
    if (at == 0 || path[at - 1] == '/') return true;
  return false;
}

/// The properties of a frame, independent of its callers.
struct FrameMeaning {
  const FrameRule* rule = nullptr;
  FrameKind kind = FrameKind::unknown;
  bool starts_python = false;
  bool backward_of = false;
  bool preexisting = false;
  bool shows_backward = false;  // in a program without such frames, autograd's engine calls nothing
};

std::vector<FrameMeaning> frame_meanings(const Tables& tables, std::span<const FrameRule* const> rules) {
  std::vector<FrameMeaning> meanings;
  meanings.reserve(tables.frames.size());
  for (std::uint32_t f = 0; f < tables.frames.size(); ++f) {
    const FrameText frame = frame_text(tables, FrameId{f});
    meanings.push_back({.rule = rules[f],
                        .kind = frame.kind,
                        .starts_python = starts_python(frame),
                        .backward_of = frame.function == backward_frame,
                        .preexisting = frame.function == preexisting_frame,
                        .shows_backward = frame.function == backward_frame ||
                                          has_folder(frame.file, "torch/autograd/") ||
                                          has_folder(frame.file, "torch/utils/checkpoint.py") ||
                                          (rules[f] != nullptr && rules[f]->phase == Phase::backward)});
  }
  return meanings;
}

void apply(const FrameRule& rule, const Frame& frame, StackMeaning& meaning) {
  if (rule.phase != Phase::other) meaning.phase = rule.phase;
  if (rule.purpose == Purpose::none || rule.purpose == Purpose::wrapper) return;
  if (rule.purpose == Purpose::closure) {
    if (meaning.purpose != Purpose::optimizer) return;
    meaning.purpose = Purpose::none;
    meaning.phase = Phase::forward;
    return;
  }
  meaning.purpose = rule.purpose;
  if (rule.purpose == Purpose::compute) meaning.in_module = true;
  meaning.line = frame.line;
}

/// The frame called by nn.Module's machinery is the module's own; wrapper frames and the interpreter's come between.
void enter(const FrameMeaning& frame, StackId stack, StackMeaning& meaning) {
  if (frame.kind != FrameKind::python) return;
  const Purpose purpose = frame.rule == nullptr ? Purpose::none : frame.rule->purpose;
  if (purpose == Purpose::wrapper) return;
  if (meaning.enters_module && purpose != Purpose::compute) meaning.layer = stack;
  meaning.enters_module = purpose == Purpose::compute;
}

}  // namespace

std::vector<StackMeaning> stack_meanings(const Tables& tables, std::span<const FrameRule* const> rules) {
  const std::vector<FrameMeaning> frames = frame_meanings(tables, rules);
  // Servers and greenlets, too, enter Python from native code.
  const bool has_backward = std::ranges::any_of(frames, &FrameMeaning::shows_backward);
  std::vector<StackMeaning> meanings(tables.stacks.size());
  for (std::uint32_t s = 1; s < tables.stacks.size(); ++s) {
    const Stack& stack = tables.stacks[s];
    const FrameMeaning& frame = frames[index(stack.frame)];
    StackMeaning meaning = meanings[index(stack.caller)];  // callers come first
    if (frame.backward_of) {
      // What follows is the operator's stack, not a caller's.
      meaning = {.phase = Phase::backward, .by_engine = true, .layer = meaning.layer, .call = meaning.call};
    } else {
      const bool python = frame.kind == FrameKind::python;
      if (python && !meaning.has_python)
        meaning.by_engine = meaning.by_engine || (has_backward && !frame.starts_python);
      meaning.has_python = meaning.has_python || python;
      meaning.has_operator = meaning.has_operator || names_operator(frame.kind);
      meaning.preexisting = meaning.preexisting || frame.preexisting;
      enter(frame, StackId{s}, meaning);
      if (tables[stack.frame].instance != StringId::none) meaning.call = StackId{s};
      if (frame.rule != nullptr) apply(*frame.rule, tables[stack.frame], meaning);
    }
    meaning.has_frames = true;
    meanings[s] = meaning;
  }
  return meanings;
}

namespace {

// The first rule that matches a frame counts; in a stack, the innermost frame that has one.
constexpr auto frame_rules = [] {
  using P = Phase;
  using enum Purpose;
  return std::array{
      // Modules.
      FrameRule{"torch/nn/modules/module.py", "_call_impl|_wrapped_call_impl|_slow_forward|inner|__call__", P::forward,
                compute, "every call of a module goes through here"},
      FrameRule{"torch/nn/modules/module.py", "_apply", P::other, move_module, ".to(), .cuda(), .half() of a module"},
      FrameRule{"torch/nn/modules/module.py", "zero_grad", P::optimizer, zero_grad, "frees gradients"},
      FrameRule{"torch/nn/modules/module.py", "load_state_dict|_load_from_state_dict", P::other, weights,
                "weights of a checkpoint"},
      FrameRule{"torch/nn/modules/transformer.py", "_get_clones", P::other, weights,
                "layers are deep copies of the first"},
      FrameRule{"torch/nn/modules/batchnorm.py", "__init__", P::other, norm, "a batch norm made on the device"},
      FrameRule{"torch/nn/modules/", "__init__|reset_parameters|_reset_parameters", P::other, weights,
                "a module made on the device"},
      FrameRule{"torch/nn/parameter.py", "__deepcopy__", P::other, copy, "a parameter is copied with its module"},
      FrameRule{"torch/nn/parameter.py", "__new__|materialize", P::other, weights, "a parameter is made"},
      FrameRule{"torch/_tensor.py", "__deepcopy__", P::other, copy, "a buffer is copied with its module"},
      FrameRule{"torch/nn/utils/clip_grad.py", "", P::optimizer, none, "runs between the backward pass and the step"},
      FrameRule{"torch/nn/functional.py", "", P::forward, none, "operators of a forward pass, the loss among them"},
      FrameRule{"transformers/loss/", "", P::forward, none, "the loss of a model"},

      // Frames that only forward a call.
      FrameRule{"functools.py", "", P::other, wrapper, "partial functions, dispatch by type"},
      FrameRule{"torch/_functorch/", "", P::other, wrapper, "runs the functions that torch.compile made"},
      FrameRule{"torch/_inductor/", "", P::other, wrapper, "runs the functions that torch.compile made"},
      FrameRule{"torch/fx/", "", P::other, wrapper, "runs a graph"},
      FrameRule{"torch/_ops.py", "", P::other, wrapper, "calls an operator"},
      FrameRule{"torch/overrides.py", "", P::other, wrapper, "operators of subclasses of Tensor"},
      FrameRule{"torch/utils/_device.py", "", P::other, wrapper, "operators under a default device"},
      FrameRule{"torch/amp/autocast_mode.py", "decorate_autocast|decorate_fwd|decorate_bwd", P::other, wrapper,
                "decorators of mixed precision"},
      FrameRule{"torch/autograd/function.py", "apply", P::other, wrapper, "calls an autograd.Function"},
      FrameRule{"torch/nn/parallel/data_parallel.py", "", P::other, wrapper, "calls the replicas of a module"},
      FrameRule{"torch_geometric/nn/data_parallel.py", "scatter", P::other, scattered,
                "lists of graphs go to the devices"},
      FrameRule{"torch_geometric/nn/data_parallel.py", "", P::other, wrapper, "calls the replicas of a module"},
      FrameRule{"torch/nn/parallel/parallel_apply.py", "", P::other, wrapper, "calls the replicas of a module"},
      FrameRule{"torch/nn/parallel/distributed.py", "forward|_run_ddp_forward", P::other, wrapper,
                "calls the wrapped module"},
      FrameRule{"torch/distributed/fsdp/fully_sharded_data_parallel.py", "forward", P::other, wrapper,
                "calls the wrapped module"},
      FrameRule{"torch/distributed/algorithms/_checkpoint/checkpoint_wrapper.py", "forward", P::other, wrapper,
                "calls the wrapped module"},
      FrameRule{"torch/utils/checkpoint.py", "wrapper|checkpoint|forward", P::other, wrapper,
                "calls a checkpointed function"},
      FrameRule{"accelerate/hooks.py", "new_forward", P::other, wrapper, "device_map and offloading wrap each module"},
      FrameRule{"accelerate/utils/operations.py", "forward|__call__", P::other, wrapper,
                "mixed precision wraps the model"},
      FrameRule{"accelerate/utils/memory.py", "decorator", P::other, wrapper, "find_executable_batch_size"},
      FrameRule{"diffusers/utils/accelerate_utils.py", "", P::other, wrapper, "hooks of accelerate"},
      FrameRule{"peft/peft_model.py", "forward", P::other, wrapper, "calls the adapted model"},
      FrameRule{"peft/tuners/tuners_utils.py", "forward", P::other, wrapper, "calls the adapted model"},
      FrameRule{"", "closure", P::other, closure, "torch.optim calls it in a step; Lightning's does all of a step"},
      FrameRule{"lightning/pytorch/", "", P::other, wrapper, "calls the user's LightningModule"},
      FrameRule{"pytorch_lightning/", "", P::other, wrapper, "the same before 2.0"},
      FrameRule{"lightning/fabric/", "", P::other, wrapper, "calls the user's module"},
      FrameRule{"transformers/modeling_layers.py", "__call__", P::other, wrapper, "checkpoints a layer or calls it"},
      FrameRule{"deepspeed/utils/nvtx.py", "", P::other, wrapper, "names ranges"},
      FrameRule{"deepspeed/runtime/engine.py", "forward", P::other, wrapper, "calls the wrapped module"},
      FrameRule{"transformers/utils/", "wrapper", P::other, wrapper, "decorators of models"},
      FrameRule{"torch/_dynamo/", "", P::other, wrapper, "runs compiled code, or falls back to the original"},
      FrameRule{"torch/_compile.py", "", P::other, wrapper, "runs code that is not compiled"},
      FrameRule{"torch/utils/_contextlib.py", "", P::other, wrapper, "decorators such as no_grad"},
      FrameRule{"contextlib.py", "", P::other, wrapper, "decorators that are context managers"},

      // The backward pass, as far as Python sees it.
      FrameRule{"torch/_tensor.py", "backward", P::backward, none, "Tensor.backward"},
      FrameRule{"torch/autograd/graph.py", "_engine_run_backward", P::backward, none, "autograd's engine runs"},
      FrameRule{"torch/autograd/__init__.py", "backward|grad|_make_grads", P::backward, none,
                "torch.autograd.backward"},
      FrameRule{"", "*torch::autograd::Engine::", P::backward, none, "a thread of autograd's engine"},
      FrameRule{"", "*torch::autograd::PyNode::apply", P::backward, none, "autograd's engine calls Python"},

      // Optimizers.
      FrameRule{"torch/optim/swa_utils.py", "__init__", P::other, copy, "a moving average copies the model"},
      FrameRule{"torch/optim/swa_utils.py", "", P::other, none, "updates a moving average in place"},
      FrameRule{"torch/optim/lr_scheduler.py", "", P::other, none, "schedules, no memory"},
      FrameRule{"torch/optim/", "zero_grad", P::optimizer, zero_grad, "frees gradients"},
      FrameRule{"torch/optim/", "", P::optimizer, optimizer, "every optimizer's step goes through here"},
      FrameRule{"torch/amp/grad_scaler.py", "_lazy_init_scale_growth_tracker", P::other, optimizer_state,
                "the scale is kept for the whole run"},
      FrameRule{"torch/cuda/amp/grad_scaler.py", "_lazy_init_scale_growth_tracker", P::other, optimizer_state,
                "the same before 2.3"},
      FrameRule{"torch/amp/grad_scaler.py", "scale|apply_scale", P::forward, none, "scales the loss"},
      FrameRule{"torch/cuda/amp/grad_scaler.py", "scale|apply_scale", P::forward, none, "the same before 2.3"},
      FrameRule{"torch/amp/grad_scaler.py", "", P::optimizer, none, "unscales and steps"},
      FrameRule{"torch/cuda/amp/grad_scaler.py", "", P::optimizer, none, "the same before 2.3"},
      FrameRule{"apex/optimizers/", "", P::optimizer, optimizer, "optimizers of apex"},
      FrameRule{"bitsandbytes/optim/", "", P::optimizer, optimizer, "optimizers of bitsandbytes"},
      FrameRule{"torchao/optim/", "", P::optimizer, optimizer, "optimizers of torchao"},
      FrameRule{"deepspeed/ops/", "step", P::optimizer, optimizer, "optimizers of DeepSpeed"},
      FrameRule{"megatron/core/optimizer/", "", P::optimizer, optimizer, "optimizers of Megatron"},

      // Distributed training.
      FrameRule{"torch/nn/parallel/comm.py", "broadcast_coalesced", P::other, gathered,
                "DataParallel copies a module to other devices"},
      FrameRule{"torch/nn/parallel/replicate.py", "", P::other, gathered,
                "DataParallel copies a module to other devices"},
      FrameRule{"torch/nn/parallel/distributed.py", "_ddp_init_helper|_build_params_for_reducer|_pre_forward", P::other,
                collective, "buckets of DistributedDataParallel"},
      FrameRule{"*_fsdp_collectives.py", "foreach_reduce|foreach_all_gather|*reduce_scatter|*all_gather", P::other,
                collective, "buffers of FSDP's collectives"},
      FrameRule{"*_fsdp_param.py",
                "init_all_gather_outputs|alloc_all_gather_outputs|init_unsharded_param|alloc_storage", P::other,
                gathered, "a module's parameters, gathered"},
      FrameRule{"*_fsdp_param.py", "*init_sharded", P::other, weights, "the shard of a parameter"},
      FrameRule{"torch/distributed/fsdp/_flat_param.py", "*unshard", P::other, gathered, "a flat parameter, gathered"},
      FrameRule{"torch/distributed/fsdp/_flat_param.py", "*flatten|*init|shard", P::other, weights, "a flat parameter"},
      FrameRule{"torch/distributed/fsdp/", "_reduce_grad|_post_backward_hook|*reduce_scatter", P::other, collective,
                "gradients are reduced to shards"},
      FrameRule{"torch/distributed/distributed_c10d.py", "", P::other, collective, "a collective"},
      FrameRule{"torch/distributed/utils.py", "_sync_params_and_buffers|_verify_param_shape_across_processes", P::other,
                collective, "DistributedDataParallel compares and spreads parameters"},
      FrameRule{"torch/distributed/_functional_collectives.py", "", P::other, collective, "a collective"},
      FrameRule{"megatron/core/distributed/param_and_grad_buffer.py", "", P::other, gradient_buffer,
                "gradients in one buffer"},
      FrameRule{"deepspeed/runtime/zero/", "*ipg|*bucket|*reduce", P::other, collective, "buckets of ZeRO"},
      FrameRule{"deepspeed/runtime/zero/", "*all_gather|*allgather", P::other, gathered, "parameters, gathered"},
      FrameRule{"deepspeed/runtime/zero/", "*fp32_partitions|_partition_param", P::other, weights,
                "shards of parameters"},
      FrameRule{"", "*nccl", P::other, collective, "NCCL"},

      // Caches of generation.
      FrameRule{"transformers/cache_utils.py", "", P::other, kv_cache, "keys and values of earlier tokens"},
      FrameRule{"*kv_cache", "", P::other, kv_cache, "keys and values of earlier tokens"},
      FrameRule{"mem_cache/memory_pool.py", "", P::other, kv_cache, "SGLang's pool of keys and values"},
      FrameRule{"", "*kv_cache", P::other, kv_cache, "the function says so"},
      FrameRule{"", "*kvcache", P::other, kv_cache, "the function says so"},

      // Weights.
      FrameRule{"transformers/modeling_utils.py", "from_pretrained|_load_pretrained_model|*_state_dict_into_meta_model",
                P::other, weights, "weights of a checkpoint"},
      FrameRule{"transformers/core_model_loading.py", "", P::other, weights, "weights of a checkpoint"},
      FrameRule{"accelerate/utils/modeling.py", "set_module_tensor_to_device", P::other, weights,
                "weights of a checkpoint"},
      FrameRule{"safetensors/", "", P::other, weights, "weights of a checkpoint"},
      FrameRule{"torch/serialization.py", "", P::other, weights, "weights of a checkpoint"},
      FrameRule{"", "create_weights", P::other, weights, "vLLM's layers"},

      // Batches.
      FrameRule{"torch/utils/data/", "", P::other, data, "a data loader"},
      FrameRule{"torch/nn/parallel/comm.py", "scatter", P::other, scattered, "DataParallel splits a batch"},
      FrameRule{"torch/nn/parallel/scatter_gather.py", "scatter|scatter_map|scatter_kwargs", P::other, scattered,
                "DataParallel splits a batch"},
      FrameRule{"accelerate/utils/operations.py", "send_to_device", P::other, data, "a batch goes to the device"},
      FrameRule{"transformers/trainer.py", "_prepare_input|_prepare_inputs", P::other, data,
                "a batch goes to the device"},
      FrameRule{"", "move_data_to_device|batch_to_device|transfer_batch_to_device", P::other, data,
                "a batch goes to the device"},

      FrameRule{"torch/cuda/graphs.py", "capture_begin|capture_end|__enter__|__exit__", P::other, capture,
                "a CUDA graph is captured"},

      // Scratch of libraries.
      FrameRule{"", "*Workspace", P::other, workspace, "scratch of cuBLAS or cuDNN"},
      FrameRule{"*libcublas", "", P::other, workspace, "cuBLAS"},
      FrameRule{"*libcudnn", "", P::other, workspace, "cuDNN"},
      FrameRule{"*libnccl", "", P::other, collective, "NCCL"},

      // Last: any other constructor.
      FrameRule{"", "__init__", P::other, constructor, "parameters and buffers are made by constructors of modules"},
  };
}();

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool fits_file(std::string_view path, std::string_view pattern) {
  if (pattern.empty()) return true;
  if (pattern.front() == '*') return contains(base_name(path), pattern.substr(1));
  if (pattern.back() == '/') return has_folder(path, pattern);
  if (!path.ends_with(pattern)) return false;
  return path.size() == pattern.size() || path[path.size() - pattern.size() - 1] == '/';
}

bool fits_function(std::string_view function, std::string_view pattern) {
  if (pattern.empty()) return true;
  while (!pattern.empty()) {
    const std::size_t end = std::min(pattern.find('|'), pattern.size());
    const std::string_view name = pattern.substr(0, end);
    if (name.front() == '*' ? contains(function, name.substr(1)) : function == name) return true;
    pattern.remove_prefix(std::min(end + 1, pattern.size()));
  }
  return false;
}

}  // namespace

const FrameRule* rule_of(const FrameText& frame) {
  static constexpr FrameRule runs_node{"", "", Phase::backward, Purpose::none, "a node of the backward graph runs"};
  if (frame.kind == FrameKind::autograd_node) return &runs_node;
  const std::string_view file = frame.file.empty() ? frame.module_path : frame.file;
  // Python's qualified names ("Module._apply") end with the plain name.
  std::string_view function = frame.function;
  if (file.ends_with(".py")) function.remove_prefix(std::min(function.rfind('.') + 1, function.size()));
  const auto* const found = std::ranges::find_if(frame_rules, [&](const FrameRule& rule) {
    return fits_function(function, rule.function) && fits_file(file, rule.file);
  });
  return found == frame_rules.end() ? nullptr : found;
}

std::vector<const FrameRule*> rules_of_frames(const Tables& tables) {
  std::map<std::tuple<StringId, StringId, ModuleId, FrameKind>, const FrameRule*> known;
  std::vector<const FrameRule*> rules;
  rules.reserve(tables.frames.size());
  for (const Frame& frame : tables.frames) {
    const auto [of, is_new] = known.try_emplace({frame.function, frame.file, frame.module, frame.kind});
    if (is_new) of->second = rule_of(frame_text(tables, FrameId{static_cast<std::uint32_t>(rules.size())}));
    rules.push_back(of->second);
  }
  return rules;
}

bool is_of_torch(const FrameText& frame) {
  return frame.kind == FrameKind::python && frame.owner == CodeOwner::library && has_folder(frame.file, "torch/");
}

std::size_t count_below_calls(std::span<const FrameText> frames) {
  const auto calls = [](const FrameText& frame) {
    return std::ranges::any_of(frame_rules, [&](const FrameRule& rule) {
      return rule.purpose == Purpose::compute && fits_file(frame.file, rule.file);
    });
  };
  std::size_t count = frames.size();
  while (count > 0 && !calls(frames[count - 1])) --count;
  return count;
}

bool calls_own_module(std::span<const FrameText> frames, std::size_t i) {
  const auto purpose = [&](std::size_t at) {
    const FrameRule* const rule = rule_of(frames[at]);
    return rule == nullptr ? Purpose::none : rule->purpose;
  };
  if (frames[i].kind != FrameKind::python || is_of_torch(frames[i]) || purpose(i) == Purpose::wrapper) return false;
  const auto comes_between = [&](std::size_t at) {
    return frames[at].kind != FrameKind::python || purpose(at) == Purpose::wrapper;
  };
  std::size_t caller = i + 1;
  while (caller < frames.size() && comes_between(caller)) ++caller;
  return caller < frames.size() && purpose(caller) == Purpose::compute;
}

bool passes_on(const FrameText& frame) {
  if (is_hidden(frame.kind)) return true;
  const FrameRule* const rule = rule_of(frame);
  return rule != nullptr && (rule->purpose == Purpose::wrapper || rule->purpose == Purpose::compute);
}

bool starts_python(const FrameText& outermost) {
  static constexpr std::array<std::string_view, 6> names{"<module>",  "_bootstrap",          "_bootstrap_inner",
                                                         "_run_code", "_run_module_as_main", "spawn_main"};
  return outermost.kind == FrameKind::python && std::ranges::find(names, outermost.function) != names.end();
}

}  // namespace memreel
