#include "analyzer/policies/torch_release.h"

#include "analyzer/policies/parameters.h"

namespace memreel {

std::optional<TorchRelease> TorchRelease::parse(std::string_view text) {
  constexpr std::string_view major = "2.", other = " or ";
  if (const std::size_t second = text.find(other); second != std::string_view::npos)
    if (const std::string_view last = text.substr(second + other.size()); last.starts_with(major)) text = last;
  if (!text.starts_with(major)) return std::nullopt;
  text.remove_prefix(major.size());
  const auto minor = parse_integer(text.substr(0, text.find_first_not_of("0123456789")));
  if (!minor || *minor == 0 || *minor > 999) return std::nullopt;
  return TorchRelease{static_cast<unsigned>(*minor)};
}

std::string_view TorchRelease::rules() const {
  if (minor < 4) return "2.1 to 2.3";
  if (minor < 5) return "2.4";
  if (minor < 12) return "2.5 to 2.11";
  return minor == 12 ? "2.12" : "2.13 and newer";
}

}  // namespace memreel
