// SPDX-License-Identifier: Apache-2.0
// Real histories as documents, for tests to modify.
#pragma once

#include <string>
#include <utility>

#include "formats/import/source/bytes.h"
#include "formats/import/source/unpickle.h"
#include "tests/unit/import/pickle_encoder.h"

namespace memreel::test {

inline Document document_of(const ValueArena& arena, Value value) {
  switch (arena.kind(value)) {
    case ValueKind::boolean:
      return *arena.as_boolean(value);
    case ValueKind::integer:
      if (const auto number = arena.as_unsigned(value)) return *number;
      return *arena.as_signed(value);
    case ValueKind::number:
      return *arena.as_number(value);
    case ValueKind::text:
      return std::string(arena.text(value));
    case ValueKind::list:
    case ValueKind::tuple: {
      Document list = Document::array();
      for (const Value item : arena.items(value)) list.push_back(document_of(arena, item));
      return list;
    }
    case ValueKind::dict: {
      Document dict = Document::object();
      const auto items = arena.items(value);
      for (std::size_t i = 0; i < items.size(); i += 2)
        dict.push_back({std::string(arena.text(items[i])), document_of(arena, items[i + 1])});
      return dict;
    }
    default:
      return nullptr;
  }
}

/// The content of a pickle that is known to be valid.
inline Document read_history(const std::filesystem::path& file) {
  class NoStreaming final : public DocumentSink {
    std::string_view streamed_key() const override { return {}; }
    Result<void> take(std::size_t, Value, std::span<const Value>) override { return {}; }
  };
  ByteCursor bytes(*open_bytes(file), {});
  ValueArena arena;
  NoStreaming sink;
  return document_of(arena, *unpickle(bytes, arena, sink));
}

}  // namespace memreel::test
