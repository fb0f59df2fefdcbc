// SPDX-License-Identifier: Apache-2.0
// Reads a pickle of plain data. Never executes anything in it: opcodes that import, call or build anything but numbers,
// texts, lists, tuples and dicts are refused.
#pragma once

#include <span>

#include "formats/import/source/bytes.h"
#include "formats/import/source/value_arena.h"
#include "formats/model/result.h"

namespace memreel {

// Receives what the document parsers (pickle, JSON) read.

/// Receives the long part of a document piece by piece while it is read, so that it is never in memory as a whole: the
/// items of the lists root[streamed_key()][i], where root is a dict and root[streamed_key()] a list.
class DocumentSink {
 public:
  DocumentSink() = default;
  DocumentSink(const DocumentSink&) = delete;
  DocumentSink& operator=(const DocumentSink&) = delete;
  virtual ~DocumentSink() = default;

  virtual std::string_view streamed_key() const = 0;
  /// The next items of list `i`, in order. Their storage is recycled afterwards: they must be use()d, along with their
  /// unshared and shared contents. `list` must be use()d too.
  virtual Result<void> take(std::size_t i, Value list, std::span<const Value> items) = 0;
  /// One more item of the list of the latest take(): a dict with these alternating keys and values, which are to be
  /// use()d as above. `same_keys`: as in the one before. False if it can't be taken: it is then among the items of the
  /// next take(), as if nothing had been.
  virtual bool take_dict(std::span<const Value> /*items*/, bool /*same_keys*/) { return false; }
};

/// Reads the pickle (protocol 2 to 5) that begins at `bytes` and returns its root value. What `sink` streams is missing
/// from that value: those lists are marked used.
///
/// Errors name the opcode and its byte; that the bytes go on after the pickle's end is one. Memory: the values, the
/// memo and the stack, each at most a constant multiple of the bytes read; sizes declared in the pickle are not trusted
/// before their bytes have arrived.
Result<Value> unpickle(ByteCursor& bytes, ValueArena& arena, DocumentSink& sink);

}  // namespace memreel
