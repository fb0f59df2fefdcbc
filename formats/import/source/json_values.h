// SPDX-License-Identifier: Apache-2.0
// Reads JSON into the same values as pickles.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <iterator>
#include <span>
#include <variant>

#include "formats/import/source/bytes.h"
#include "formats/import/source/unpickle.h"
#include "formats/import/source/value_arena.h"
#include "formats/model/result.h"

namespace memreel {

// The characters of a JSON document, and the parser's errors.

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

// Reads a JSON document of any size scalar by scalar: for formats in which only a few members matter.

/// null, a boolean, a number, or a string, which is valid during the call that receives it.
using JsonScalar = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string_view>;

/// A non-negative integer, or none.
std::optional<std::uint64_t> as_unsigned(const JsonScalar& value);
std::optional<std::int64_t> as_signed(const JsonScalar& value);
std::optional<double> as_number(const JsonScalar& value);
/// Empty if it is not a string.
std::string_view as_text(const JsonScalar& value);

/// Receives each scalar's path: keys separated by dots, and "[]" for a list item: "traceEvents[].args.Bytes".
class JsonVisitor {
 public:
  JsonVisitor() = default;
  JsonVisitor(const JsonVisitor&) = delete;
  JsonVisitor& operator=(const JsonVisitor&) = delete;
  virtual ~JsonVisitor() = default;

  virtual Result<void> scalar(std::string_view path, const JsonScalar& value) = 0;
  /// An object ends. The end of a list is not reported.
  virtual Result<void> end_object(std::string_view path) = 0;
};

/// Reads the document that begins at `bytes`. Memory: the longest string, and the path. Errors: the visitor's, with the
/// position added; invalid JSON; nesting deeper than 256.
Result<void> visit_json(ByteCursor& bytes, JsonVisitor& visitor);

/// The same for a string. False if it is not JSON, nests deeper, or the visitor returns an error.
bool visit_json(std::string_view text, JsonVisitor& visitor);

/// Whether the first non-whitespace byte opens an object or array, followed by a value or its end.
bool looks_like_json(std::span<const std::byte> beginning);

/// Reads the document that begins at `bytes` and returns its root. What `sink` streams is passed on item by item and
/// discarded, so memory is bounded by the rest of the document. Errors name the byte.
Result<Value> parse_json(ByteCursor& bytes, ValueArena& arena, DocumentSink& sink);

}  // namespace memreel
