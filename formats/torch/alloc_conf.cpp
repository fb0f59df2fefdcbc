// SPDX-License-Identifier: Apache-2.0
#include "formats/torch/alloc_conf.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "formats/model/value_check.h"

namespace memreel {
namespace {

using Value = ConfKey::Value;

constexpr TorchReleases from(unsigned first, std::string_view source) { return {first, TorchReleases::newest, source}; }

constexpr std::string_view core = "c10/core/AllocatorConfig.cpp", cuda = "c10/cuda/CUDAAllocatorConfig.cpp";
constexpr std::array keys{
    ConfKey{"expandable_segments", Value::boolean, from(1, core)},
    ConfKey{"max_split_size_mb", Value::mib, from(1, core)},
    ConfKey{"garbage_collection_threshold", Value::share, from(1, core)},
    ConfKey{"roundup_power2_divisions", Value::divisions, from(1, core)},
    ConfKey{"max_non_split_rounding_mb", Value::mib, from(6, core)},
    ConfKey{"large_segment_size_mb", Value::mib, from(11, core)},
    ConfKey{"per_process_memory_fraction", Value::share, from(10, cuda)},
    ConfKey{"expandable_segments_reserve", Value::reserve, from(15, cuda)},
    ConfKey{"expandable_segments_reserve_by_class", Value::reserves, from(15, cuda)},
    ConfKey{"backend", Value::backend, from(1, cuda)},
    ConfKey{"release_lock_on_cudamalloc", Value::boolean, from(1, cuda)},
    ConfKey{"release_lock_on_hipmalloc", Value::boolean, from(1, cuda)},
    ConfKey{"graph_capture_record_stream_reuse", Value::boolean, from(9, cuda)},
    ConfKey{"throw_on_cudamalloc_oom", Value::boolean, from(12, cuda)},
    ConfKey{"pinned_use_cuda_host_register", Value::boolean, from(1, cuda)},
    ConfKey{"pinned_use_hip_host_register", Value::boolean, from(1, cuda)},
    ConfKey{"pinned_num_register_threads", Value::threads, from(1, cuda)},
    ConfKey{"pinned_use_background_threads", Value::boolean, from(6, core)},
    ConfKey{"pinned_reserve_segment_size_mb", Value::mib, from(10, cuda)},
    ConfKey{"pinned_free_catch_all", Value::boolean, from(12, cuda)},
    ConfKey{"pinned_max_round_threshold_mb", Value::mib, from(13, core)},
    ConfKey{"pinned_max_cached_size_mb", Value::mib, from(13, core)},
};

bool is_separator(std::string_view token) { return token == "," || token == ":" || token == "[" || token == "]"; }

/// Words and separators; what is blank does not even divide words.
std::vector<std::string> tokens_of(std::string_view text, bool only_spaces_are_blank) {
  constexpr std::string_view blank = " \t\n\v\f\r";
  std::vector<std::string> tokens;
  bool in_word = false;
  for (const char c : text) {
    if (is_separator({&c, 1})) {
      tokens.emplace_back(1, c);
      in_word = false;
    } else if (only_spaces_are_blank ? c != ' ' : blank.find(c) == std::string_view::npos) {
      if (!in_word) tokens.emplace_back();
      tokens.back() += c;
      in_word = true;
    }
  }
  return tokens;
}

/// As stoull() and stoi() read it: what follows the digits is ignored, and -1 is the largest number.
std::optional<std::uint64_t> number_in(std::string_view word, bool has_32_bits) {
  const bool negative = word.starts_with('-');
  if (negative || word.starts_with('+')) word.remove_prefix(1);
  std::uint64_t value = 0;
  if (std::from_chars(word.data(), word.data() + word.size(), value).ec != std::errc{}) return std::nullopt;
  if (has_32_bits && value > std::uint64_t{0x7FFF'FFFF} + (negative ? 1 : 0)) return std::nullopt;
  return negative ? -value : value;
}

/// As stod() reads it.
std::optional<double> share_in(std::string_view word) {
  const bool negative = word.starts_with('-');
  if (negative || word.starts_with('+')) word.remove_prefix(1);
  const bool hexadecimal = word.starts_with("0x") || word.starts_with("0X");
  if (hexadecimal) word.remove_prefix(2);
  double value = 0;
  const auto format = hexadecimal ? std::chars_format::hex : std::chars_format::general;
  if (std::from_chars(word.data(), word.data() + word.size(), value, format).ec != std::errc{})
    return hexadecimal ? std::optional(0.0) : std::nullopt;
  return negative ? -value : value;
}

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j)
      diagonal =
          std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)}));
  }
  return row.back();
}

Error unknown(std::string_view key) {
  const auto* const nearest =
      std::ranges::min_element(keys, {}, [&](const ConfKey& k) { return distance(key, k.name); });
  std::string what = "PyTorch has no setting " + std::string(key.substr(0, 80));
  if (key.size() < 80 && distance(key, nearest->name) <= key.size() / 4)
    what += ": " + std::string(nearest->name) + " is meant";
  return {.what = std::move(what)};
}

