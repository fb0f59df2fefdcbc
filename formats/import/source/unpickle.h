// Reads a pickle of plain data. Never executes anything in it: opcodes that import, call or build anything but numbers,
// texts, lists, tuples and dicts are refused.
#pragma once

#include "formats/import/source/byte_cursor.h"
#include "formats/import/source/document_sink.h"
#include "formats/import/source/value_arena.h"
#include "formats/model/result.h"

namespace memreel {

/// Reads the pickle (protocol 2 to 5) that begins at `bytes` and returns its root value. What `sink` streams is missing
/// from that value: those lists are marked used.
///
/// Errors name the opcode and its byte. Memory: the values, the memo and the stack, each at most a constant multiple of
/// the bytes read; sizes declared in the pickle are not trusted before their bytes have arrived.
Result<Value> unpickle(ByteCursor& bytes, ValueArena& arena, DocumentSink& sink);

}  // namespace memreel
