// SPDX-License-Identifier: Apache-2.0
#include "collector/options/flight_options.h"

#include <array>
#include <charconv>
#include <chrono>
#include <utility>

#include "formats/model/quantity.h"

namespace memreel::agent {
namespace {

using std::chrono::hours, std::chrono::milliseconds, std::chrono::minutes, std::chrono::seconds;

/// For equal suffixes, the longest comes first.
constexpr std::array<std::pair<std::string_view, Nanoseconds>, 5> units{
    {{"min", minutes(1)}, {"ms", milliseconds(1)}, {"s", seconds(1)}, {"h", hours(1)}, {"d", hours(24)}}};
constexpr Nanoseconds longest = hours(24) * 365;

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || !(value > 0)) return std::nullopt;
  return value;
}

std::optional<Nanoseconds> time_of(std::string_view text) {
  for (const auto& [name, length] : units) {
    if (!text.ends_with(name)) continue;
    const auto count = number_of(text.substr(0, text.size() - name.size()));
    if (!count || *count * static_cast<double>(length.count()) > static_cast<double>(longest.count()))
      return std::nullopt;
    return Nanoseconds(static_cast<std::int64_t>(*count * static_cast<double>(length.count())));
  }
  return std::nullopt;
}

std::string text_of_time(Nanoseconds time) { return std::to_string(time.count() / 1'000'000) + "ms"; }

/// Calls `take` with each part of a list; false if it refuses one.
template <class Take>
bool each_of(std::string_view text, Take take) {
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    if (!take(text.substr(0, comma))) return false;
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  }
  return true;
}

}  // namespace

Result<FlightOptions> parse_flight(std::string_view text) {
  FlightOptions options;
  if (text.empty()) return options;
  const bool sound = each_of(text, [&](std::string_view part) {
    if (const auto time = time_of(part)) {
      if (options.span) return false;
      options.span = time;
      return true;
    }
    const auto size = parse_bytes(part);
    if (!size || options.size != 0_B) return false;
    options.size = *size;
    return true;
  });
  if (!sound || (options.size == 0_B && !options.span))
    return Error{.what = "not a size or a time: '" + std::string(text) + "'",
                 .where = "--flight",
                 .remedy = "use 256MiB, 10min, or 256MiB,10min"};
  if (options.size == 0_B) options.size = 256_MiB;
  if (options.size < FlightOptions::least_size)
    return Error{.what = "must be at least " + memreel::text_of(FlightOptions::least_size),
                 .where = "--flight",
                 .remedy = "use 256MiB"};
  return options;
}

std::string text_of(const FlightOptions& options) {
  if (options.size == 0_B) return {};
  return std::to_string(options.size.count) + (options.span ? "," + text_of_time(*options.span) : "");
}

Result<void> parse_when(std::string_view text, DumpOptions& options) {
  const bool sound = each_of(text, [&](std::string_view part) {
    if (part.ends_with('%')) {
      const auto share = number_of(part.substr(0, part.size() - 1));
      if (!share || *share > 100) return false;
      options.used = *share / 100;
      return true;
    }
    const std::size_t slash = part.find('/');
    if (!part.starts_with('+') || slash == std::string_view::npos) return false;
    const auto bytes = parse_bytes(part.substr(1, slash - 1));
    const std::string unit(part.substr(slash + 1));
    // "/min" as well as "/10min".
    const auto time = time_of(unit).value_or(time_of("1" + unit).value_or(Nanoseconds(0)));
    if (!bytes || *bytes == 0_B || time.count() == 0) return false;
    options.growth = {.bytes = *bytes, .time = time};
    return true;
  });
  if (sound) return {};
  return Error{.what = "not a limit: '" + std::string(text) + "'",
               .where = "--when",
               .remedy = "use 95% (of the device's memory), +2GiB/min, or 95%,+2GiB/min"};
}

std::string text_of_when(const DumpOptions& options) {
  std::string text;
  if (options.used) text = std::to_string(*options.used * 100) + "%";
  if (options.growth)
    text += (text.empty() ? "+" : ",+") + std::to_string(options.growth->bytes.count) + "/" +
            text_of_time(options.growth->time);
  return text;
}

std::optional<int> parse_dump_signal(std::string_view text) {
  if (text == "none") return 0;
  if (text.starts_with("SIG")) text.remove_prefix(3);
  if (text == "USR1") return SIGUSR1;
  if (text == "USR2") return SIGUSR2;
  int number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = problem == std::errc() && end == text.data() + text.size();
  if (!is_number) return std::nullopt;
  const bool is_free =
      number == 0 || number == SIGUSR1 || number == SIGUSR2 || (number >= SIGRTMIN && number <= SIGRTMAX);
  return is_free ? std::optional(number) : std::nullopt;
}

std::string text_of_signal(int signal) {
  if (signal == 0) return "none";
  if (signal == SIGUSR1) return "USR1";
  if (signal == SIGUSR2) return "USR2";
  return std::to_string(signal);
}

}  // namespace memreel::agent
