// SPDX-License-Identifier: Apache-2.0
// How memreel reports failures: a value or an Error, never an exception across a function that returns a Result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace memreel {

/// One line for a person: what is wrong, where, and how to fix it.
struct Error {
  std::string what;                     // "unexpected opcode GLOBAL (0x63)"
  std::string where;                    // file name or option; may be empty
  std::optional<std::uint64_t> offset;  // byte offset in `where`
  std::string remedy;                   // "re-dump the snapshot with ..."; may be empty

  /// "trace.reel: byte 123: what (remedy)"
  std::string message() const;
};

/// What a program says before it ends with exit_unusable: "memreel: error: trace.reel: byte 123: what (remedy)" and a
/// newline, printable. `word`: "error:" in a terminal's colour, for instance.
std::string error_line(const Error& error, std::string_view program = "memreel", std::string_view word = "error:");

/// The exit code of a program that can't do what it was asked: bad usage, or input that can't be read.
inline constexpr int exit_unusable = 2;

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return state_.index() == 0; }
  /// Only if the result holds a value.
  T& operator*() & { return *std::get_if<0>(&state_); }
  const T& operator*() const& { return *std::get_if<0>(&state_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  /// Only if it does not.
  Error& error() & { return *std::get_if<1>(&state_); }
  const Error& error() const& { return *std::get_if<1>(&state_); }
  Error&& error() && { return std::move(*std::get_if<1>(&state_)); }

 private:
  std::variant<T, Error> state_;
};

/// A Result without a value: `return {};` is success.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const { return !error_; }
  Error& error() & { return *error_; }
  const Error& error() const& { return *error_; }
  Error&& error() && { return std::move(*error_); }

 private:
  std::optional<Error> error_;
};

}  // namespace memreel
