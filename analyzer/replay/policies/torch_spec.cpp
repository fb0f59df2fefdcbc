// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/policies/torch_spec.h"

#include <algorithm>
#include <array>
#include <span>

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

struct TorchParameter {
  const char* name;
  const char* values;
  const char* meaning;
};

constexpr std::array<TorchParameter, 13> device_parameters{
    {{"expandable_segments", "True or False", "segments that grow in place, in pages of 2 or 20 MiB"},
     {"max_split_size_mb", "unlimited, or a number of MiB from large_segment_size_mb",
      "larger blocks are not split, and requests below do not take them"},
     {"max_non_split_rounding_mb", "a number of MiB from 20",
      "how much larger than the request a block may be that is not split"},
     {"roundup_power2_divisions", "0 or 1, a power of two, or a list such as [256:1,512:2,>:8]",
      "requests are rounded up to one of so many steps between powers of two"},
     {"garbage_collection_threshold", "0, or below 1",
      "from this share of the memory on, unused blocks are released by age; 0: off"},
     {"large_segment_size_mb", "a number of MiB above 10", "the size of a segment for requests between 1 and 10 MiB"},
     {"per_process_memory_fraction", "from 0 to 1",
      "the share of `--capacity` that may be reserved: torch.cuda.set_per_process_memory_fraction"},
     {"expandable_segments_reserve", "full, a share such as 0.5, or GiB such as 40G",
      "addresses of an expandable segment (2.15); full: 9/8 of the memory"},
     {"expandable_segments_reserve_by_class", "none, or classes such as [weights:0.5,serving:40G]",
      "the same for streams of a class (2.15)"},
     {"reserve_class_of_stream", "none, or handles such as [0x7f00:serving]",
      "the class of each stream, which snapshots do not record"},
     {"search_after_release", "True or False",
      "the free blocks are searched again before a request fails (pytorch#191302, in no release)"},
     {"expandable_ignores_oversize", "True or False",
      "max_split_size_mb does not apply to expandable segments (pytorch#193400, in no release)"},
     {"release", "a release such as 2.11", "whose rules to use"}}};

constexpr std::array<TorchParameter, 3> host_parameters{
    {{TorchHostSettings::threshold_key, "unlimited, or a number of MiB",
      "requests up to this size are rounded up to a power of two"},
     {TorchHostSettings::cached_key, "unlimited, or a number of MiB", "larger blocks are not kept when they are freed"},
     {TorchHostSettings::reserve_key, "a number of MiB, 0 for none",
      "a segment that is taken at first and never given back"}}};

std::vector<Parameter> with_defaults(std::span<const TorchParameter> rows,
                                     const std::map<std::string, std::string>& defaults) {
  std::vector<Parameter> parameters;
  for (const TorchParameter& row : rows)
    parameters.push_back({row.name, defaults.at(row.name), AllowedValues::checked(row.values), row.meaning});
  return parameters;
}

}  // namespace

std::vector<Parameter> parameters_of(const TorchSettings& settings) {
  return with_defaults(device_parameters, settings.parameters());
}

std::vector<Parameter> parameters_of(const TorchHostSettings& settings) {
  return with_defaults(host_parameters, settings.parameters());
}

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
