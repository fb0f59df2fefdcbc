#include "analyzer/policies/torch_conf.h"

#include <algorithm>
#include <array>
#include <vector>

#include "analyzer/policies/parameters.h"

namespace memreel {
namespace {

/// Keys that change how PyTorch calls the driver, or that concern host memory.
constexpr std::array neutral_keys{std::string_view("release_lock_on_cudamalloc"),
                                  std::string_view("graph_capture_record_stream_reuse"),
                                  std::string_view("throw_on_cudamalloc_oom")};
constexpr std::string_view host_memory_prefix = "pinned_";

bool is_neutral(std::string_view key) {
  return key.starts_with(host_memory_prefix) ||
         std::find(neutral_keys.begin(), neutral_keys.end(), key) != neutral_keys.end();
}

Result<void> check_backend(const PolicySpec& spec, const std::string& value) {
  if (value == "native") return {};
  if (value == "cudaMallocAsync")
    return Error{.what = "policy " + spec.name + ": backend:cudaMallocAsync is another allocator, CUDA's own",
                 .remedy = "use the policy cuda.async"};
  return Error{.what = "policy " + spec.name + ": unknown backend '" + value + "'",
               .remedy = "available: native, cudaMallocAsync"};
}

/// Rejects values that torch.native takes as defaults and PyTorch refuses.
Result<void> check_as_pytorch(const PolicySpec& spec) {
  const auto is = [&](const char* key, std::string_view value) {
    const auto found = spec.parameters.find(key);
    return found != spec.parameters.end() && found->second == value;
  };
  if (is("max_split_size_mb", "unlimited")) return bad_parameter(spec, "max_split_size_mb", "a number of MiB");
  if (is("large_segment_size_mb", "10"))
    return bad_parameter(spec, "large_segment_size_mb", "a number of MiB above 10");
  if (is("roundup_power2_divisions", "0"))
    return bad_parameter(spec, "roundup_power2_divisions", "a power of two or a list such as [256:1,512:2,>:8]");
  if (is("expandable_segments_reserve", "full"))
    return bad_parameter(spec, "expandable_segments_reserve", "a share of the device's memory such as 0.5, or 40G");
  if (const auto found = spec.parameters.find("garbage_collection_threshold");
      found != spec.parameters.end() && parse_fraction(found->second) == 0.0)
    return bad_parameter(spec, "garbage_collection_threshold", "a fraction above 0 and below 1");
  return {};
}

}  // namespace

Result<PolicySpec> without_neutral_keys(const PolicySpec& spec) {
  PolicySpec rest{.name = spec.name};
  for (const auto& [key, value] : spec.parameters) {
    if (key == "backend") {
      if (auto fine = check_backend(spec, value); !fine) return std::move(fine).error();
    } else if (!is_neutral(key)) {
      rest.parameters.emplace(key, value);
    }
  }
  // Unless set, it equals the segment size.
  if (const auto segment = rest.parameters.find("large_segment_size_mb"); segment != rest.parameters.end())
    rest.parameters.try_emplace("max_non_split_rounding_mb", segment->second);
  if (spec.name != "torch") return rest;
  if (auto fine = check_as_pytorch(rest); !fine) return std::move(fine).error();
  rest.name = "torch.native";
  return rest;
}

Result<TorchSettings> parse_alloc_conf(std::string_view conf, TorchRelease release) {
  const auto given = parse_policies("torch{" + std::string(conf) + "}");
  if (!given) return given.error();
  if (given->size() != 1) return Error{.what = "'" + std::string(conf) + "' is not of the form key:value,key:value"};
  const auto known = without_neutral_keys(given->front());
  if (!known) return known.error();
  const auto complete = with_defaults(*known, TorchSettings{.release = release}.spec().parameters);
  if (!complete) return complete.error();
  return TorchSettings::parse(*complete);
}

std::string alloc_conf(const TorchSettings& settings) {
  auto defaults = TorchSettings{}.spec().parameters;
  defaults["max_non_split_rounding_mb"] = settings.spec().parameters.at("large_segment_size_mb");
  std::string conf;
  for (const auto& [key, value] : settings.spec().parameters)
    if (!TorchSettings::is_own_key(key) && value != defaults.at(key))
      conf += (conf.empty() ? "" : ",") + key + ":" + value;
  return conf;
}

}  // namespace memreel
