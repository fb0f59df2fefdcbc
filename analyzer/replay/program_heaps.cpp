// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/program_heaps.h"

#include <algorithm>

#include "analyzer/replay/policies/torch_host.h"
#include "analyzer/replay/policies/torch_spec.h"
#include "analyzer/replay/prepare.h"
#include "analyzer/replay/replay.h"
#include "analyzer/replay/torch_rules.h"
#include "analyzer/replay/verify.h"

namespace memreel {
namespace {

/// `heaps` without the unwanted ones, unless all are unwanted.
template <class Wanted>
std::vector<Prepared> preferring(std::vector<Prepared> heaps, Wanted wanted) {
  if (std::ranges::any_of(heaps, wanted)) std::erase_if(heaps, [&](const Prepared& heap) { return !wanted(heap); });
  return heaps;
}

}  // namespace

std::vector<Prepared> only_requests(std::vector<Prepared> heaps) {
  heaps = preferring(std::move(heaps), [](const Prepared& heap) { return heap.level == Level::framework; });
  return preferring(std::move(heaps), [](const Prepared& heap) { return !is_pinned_memory(heap); });
}

bool is_pinned_memory(const Prepared& heap) {
  const auto kind = heap.settings.find("kind");
  return kind != heap.settings.end() && kind->second == TorchHostSettings::policy;
}

std::vector<Prepared> only_pinned_memory(std::vector<Prepared> heaps) {
  std::erase_if(heaps, [](const Prepared& heap) { return !is_pinned_memory(heap); });
  return heaps;
}

std::vector<Prepared> program_heaps(const Trace& trace) {
  return preferring(only_requests(prepare(trace)), [&](const Prepared& heap) { return is_torch(trace, heap); });
}

std::vector<Prepared> program_heaps(const Trace& trace, const std::string& name) {
  if (name.empty()) return program_heaps(trace);
  std::vector<Prepared> heaps = prepare(trace);
  std::erase_if(heaps, [&](const Prepared& heap) { return trace.tables[trace.tables[heap.heap].name] != name; });
  return heaps;
}

std::optional<PolicySpec> recorded_policy(const Trace& trace, const std::vector<Prepared>& heaps) {
  if (heaps.empty() || !is_torch(trace, heaps.front())) return std::nullopt;
  PolicySpec recorded = spec_of(TorchSettings::recorded(heaps.front().settings));
  const auto info = std::ranges::find(policies(), recorded.name, &PolicyInfo::name);
  std::erase_if(recorded.parameters, [&](const auto& parameter) {
    const auto row = std::ranges::find(info->parameters, parameter.first, &Parameter::name);
    return row != info->parameters.end() && row->initial == parameter.second;
  });
  return recorded;
}

std::optional<PolicySpec> named_policy(const Trace& trace, const std::vector<Prepared>& heaps) {
  std::optional<PolicySpec> named;
  for (const Prepared& heap : heaps) {
    std::optional<PolicySpec> of = recorded_policy(trace, heap);
    if (!of || (named && *named != *of)) return std::nullopt;
    named = std::move(of);
  }
  return named;
}

}  // namespace memreel
