// Reads a JSON document of any size scalar by scalar: for formats in which only a few members matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"

namespace memreel {

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

}  // namespace memreel
