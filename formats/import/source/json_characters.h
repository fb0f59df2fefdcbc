// The characters of a JSON document, and the parser's errors.
#pragma once

#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"

namespace memreel {

inline constexpr std::string_view json_white_space = " \t\r\n";

/// Lets the parser pull characters through the cursor.
class JsonCharacters {
 public:
  // The standard library's names for what an iterator says of itself. NOLINTBEGIN(readability-identifier-naming)
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;
  // NOLINTEND(readability-identifier-naming)

  JsonCharacters() = default;  // the end
  explicit JsonCharacters(ByteCursor& bytes) : bytes_(&bytes) {}

  char operator*() const { return static_cast<char>(std::to_integer<unsigned char>(bytes_->peek(1)[0])); }
  JsonCharacters& operator++() {
    blanks_ = is_blank() ? blanks_ + 1 : 0;
    bytes_->take(1);
    // The parser keeps everything it has seen since the last token.
    while (blanks_ > most_blanks && !ended() && is_blank()) bytes_->take(1);
    return *this;
  }
  /// Only for comparison with the end.
  friend bool operator==(const JsonCharacters& a, const JsonCharacters& b) { return a.ended() == b.ended(); }
  friend bool operator!=(const JsonCharacters& a, const JsonCharacters& b) { return !(a == b); }

 private:
  static constexpr std::size_t most_blanks = std::size_t{1} << 16U;

  bool is_blank() const { return json_white_space.find(**this) != std::string_view::npos; }
  bool ended() const { return bytes_ == nullptr || bytes_->peek(1).empty(); }
  ByteCursor* bytes_ = nullptr;
  std::size_t blanks_ = 0;  // in a row
};

/// A parser error at the position of `bytes`.
inline Error json_error(const ByteCursor& bytes, const nlohmann::json::exception& what) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while ...": from "line" on.
  const std::string_view text = what.what();
  const std::size_t at = text.find("line ");
  return {.what = "JSON: " + std::string(at == std::string_view::npos ? text : text.substr(at)),
          .where = bytes.where(),
          .offset = bytes.position(),
          .remedy = "the file is damaged or cut off: write it again"};
}

}  // namespace memreel
