// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/owner_names.h"

#include <array>

#include "formats/model/stack_text.h"
#include "formats/model/trace.h"

namespace memreel {

std::string library_name(std::string_view label) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 14> known{
      {{"nccl", "NCCL"},
       {"cublas", "cuBLAS"},
       {"cudnn", "cuDNN"},
       {"cufft", "cuFFT"},
       {"cusparse", "cuSPARSE"},
       {"cusolver", "cuSOLVER"},
       {"nvshmem", "NVSHMEM"},
       {"torch", "PyTorch"},
       {"xla_", xla_pool},  // plugins
       {"jax_common", xla_pool},
       {"pjrt_", xla_pool},
       {"tensorflow", tensorflow_pool},
       {"_pywrap_tensorflow", tensorflow_pool},
       {"_xla", xla_pool}}};
  label = label.substr(0, label.find(", communicator"));
  std::string_view stem = label;
  if (stem.starts_with("lib")) stem.remove_prefix(3);
  for (const auto& [prefix, name] : known)
    if (stem.starts_with(prefix)) return std::string(name);
  return std::string(label);
}

namespace {

/// The owner of the pool that a profile calls GPU_0_bfc, for JAX as for TensorFlow.
std::string_view bfc_owner(const Tables& tables) {
  std::string_view owner = xla_pool;
  for (const Module& module : tables.modules) {
    const std::string_view path = tables[module.path];
    const std::string name = library_name(base_name(path));
    if (name == xla_pool) return xla_pool;
    if (name == tensorflow_pool) owner = tensorflow_pool;
  }
  return owner;
}

}  // namespace

std::string heap_name(const Tables& tables, HeapId heap) {
  const std::string& name = tables[tables[heap].name];
  if (name.ends_with("_bfc") && tables[heap].device >= 0) return std::string(bfc_owner(tables));
  return is_torch_name(name) ? "PyTorch" : name;
}

}  // namespace memreel
