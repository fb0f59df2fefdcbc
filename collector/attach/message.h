// The protocol between `memreel attach` and the agent in a program: one request and one response per connection.
//
// A message is a sequence of strings, each terminated by a zero byte: the protocol version, a word, and "NAME=VALUE"
// fields. Requests: "start" (fields: the variables of options/options.h), "stop", "status", "dump". Responses: "ok"
// with result fields (listed in agent/control.h), or "error" with `what`, `where` and `remedy`. Unknown fields are
// ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/model/result.h"

namespace memreel::attach {

/// The maximum size of a message, in bytes; larger ones are refused.
inline constexpr std::size_t largest_message = 64U << 10U;

struct Message {
  std::string word;
  std::vector<std::pair<std::string, std::string>> fields;

  /// The value of the first field with this name; empty if there is none.
  std::string_view operator[](std::string_view name) const;
  /// The same, as a number; 0 if it is not one.
  std::uint64_t number(std::string_view name) const;

  friend bool operator==(const Message&, const Message&) = default;
};

/// Zero bytes inside strings would end them: no field contains any.
std::string to_bytes(const Message& message);

/// Errors: another version, which the error names; or not a message.
Result<Message> parse_message(std::span<const char> bytes);

Message error_message(const Error& error);
/// The error in an "error" response.
Error error_of(const Message& answer);

}  // namespace memreel::attach
