// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "formats/model/quantity.h"

namespace memreel::cli {

Result<Bytes> parse_size(std::string_view text, const char* option) {
  Result<Bytes> size = parse_bytes(text);
  if (!size) size.error().where = option;
  return size;
}

Result<Bytes> parse_device_size(std::string_view text) {
  constexpr Bytes least = 1_MiB;
  const Result<Bytes> size = parse_size(text, "--capacity");
  if (!size || *size >= least) return size;
  return Error{.what = text_of(size->count) + (size->count == 1 ? " byte?" : " bytes?"),
               .where = "--capacity",
               .remedy = "write " + std::to_string(std::max<std::uint64_t>(1, size->count)) + "GiB"};
}

Result<std::optional<DeviceModel>> parse_capacity(std::string_view text) {
  if (text.empty()) return std::optional<DeviceModel>{};
  if (text == "unlimited") return std::optional(DeviceModel{});
  Result<Bytes> capacity = parse_device_size(text);
  if (!capacity) return std::move(capacity).error();
  return std::optional(DeviceModel{.kind = DeviceModel::Kind::capacity, .capacity = *capacity});
}

Result<std::vector<PolicySpec>> parse_policy_lists(std::span<const std::string> texts) {
  std::vector<PolicySpec> specs;
  for (const std::string& text : texts) {
    Result<std::vector<PolicySpec>> parsed = parse_policies(text);
    if (!parsed) return parsed;
    specs.insert(specs.end(), parsed->begin(), parsed->end());
  }
  return specs;
}

void add_seconds_option(CLI::App& command, double& seconds) {
  command.add_option("--seconds", seconds, "End all replays after so many seconds [" + text_of(seconds, 0) + "]")
      ->check(CLI::PositiveNumber);
}

std::chrono::steady_clock::time_point deadline_after(double seconds) {
  constexpr double most = 1e9;  // that a clock's nanoseconds hold
  const std::chrono::duration<double> time(std::min(seconds, most));
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(time);
}

}  // namespace memreel::cli
