// Python's pickle, protocol 4, of plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <unordered_map>

namespace memreel {

/// Writes the opcodes that PyTorch's memory_viz page knows (its own reader, not Python's): no FRAME is needed, integers
/// have at most 8 bytes if they fit, and lists are appended to in pieces of a thousand, as Python does. Memory: the
/// texts.
///
/// Values are written one after another; a list or a dict is what stands between its begin and its end, a dict keys and
/// values in turn.
class PickleWriter {
 public:
  /// What remember() returned.
  using Memo = std::uint32_t;

  explicit PickleWriter(std::ostream& out);

  void integer(std::uint64_t value);
  void integer(std::int64_t value);
  void number(double value);
  void boolean(bool value);
  /// Not UTF-8 in it becomes U+FFFD. Written once, and then named.
  void text(std::string_view text);
  void begin_dict();
  void end_dict();
  void begin_list();
  /// Before each item of a list.
  void item(std::size_t i);
  void end_list(std::size_t items);
  /// Of two integers.
  void pair(std::uint64_t first, std::uint64_t second);

  /// The value that was written last, to be written again by recall().
  Memo remember();
  void recall(Memo memo);

  /// After the one value of the file.
  void finish();

 private:
  void opcode(unsigned char code);
  void little_endian(std::uint64_t value, unsigned bytes);

  std::ostream& out_;
  std::unordered_map<std::string, Memo> texts_;
  Memo next_ = 0;
};

}  // namespace memreel
