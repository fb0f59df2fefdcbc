#include "analyzer/policies/cuda_async_settings.h"

#include <array>
#include <utility>

#include "analyzer/policies/parameters.h"

namespace memreel {

std::map<std::string, std::string> cuda_async_defaults() {
  return {{"release_threshold", "0"},
          {"follow_events", "true"},
          {"opportunistic", "true"},
          {"internal_dependencies", "true"}};
}

Result<CudaAsyncSettings> cuda_async_settings(const PolicySpec& spec) {
  CudaAsyncSettings settings;
  const std::string& threshold = spec.parameters.at("release_threshold");
  if (threshold == "max") {
    settings.release_threshold = CudaAsyncSettings::never;
  } else if (const auto size = parse_size(threshold)) {
    settings.release_threshold = *size;
  } else {
    return bad_parameter(spec, "release_threshold", "0, max, or a size such as 64MiB");
  }
  const std::array<std::pair<const char*, bool*>, 3> flags{
      {{"follow_events", &settings.follow_events},
       {"opportunistic", &settings.opportunistic},
       {"internal_dependencies", &settings.internal_dependencies}}};
  for (const auto& [name, flag] : flags) {
    const std::string& value = spec.parameters.at(name);
    if (value != "true" && value != "false") return bad_parameter(spec, name, "true or false");
    *flag = value == "true";
  }
  return settings;
}

}  // namespace memreel
