// SPDX-License-Identifier: Apache-2.0
#include "analyzer/policies/torch_spec.h"

#include <algorithm>

#include "formats/torch/alloc_conf.h"

namespace memreel {
namespace {

bool is_neutral(const std::string& key) {
  return conf_key(key) != nullptr && !TorchSettings{}.parameters().contains(key) && key != "backend";
}

/// The parameters of PyTorch's as PyTorch would read them; the others as they are.
Result<PolicySpec> as_pytorch_reads(const PolicySpec& spec) {
  PolicySpec read{.name = "torch.native", .parameters = {}};
  std::string conf;
  for (const auto& [key, value] : spec.parameters) {
    if (TorchSettings::is_own_key(key))
      read.parameters.emplace(key, value);
    else
      conf += (conf.empty() ? "" : ",") + key + ":" + value;
  }
  const auto named = spec.parameters.find(std::string(TorchSettings::release_key));
  const auto release = named == spec.parameters.end() ? std::nullopt : TorchRelease::parse(named->second);
  const auto given = read_alloc_conf(conf, release.value_or(TorchRelease{}));
  if (!given) return Error{.what = "policy " + spec.name + ": " + given.error().what, .remedy = given.error().remedy};
  for (auto& [key, value] : given->device.parameters())
    if (spec.parameters.contains(key)) read.parameters.emplace(key, value);
  return read;
}

}  // namespace

PolicySpec spec_of(const TorchSettings& settings) {
  return {.name = "torch.native", .parameters = settings.parameters()};
}

PolicySpec spec_of(const TorchHostSettings& settings) {
  return {.name = std::string(TorchHostSettings::policy), .parameters = settings.parameters()};
}

Result<PolicySpec> without_neutral_keys(const PolicySpec& spec) {
  PolicySpec rest = spec;
  if (spec.name == "torch") {
    auto read = as_pytorch_reads(spec);
    if (!read) return read;
    rest = *std::move(read);
  }
  if (const auto backend = rest.parameters.find("backend"); backend != rest.parameters.end()) {
    if (auto known = read_alloc_conf("backend:" + backend->second); !known)
      return Error{.what = "policy " + spec.name + ": " + known.error().what};
    rest.parameters.erase(backend);
  }
  std::erase_if(rest.parameters, [](const auto& parameter) { return is_neutral(parameter.first); });
  // Unless set, it equals the segment size.
  if (const auto segment = rest.parameters.find("large_segment_size_mb"); segment != rest.parameters.end())
    rest.parameters.try_emplace("max_non_split_rounding_mb", segment->second);
  return rest;
}

}  // namespace memreel
