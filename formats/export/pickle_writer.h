// SPDX-License-Identifier: Apache-2.0
// Writes plain data as a Python pickle, protocol 4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <unordered_map>

namespace memreel {

/// Writes the opcodes that PyTorch's memory_viz page supports (its own reader, not Python's): FRAME is not needed,
/// integers have at most 8 bytes if they fit, and lists are appended to in batches of a thousand, as Python does.
/// Memory: the texts.
///
/// Values are written one after another; a list or dict is what lies between its begin and its end; a dict alternates
/// keys and values.
class PickleWriter {
 public:
  /// What remember() returned.
  using Memo = std::uint32_t;

  explicit PickleWriter(std::ostream& out);

  void integer(std::uint64_t value);
  void integer(std::int64_t value);
  void number(double value);
  void boolean(bool value);
  /// Invalid UTF-8 becomes U+FFFD. Written once, then referenced from the memo.
  void text(std::string_view text);
  void begin_dict();
  void end_dict();
  void begin_list();
  /// Call before each item of a list.
  void item(std::size_t i);
  void end_list(std::size_t items);
  /// A tuple of two integers.
  void pair(std::uint64_t first, std::uint64_t second);

  /// Memoizes the last value written, for recall().
  Memo remember();
  void recall(Memo memo);

  /// Call after the file's single value.
  void finish();

 private:
  void opcode(unsigned char code);
  void little_endian(std::uint64_t value, unsigned bytes);

  std::ostream& out_;
  std::unordered_map<std::string, Memo> texts_;
  Memo next_ = 0;
};

}  // namespace memreel
