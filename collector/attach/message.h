// What `memreel attach` and the library in a program say to each other: one question and one answer for each
// connection.
//
// A message is a sequence of texts, each ended by a zero byte: the protocol's version, a word, and fields "NAME=VALUE".
// Questions: "start" (fields: the variables of options/options.h), "stop", "status", "dump". Answers: "ok" with what is
// known (agent/control.h names the fields), or "error" with `what`, `where` and `remedy`. Unknown fields are ignored.
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

/// No message is larger, in bytes; a larger one is refused.
inline constexpr std::size_t largest_message = 64U << 10U;

struct Message {
  std::string word;
  std::vector<std::pair<std::string, std::string>> fields;

  /// The value of the first field of this name; empty when there is none.
  std::string_view operator[](std::string_view name) const;
  /// The same as a number; 0 when it is none.
  std::uint64_t number(std::string_view name) const;

  friend bool operator==(const Message&, const Message&) = default;
};

/// Zero bytes inside of texts end these: nothing that travels has any.
std::string to_bytes(const Message& message);

/// Errors: another version, which is named; or not a message.
Result<Message> parse_message(std::span<const char> bytes);

Message error_message(const Error& error);
/// The error that an answer with the word "error" holds.
Error error_of(const Message& answer);

}  // namespace memreel::attach
