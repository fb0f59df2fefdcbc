// SPDX-License-Identifier: Apache-2.0
// A policy's parameters, described once: from these rows come the defaults, the check of what a user gives, its error,
// `memreel policies` and the tables of the documents.
#pragma once

#include <initializer_list>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "formats/model/quantity.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

// "torch.native{max_split_size_mb=128}": a policy with its parameters. "torch{max_split_size_mb:128}" is also accepted.

struct PolicySpec {
  std::string name;
  std::map<std::string, std::string> parameters;

  /// In the syntax of the command line, parameters in alphabetical order.
  std::string text() const;
  friend bool operator==(const PolicySpec&, const PolicySpec&) = default;
};

/// Parses a comma-separated list of specs; commas inside braces belong to the spec. Checks only the syntax: the
/// registry checks names and parameters.
Result<std::vector<PolicySpec>> parse_policies(std::string_view text);

/// What a parameter may be: one of some words, or a number between two bounds.
struct AllowedValues {
  enum class Kind : std::uint8_t {
    words,         // nothing else
    size,          // in bytes, or with a unit
    power_size,    // a size that is a power of two
    number,        // a whole number
    power_number,  // a whole number that is a power of two
    fraction,      // a decimal number
    checked,       // whatever the policy accepts; `text` says what that is
  };

  Kind kind = Kind::words;
  std::uint64_t least = 0, most = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::string_view> words;  // accepted as they are
  std::string text;                     // "a power of two from 2 to 64, or none"

  bool admit(std::string_view value) const;

  static AllowedValues one_of(std::initializer_list<std::string_view> words);
  static AllowedValues flag() { return one_of({"true", "false"}); }
  /// `example`: for the text.
  static AllowedValues size(std::string_view example, std::initializer_list<std::string_view> words = {});
  static AllowedValues size_between(Bytes least, Bytes most, std::initializer_list<std::string_view> words = {});
  static AllowedValues power_of_two(Bytes least, Bytes most);
  static AllowedValues number(std::uint64_t least = 0, std::uint64_t most = std::numeric_limits<std::uint64_t>::max());
  static AllowedValues power_of_two_number(std::uint64_t least, std::uint64_t most);
  /// From 0 to 1.
  static AllowedValues share();
  /// `text`: what the policy accepts, which it checks itself.
  static AllowedValues checked(std::string text) {
    return {.kind = Kind::checked, .words = {}, .text = std::move(text)};
  }
};

struct Parameter {
  std::string name;
  std::string initial;  // its value unless one is given
  AllowedValues values;
  std::string meaning;  // in one sentence, without a full stop
};

/// The value of each parameter unless one is given.
std::map<std::string, std::string> defaults_of(std::span<const Parameter> parameters);

/// The error for an invalid parameter value. `expected`: "a size such as 2MiB".
Error bad_parameter(const PolicySpec& spec, const std::string& parameter, std::string_view expected);

/// `spec` completed with defaults. Errors: a parameter that is not among `parameters`; a value that its row does not
/// admit.
Result<PolicySpec> completed(const PolicySpec& spec, std::span<const Parameter> parameters);

/// "512", "2MiB", "1.5GB". None if it is not a size.
std::optional<Bytes> parse_size(std::string_view text);
/// The shortest exact form: "2MiB", "512".
std::string size_text(Bytes size);

// Values of a completed spec, whose rows admit them.

bool is_true(const PolicySpec& spec, const std::string& parameter);
std::uint64_t number_of(const PolicySpec& spec, const std::string& parameter);
double fraction_of(const PolicySpec& spec, const std::string& parameter);
/// None if it is a word.
std::optional<Bytes> size_or_word(const PolicySpec& spec, const std::string& parameter);
Bytes size_of(const PolicySpec& spec, const std::string& parameter);

/// A power of two that another parameter bounds: at most `most`, at least `least`.
Result<Bytes> size_within(const PolicySpec& spec, const std::string& parameter, Bytes least, Bytes most);

}  // namespace memreel
