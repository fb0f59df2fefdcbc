// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/registry.h"

#include "analyzer/replay/engine/parameters.h"
#include "analyzer/replay/plan/planned.h"
#include "analyzer/replay/policies/bfc.h"
#include "analyzer/replay/policies/bounds.h"
#include "analyzer/replay/policies/buddy.h"
#include "analyzer/replay/policies/cuda_async.h"
#include "analyzer/replay/policies/cuda_malloc.h"
#include "analyzer/replay/policies/cupy_pool.h"
#include "analyzer/replay/policies/fit.h"
#include "analyzer/replay/policies/gmlake.h"
#include "analyzer/replay/policies/own_policy.h"
#include "analyzer/replay/policies/pool_exact.h"
#include "analyzer/replay/policies/rmm_arena.h"
#include "analyzer/replay/policies/rmm_binning.h"
#include "analyzer/replay/policies/rmm_pool.h"
#include "analyzer/replay/policies/slab.h"
#include "analyzer/replay/policies/tlsf.h"
#include "analyzer/replay/policies/torch_host.h"
#include "analyzer/replay/policies/torch_native.h"
#include "analyzer/replay/policies/vpmm.h"

namespace memreel {
namespace {

const std::vector<PolicyEntry>& entries() {
  static const std::vector<PolicyEntry> all{bound_live_entry(),  bound_pages_entry(),  cuda_malloc_entry(),
                                            cuda_async_entry(),  torch_native_entry(), torch_expandable_entry(),
                                            torch_entry(),       torch_host_entry(),   tf_bfc_entry(),
                                            tf_growth_entry(),   jax_default_entry(),  jax_growth_entry(),
                                            ort_arena_entry(),   rmm_pool_entry(),     rmm_arena_entry(),
                                            rmm_binning_entry(), cupy_pool_entry(),    pool_exact_entry(),
                                            fit_first_entry(),   fit_best_entry(),     fit_next_entry(),
                                            buddy_entry(),       tlsf_entry(),         slab_entry(),
                                            gmlake_entry(),      vpmm_entry(),         plan_size_entry(),
                                            plan_best_entry()};
  return all;
}

}  // namespace

std::span<const PolicyInfo> policies() {
  static const std::vector<PolicyInfo> infos = [] {
    std::vector<PolicyInfo> list;
    for (const PolicyEntry& entry : entries()) list.push_back(entry.info);
    return list;
  }();
  return infos;
}

const PolicyEntry* find_policy(std::string_view name) {
  for (const PolicyEntry& entry : entries())
    if (entry.info.name == name) return &entry;
  return nullptr;
}

Result<BoundPolicy> bind_policy(const PolicySpec& spec) {
  if (is_own_policy(spec.name)) return bind_own_policy(spec);
  const PolicyEntry* entry = find_policy(spec.name);
  if (!entry) {
    std::string names;
    for (const PolicyEntry& known : entries()) names += (names.empty() ? "" : ", ") + std::string(known.info.name);
    return Error{.what = "unknown policy '" + spec.name + "'",
                 .remedy = "available: " + names + ", and ./FILE.so for one of your own"};
  }
  const auto given = entry->normalize ? entry->normalize(spec) : Result<PolicySpec>(spec);
  if (!given) return given.error();
  const auto complete = completed(*given, entry->info.parameters);
  if (!complete) return complete.error();
  return entry->bind(*complete);
}

bool loads_library(const PolicySpec& spec) { return is_own_policy(spec.name); }

}  // namespace memreel
