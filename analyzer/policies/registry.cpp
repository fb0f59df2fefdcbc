#include "analyzer/policies/registry.h"

#include <string>
#include <utility>
#include <vector>

#include "analyzer/policies/bound_live.h"
#include "analyzer/policies/bound_pages.h"
#include "analyzer/policies/cuda_malloc.h"
#include "analyzer/policies/fit_best.h"
#include "analyzer/policies/fit_first.h"
#include "analyzer/policies/fit_next.h"
#include "analyzer/policies/parameters.h"
#include "analyzer/policies/torch_native.h"

namespace memreel {
namespace {

const std::vector<PolicyEntry>& entries() {
  static const std::vector<PolicyEntry> all{bound_live_entry(),   bound_pages_entry(),      cuda_malloc_entry(),
                                            torch_native_entry(), torch_expandable_entry(), torch_entry(),
                                            fit_first_entry(),    fit_best_entry(),         fit_next_entry()};
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
  const PolicyEntry* entry = find_policy(spec.name);
  if (!entry) {
    std::string names;
    for (const PolicyEntry& known : entries()) names += (names.empty() ? "" : ", ") + std::string(known.info.name);
    return Error{.what = "there is no policy '" + spec.name + "'", .remedy = "known are: " + names};
  }
  const auto given = entry->normalize ? entry->normalize(spec) : Result<PolicySpec>(spec);
  if (!given) return given.error();
  const auto complete = with_defaults(*given, entry->info.defaults);
  if (!complete) return complete.error();
  return entry->bind(*complete);
}

}  // namespace memreel
