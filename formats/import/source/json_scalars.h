// A JSON document of any size, seen scalar by scalar: for formats of which a few members matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"

namespace memreel {

/// null, a truth value, a number, or a text, which lives until the call that it is given to returns.
using JsonScalar = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string_view>;

/// A whole number that is not negative.
std::optional<std::uint64_t> as_unsigned(const JsonScalar& value);
std::optional<std::int64_t> as_signed(const JsonScalar& value);
std::optional<double> as_number(const JsonScalar& value);
/// Empty when it is none.
std::string_view as_text(const JsonScalar& value);

/// Is told where it is by a path: keys with a dot between them, and "[]" for an item of a list:
/// "traceEvents[].args.Bytes".
class JsonVisitor {
 public:
  JsonVisitor() = default;
  JsonVisitor(const JsonVisitor&) = delete;
  JsonVisitor& operator=(const JsonVisitor&) = delete;
  virtual ~JsonVisitor() = default;

  virtual Result<void> scalar(std::string_view path, const JsonScalar& value) = 0;
  /// An object ends. Lists end without a word.
  virtual Result<void> end_object(std::string_view path) = 0;
};

/// Reads the document that begins at `bytes`. Memory: the longest text, and the path. Errors: those of the visitor, to
/// which where and the byte are added, and what is no JSON or nests more than 256 deep.
Result<void> visit_json(ByteCursor& bytes, JsonVisitor& visitor);

/// The same of a text. False when it is no JSON, nests deeper, or the visitor has an error.
bool visit_json(std::string_view text, JsonVisitor& visitor);

}  // namespace memreel
