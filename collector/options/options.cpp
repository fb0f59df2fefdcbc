// SPDX-License-Identifier: Apache-2.0
#include "collector/options/options.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "formats/model/launchers.h"
#include "formats/model/quantity.h"

namespace memreel::agent {
namespace {

/// One environment variable: conversions between its text and a member.
struct Variable {
  const char* name;
  const char* expected;  // what the text may be
  bool (*set)(Options& options, const std::string& text);
  std::string (*text)(const Options& options);
};

template <class Integer>
std::optional<Integer> number_in(std::string_view text, Integer least, Integer most, int base = 10) {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) return std::nullopt;
  return value;
}

template <auto Member>
bool set_text(Options& options, const std::string& text) {
  options.*Member = text;
  return true;
}

template <auto Member>
std::string text_of(const Options& options) {
  return options.*Member;
}

template <auto Member, std::uint32_t Least, std::uint32_t Most>
bool set_number(Options& options, const std::string& text) {
  const auto value = number_in(text, Least, Most);
  if (value) options.*Member = *value;
  return value.has_value();
}

template <auto Member>
std::string number_of(const Options& options) {
  return std::to_string(options.*Member);
}

template <auto Member, std::uint32_t Least, std::uint32_t Most>
bool set_milliseconds(Options& options, const std::string& text) {
  const auto value = number_in(text, Least, Most);
  if (value) options.*Member = std::chrono::milliseconds(*value);
  return value.has_value();
}

template <auto Member>
std::string milliseconds_of(const Options& options) {
  return std::to_string((options.*Member).count());
}

template <auto Member>
bool set_switch(Options& options, const std::string& text) {
  if (text != "0" && text != "1") return false;
  options.*Member = text == "1";
  return true;
}

template <auto Member>
std::string switch_of(const Options& options) {
  return options.*Member ? "1" : "0";
}

bool set_ring_events(Options& options, const std::string& text) {
  const auto value = number_in<std::uint32_t>(text, 64, 1U << 24U);
  if (value) options.ring_events = std::bit_ceil(*value);
  return value.has_value();
}

bool set_when_full(Options& options, const std::string& text) {
  if (text != "drop" && text != "block") return false;
  options.when_full = text == "drop" ? WhenFull::drop : WhenFull::block;
  return true;
}

constexpr std::array<const char*, 3> backends{"auto", "cupti", "interpose"};

bool set_backend(Options& options, const std::string& text) {
  for (std::size_t i = 0; i < backends.size(); ++i) {
    if (text != backends[i]) continue;
    options.backend = static_cast<BackendChoice>(i);
    return true;
  }
  return false;
}

bool set_mode(Options& options, const std::string& text) {
  const auto mode = parse_mode(text);
  if (mode) options.mode = *mode;
  return mode.has_value();
}

std::string text_of_mode(const Options& options) {
  std::array<char, 16> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), options.mode, 8);
  return {text.data(), end};
}

bool set_flight(Options& options, const std::string& text) {
  const auto flight = parse_flight(text);
  if (flight) options.flight = *flight;
  return static_cast<bool>(flight);
}

bool set_when(Options& options, const std::string& text) { return static_cast<bool>(parse_when(text, options.dumps)); }

bool set_dump_signal(Options& options, const std::string& text) {
  const auto signal = parse_dump_signal(text);
  if (signal) options.dumps.signal = *signal;
  return signal.has_value();
}

bool set_dumps_kept(Options& options, const std::string& text) {
  const auto kept = number_in<std::uint32_t>(text, 1, 1000);
  if (kept) options.dumps.kept = *kept;
  return kept.has_value();
}

bool set_output(Options& options, const std::string& text) {
  options.output = text;
  return !text.empty();
}

constexpr std::array variables{
    Variable{"MEMREEL_OUTPUT", "a file name", set_output, text_of<&Options::output>},
    Variable{"MEMREEL_JOURNAL", "a file name", set_text<&Options::journal>, text_of<&Options::journal>},
    Variable{"MEMREEL_RING_EVENTS", "a number from 64 to 16777216", set_ring_events, number_of<&Options::ring_events>},
    Variable{
        "MEMREEL_WHEN_FULL", "drop or block", set_when_full,
        [](const Options& options) -> std::string { return options.when_full == WhenFull::drop ? "drop" : "block"; }},
    Variable{"MEMREEL_DEPTH", "a number from 0 to 1024", set_number<&Options::depth, 0, 1024>,
             number_of<&Options::depth>},
    Variable{"MEMREEL_SAMPLE_MS", "milliseconds from 0 to 3600000",
             set_milliseconds<&Options::sample_period, 0, 3600000>, milliseconds_of<&Options::sample_period>},
    Variable{"MEMREEL_FLUSH_MS", "milliseconds from 1 to 1000", set_milliseconds<&Options::flush_period, 1, 1000>,
             milliseconds_of<&Options::flush_period>},
    Variable{"MEMREEL_BACKEND", "auto, cupti or interpose", set_backend,
             [](const Options& options) -> std::string { return backends[static_cast<std::size_t>(options.backend)]; }},
    Variable{"MEMREEL_DORMANT", "0 or 1", set_switch<&Options::dormant>, switch_of<&Options::dormant>},
    Variable{"MEMREEL_TORCH", "0 or 1", set_switch<&Options::torch>, switch_of<&Options::torch>},
    Variable{"MEMREEL_PYTHON", "0 or 1", set_switch<&Options::python>, switch_of<&Options::python>},
    Variable{"MEMREEL_HOLDERS", "0 or 1", set_switch<&Options::holders>, switch_of<&Options::holders>},
    Variable{"MEMREEL_MODE", "octal digits from 600 to 777", set_mode, text_of_mode},
    Variable{"MEMREEL_MASK", "0 or 1", set_switch<&Options::mask>, switch_of<&Options::mask>},
    Variable{"MEMREEL_FLIGHT", "a size, a time or both, such as 256MiB,10min", set_flight,
             [](const Options& options) { return agent::text_of(options.flight); }},
    Variable{"MEMREEL_FLIGHT_WHEN", "limits such as 95%,+2GiB/min", set_when,
             [](const Options& options) { return text_of_when(options.dumps); }},
    Variable{"MEMREEL_FLIGHT_SIGNAL", "USR1, USR2, a real-time signal's number, or none", set_dump_signal,
             [](const Options& options) { return text_of_signal(options.dumps.signal); }},
    Variable{"MEMREEL_FLIGHT_DUMPS", "a number from 1 to 1000", set_dumps_kept,
             [](const Options& options) { return std::to_string(options.dumps.kept); }},
    Variable{"MEMREEL_LIBCUPTI", "a file name", set_text<&Options::libcupti>, text_of<&Options::libcupti>},
};

