// Reads a text line by line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "formats/import/source/byte_cursor.h"

namespace memreel {

class Lines {
 public:
  static constexpr std::size_t longest = std::size_t{1} << 16U;  // bytes

  explicit Lines(ByteCursor& bytes) : bytes_(bytes) {}

  /// False at the end, and if the line is too long or the file can't be read.
  bool next() {
    line_.clear();
    ++number_;
    ended_ = false;
    bool any = false;
    for (auto byte = bytes_.take(1); !byte.empty(); byte = bytes_.take(1)) {
      any = true;
      const auto character = std::to_integer<char>(byte[0]);
      if (character == '\n') return ended_ = true;
      if (line_.size() == longest) return !(too_long_ = true);
      line_ += character;
    }
    return any;
  }

  /// Without its line ending. Valid until the next call.
  std::string_view text() const { return line_; }
  /// From 1.
  std::uint64_t number() const { return number_; }
  /// Whether the line has a line ending: the last one of a truncated file does not.
  bool ended() const { return ended_; }
  bool too_long() const { return too_long_; }

 private:
  ByteCursor& bytes_;
  std::string line_;
  std::uint64_t number_ = 0;
  bool ended_ = false, too_long_ = false;
};

}  // namespace memreel
