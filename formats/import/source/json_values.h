// Reads JSON into the values that pickles are read into.
#pragma once

#include <cstddef>
#include <span>

#include "formats/import/source/byte_cursor.h"
#include "formats/import/source/document_sink.h"
#include "formats/import/source/value_arena.h"
#include "formats/model/result.h"

namespace memreel {

/// Whether the first byte that is not white space opens an object or an array that some value or its end follows.
bool looks_like_json(std::span<const std::byte> beginning);

/// Reads the document that begins at `bytes` and returns its root. What `sink` streams is handed on item by item and
/// forgotten, so memory is bounded by the rest of the document. Errors name the byte.
Result<Value> parse_json(ByteCursor& bytes, ValueArena& arena, DocumentSink& sink);

}  // namespace memreel