std::optional<std::string> environment(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
  if (value == nullptr) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::uint32_t> parse_mode(std::string_view text) {
  const auto mode = number_in<std::uint32_t>(text, 0600, 0777, 8);
  return mode && (*mode & 0600U) == 0600U ? mode : std::nullopt;
}

Result<Options> read_options(const Lookup& lookup) {
  Options options;
  for (const Variable& variable : variables) {
    const std::optional<std::string> text = lookup(variable.name);
    if (text && !variable.set(options, *text))
      return Error{.what = "invalid value \"" + *text + "\"",
                   .where = variable.name,
                   .remedy = std::string("set it to ") + variable.expected + ", or unset it"};
  }
  return options;
}

Result<Options> options_from_environment() { return read_options(environment); }

std::string journal_from_environment() { return environment("MEMREEL_JOURNAL").value_or(""); }

std::vector<std::pair<std::string, std::string>> to_environment(const Options& options) {
  std::vector<std::pair<std::string, std::string>> result;
  result.reserve(variables.size());
  for (const Variable& variable : variables) result.emplace_back(variable.name, variable.text(options));
  return result;
}

ProcessNames process_names() {
  ProcessNames names{.process = static_cast<std::uint64_t>(::getpid())};
  utsname system{};
  if (::uname(&system) == 0) {
    names.host = static_cast<const char*>(system.nodename);
    names.machine = static_cast<const char*>(system.machine);
  }
  for (const Launcher& launcher : launchers) {
    if (!may_have_started(launcher, environment)) continue;
    const auto rank = environment(launcher.rank);
    if (rank && number_in<std::uint32_t>(*rank, 0, std::numeric_limits<std::uint32_t>::max())) {
      names.rank = *rank;
      break;
    }
  }
  return names;
}

std::string trace_name(std::string_view pattern, const ProcessNames& names, unsigned attempt) {
  std::string name;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    switch (next) {
      case 'p':
        name += std::to_string(names.process);
        break;
      case 'h':
        name += names.host;
        break;
      case 'r':
        name += names.rank.empty() ? "none" : names.rank;
        break;
      case '%':
        name += '%';
        break;
      default:
        name += pattern[i];
        continue;
    }
    ++i;
  }
  if (attempt == 0) return name;
  std::filesystem::path path = name;
  const std::string extension = path.extension().string();
  path.replace_extension();
  return path.string() + "-" + std::to_string(attempt) + extension;
}

namespace {

using std::chrono::hours, std::chrono::milliseconds, std::chrono::minutes, std::chrono::seconds;

/// For equal suffixes, the longest comes first.
constexpr std::array<std::pair<std::string_view, Nanoseconds>, 6> units{{{"min", minutes(1)},
                                                                         {"ms", milliseconds(1)},
                                                                         {"ns", Nanoseconds(1)},
                                                                         {"s", seconds(1)},
                                                                         {"h", hours(1)},
                                                                         {"d", hours(24)}}};
constexpr Nanoseconds longest = hours(24) * 365;

std::optional<double> number_of(std::string_view text) {
  const std::optional<double> value = parse_fraction(text, std::chars_format::general);
  return value.value_or(0) > 0 ? value : std::nullopt;
}

std::optional<Nanoseconds> time_of(std::string_view text) {
  for (const auto& [name, length] : units) {
    if (!text.ends_with(name)) continue;
    const auto count = number_of(text.substr(0, text.size() - name.size()));
    if (!count || *count * static_cast<double>(length.count()) > static_cast<double>(longest.count()))
      return std::nullopt;
    const Nanoseconds time(static_cast<std::int64_t>(*count * static_cast<double>(length.count())));
    return time.count() > 0 ? std::optional(time) : std::nullopt;
  }
  return std::nullopt;
}

/// time_of() of it is the same time, which came from a double.
std::string text_of_time(Nanoseconds time) { return std::to_string(time.count()) + "ns"; }

/// As few digits as tell it from all others.
std::string text_of_number(double number) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end};
}

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
      options.used_percent = *share;
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
  if (options.used_percent) text = text_of_number(*options.used_percent) + "%";
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
