#include "formats/torch/host_settings.h"

#include <optional>
#include <utility>

#include "formats/model/limits.h"
#include "formats/model/numbers.h"
#include "formats/torch/alloc_conf.h"

namespace memreel {
namespace {

constexpr std::string_view no_limit = "unlimited";

std::string host_mib_text(Bytes size) {
  return size == TorchHostSettings::unlimited ? std::string(no_limit) : std::to_string(size / 1_MiB);
}

}  // namespace

std::map<std::string, std::string> TorchHostSettings::parameters() const {
  return {{threshold_key, host_mib_text(round_threshold)},
          {cached_key, host_mib_text(cached)},
          {reserve_key, host_mib_text(reserve)}};
}

Result<TorchHostSettings> TorchHostSettings::parse(const std::map<std::string, std::string>& parameters,
                                                   std::string_view policy) {
  TorchHostSettings settings;
  for (const auto& [key, value] :
       {std::pair{threshold_key, &TorchHostSettings::round_threshold},
        std::pair{cached_key, &TorchHostSettings::cached}, std::pair{reserve_key, &TorchHostSettings::reserve}}) {
    const auto given = parameters.find(key);
    if (given == parameters.end()) continue;
    const bool limits = key != reserve_key;
    const auto mib = parse_integer(given->second);
    if (limits && given->second == no_limit)
      settings.*value = unlimited;
    else if (mib && *mib <= max_allocation / 1_MiB)
      settings.*value = 1_MiB * *mib;
    else
      return Error{.what = std::string("parameter ") + key + "=" + given->second + " of policy " + std::string(policy) +
                           " is not " + (limits ? "'unlimited' or a number of MiB" : "a number of MiB, 0 for none")};
  }
  return settings;
}

TorchHostSettings TorchHostSettings::recorded(const std::map<std::string, std::string>& settings) {
  TorchHostSettings result;
  const TorchRelease release = TorchRelease::recorded(settings).value_or(TorchRelease{});
  if (const auto given = read_alloc_conf(recorded_conf(settings, release), release)) result = given->host;
  for (const auto& [key, value] : {std::pair{"max_round_threshold", &TorchHostSettings::round_threshold},
                                   std::pair{"max_cached_size", &TorchHostSettings::cached}})
    if (const auto listed = settings.find(key); listed != settings.end()) {
      const auto size = parse_integer(listed->second);
      result.*value = size && *size <= max_allocation.count ? Bytes{*size} : unlimited;
    }
  return result;
}

}  // namespace memreel
