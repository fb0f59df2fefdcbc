// Reads JSON into the same values as pickles.
#pragma once

#include <cstddef>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/import/source/document_sink.h"
#include "formats/import/source/value_arena.h"
#include "formats/model/result.h"

namespace memreel {

/// Whether the first non-whitespace byte opens an object or array, followed by a value or its end.
bool looks_like_json(std::span<const std::byte> beginning);

/// Reads the document that begins at `bytes` and returns its root. What `sink` streams is passed on item by item and
/// discarded, so memory is bounded by the rest of the document. Errors name the byte.
Result<Value> parse_json(ByteCursor& bytes, ValueArena& arena, DocumentSink& sink);

}  // namespace memreel