/// Reads a text from left to right.
class ConfReader {
 public:
  ConfReader(std::string_view text, TorchRelease release)
      : strict_(release.has(torch_rule::checks_separators)), tokens_(tokens_of(text, strict_)) {
    conf_.device.release = release;
  }

  Result<AllocConf> read() {
    while (at_ < tokens_.size()) {
      const std::string key = tokens_[at_++];
      const ConfKey* const known = conf_key(key);
      if (known == nullptr) return unknown(key);
      if (!take(":") || !read_value(*known)) return failure(*known);
      if (at_ < tokens_.size() && !take(","))
        return Error{.what = "'" + tokens_[at_] + "' follows the value of " + key + " without a comma"};
    }
    if (auto fits = check_sizes(); !fits) return std::move(fits).error();
    return conf_;
  }

 private:
  /// Takes a separator; newer releases take any token for it.
  bool take(std::string_view separator) {
    if (at_ >= tokens_.size() || (strict_ && tokens_[at_] != separator)) return false;
    ++at_;
    return true;
  }
  bool next_is(std::string_view token) const { return at_ < tokens_.size() && tokens_[at_] == token; }

  bool refuse(std::string_view wanted) {
    wanted_ = wanted;
    return false;
  }

  Error failure(const ConfKey& key) const {
    std::string value;
    for (std::size_t i = value_; i < std::max(at_, value_ + 1) && i < tokens_.size(); ++i) value += tokens_[i];
    if (wanted_.empty()) return {.what = std::string(key.name) + " has no value"};
    return {.what = std::string(key.name) + " must be " + std::string(wanted_) + ", not '" + value.substr(0, 80) + "'"};
  }

  bool read_value(const ConfKey& key) {
    value_ = at_;
    if (at_ >= tokens_.size()) return false;
    switch (key.value) {
      case Value::boolean:
        return read_boolean(key);
      case Value::mib:
        return read_mib(key);
      case Value::threads: {
        const auto threads = number();
        return (threads && std::has_single_bit(*threads) && *threads <= 128) || refuse("a power of two up to 128");
      }
      case Value::share:
        return read_share(key);
      case Value::divisions:
        return read_divisions();
      case Value::backend:
        if (tokens_[at_++] == "native") return true;
        if (tokens_[at_ - 1] == "cudaMallocAsync" || tokens_[at_ - 1] == "hipMallocAsync")
          return refuse("native here: the other backend is another allocator, CUDA's own (the policy cuda.async)");
        return refuse("native or cudaMallocAsync");
      case Value::reserve:
        // PyTorch ignores what it can't read.
        if (const auto size = ReserveSize::parse(tokens_[at_++])) conf_.device.reserve.usual = size;
        return true;
      case Value::reserves:
        return read_reserves();
    }
    return false;
  }

  bool read_boolean(const ConfKey& key) {
    const std::string& word = tokens_[at_++];
    if (word != "True" && word != "False") return refuse("True or False");
    if (key.name == "expandable_segments") conf_.device.expandable = word == "True";
    return true;
  }

  std::optional<std::uint64_t> number() { return number_in(tokens_[at_++], strict_); }

  bool read_mib(const ConfKey& key) {
    const auto mib = number();
    if (!mib) return refuse("a number of MiB");
    const Bytes size = *mib > max_allocation / 1_MiB ? max_allocation : 1_MiB * *mib;
    const Bytes limit = size == max_allocation ? TorchSettings::unlimited : size;
    if (key.name == "max_split_size_mb") {
      conf_.device.max_split_size = limit;
    } else if (key.name == "max_non_split_rounding_mb") {
      rounding_ = size;
    } else if (key.name == "large_segment_size_mb") {
      if (size <= TorchSettings::min_own_segment) return refuse("a number of MiB above 10");
      conf_.device.large_segment = size;
    } else if (key.name == TorchHostSettings::reserve_key) {
      if (size == 0_B) return refuse("a number of MiB above 0");
      conf_.host.reserve = size;
    } else if (key.name == TorchHostSettings::threshold_key) {
      conf_.host.round_threshold = limit;
    } else if (key.name == TorchHostSettings::cached_key) {
      conf_.host.cached = limit;
    }
    return true;
  }

  bool read_share(const ConfKey& key) {
    const auto share = share_in(tokens_[at_++]);
    if (key.name == "per_process_memory_fraction") {
      if (!share || !(*share >= 0 && *share <= 1)) return refuse("a fraction from 0 to 1");
      conf_.device.memory_fraction = *share;
    } else {
      if (!share || !(*share > 0 && *share < 1)) return refuse("a fraction above 0 and below 1");
      conf_.device.garbage_collection_threshold = *share;
    }
    return true;
  }

  bool read_divisions() {
    constexpr std::string_view wanted = "a power of two or a list such as [256:1,512:2,>:8]";
    // Larger ones divide no size.
    const auto divisor = [&]() -> std::optional<std::string> {
      if (at_ >= tokens_.size()) return std::nullopt;
      const auto value = number();
      if (!value || (*value != 0 && !std::has_single_bit(*value))) return std::nullopt;
      return std::to_string(std::min(*value, std::uint64_t{1} << 31U));
    };
    std::string text;
    if (!next_is("[")) {
      const auto all = divisor();
      if (!all || *all == "0") return refuse(wanted);
      text = *all;
    } else {
      text = tokens_[at_++];
      while (at_ < tokens_.size() && !next_is("]")) {
        const std::string size = tokens_[at_++];
        const auto mib = number_in(size, false);
        if ((size != ">" && !mib) || !take(":")) return refuse(wanted);
        const auto division = divisor();
        if (!division) return refuse(wanted);
        text += (size == ">" ? size : std::to_string(*mib)) + ":" + *division + ",";
        if (!next_is("]") && !take(",")) return refuse(wanted);
      }
      if (at_++ >= tokens_.size()) return refuse(wanted);
      text += "]";
    }
    const auto divisions = parse_power2_divisions(text, conf_.device.release);
    if (!divisions) return refuse(wanted);
    conf_.device.divisions = *divisions;
    return true;
  }

  bool read_reserves() {
    constexpr std::string_view wanted = "a list such as [weights:0.5,serving:40G]";
    if (tokens_[at_++] != "[") return refuse(wanted);
    conf_.device.reserve.by_class.clear();
    while (at_ < tokens_.size() && !next_is("]")) {
      const std::string name = tokens_[at_++];
      if (!take(":") || at_ >= tokens_.size()) return refuse(wanted);
      if (const auto size = ReserveSize::parse(tokens_[at_++])) conf_.device.reserve.by_class[name] = *size;
      if (next_is(",")) ++at_;
    }
    return at_++ < tokens_.size() || refuse(wanted);
  }

  /// Two limits must not be below the size of the segments, in whatever order all three are given.
  Result<void> check_sizes() {
    TorchSettings& device = conf_.device;
    const bool above = device.release.has(torch_rule::splits_above_20);
    const Bytes least = above ? 20_MiB + 1_MiB : device.large_segment;
    const std::string bound = above ? "above 20" : "from " + std::to_string(least / 1_MiB);
    const auto too_small = [&](const char* key, Bytes size) {
      return Error{.what = std::string(key) + " must be a number of MiB " + bound + ", not '" +
                           std::to_string(size / 1_MiB) + "'"};
    };
    if (device.max_split_size < least) return too_small("max_split_size_mb", device.max_split_size);
    if (rounding_ && *rounding_ < least) return too_small("max_non_split_rounding_mb", *rounding_);
    device.max_non_split_rounding = rounding_.value_or(device.large_segment);
    return {};
  }

  bool strict_;
  std::vector<std::string> tokens_;
  std::size_t at_ = 0;
  std::size_t value_ = 0;  // the token where the value begins
  std::string_view wanted_;
  std::optional<Bytes> rounding_;
  AllocConf conf_;
};

/// Those of `values` that differ from `defaults`.
std::string changed(const std::map<std::string, std::string>& values,
                    const std::map<std::string, std::string>& defaults) {
  std::string conf;
  for (const auto& [key, value] : values)
    if (!TorchSettings::is_own_key(key) && value != defaults.at(key))
      conf += (conf.empty() ? "" : ",") + key + ":" + value;
  return conf;
}

}  // namespace

std::span<const ConfKey> conf_keys() { return keys; }

const ConfKey* conf_key(std::string_view name) {
  const auto* const found = std::ranges::find(keys, name, &ConfKey::name);
  return found == keys.end() ? nullptr : found;
}

Result<AllocConf> read_alloc_conf(std::string_view text, TorchRelease release) {
  return ConfReader(text, release).read();
}

std::string_view recorded_conf(const std::map<std::string, std::string>& settings, TorchRelease release) {
  for (const std::string_view variable : conf_variables) {
    if (variable == conf_variables.back() && !release.has(torch_rule::reads_other_variables)) break;
    if (const auto found = settings.find(std::string(variable)); found != settings.end()) return found->second;
  }
  return {};
}

std::string alloc_conf(const TorchSettings& settings) {
  auto defaults = TorchSettings{}.parameters();
  const auto values = settings.parameters();
  defaults["max_non_split_rounding_mb"] = values.at("large_segment_size_mb");
  return changed(values, defaults);
}

std::string alloc_conf(const TorchHostSettings& settings) {
  return changed(settings.parameters(), TorchHostSettings{}.parameters());
}

std::vector<std::pair<std::string, std::string>> settings_in(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> settings;
  bool begins = true, in_value = false;
  int depth = 0;
  for (const std::string& token : tokens_of(text, false)) {
    depth += token == "[" ? 1 : token == "]" ? -1 : 0;
    if (token == "," && depth <= 0) {
      begins = true;
    } else if (begins) {
      settings.emplace_back(token, "");
      begins = in_value = false;
    } else if (token == ":" && !in_value) {
      in_value = true;
    } else {
      settings.back().second += token;
    }
  }
  return settings;
}

std::string value_in(std::string_view text, std::string_view key) {
  std::string value;
  for (auto& [name, last] : settings_in(text))
    if (name == key) value = std::move(last);
  return value;
}

}  // namespace memreel
