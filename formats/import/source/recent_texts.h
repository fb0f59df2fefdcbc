// A cache of a document's recent short texts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "formats/import/source/value_arena.h"

namespace memreel {

/// Pickles repeat a text for every object with its own string: each entry of a history, for example, has the name of
/// its action.
class RecentTexts {
 public:
  /// A text of at most 16 bytes. Bytes beyond `length` are 0.
  struct Text {
    std::uint64_t first = 0, second = 0;
    std::uint64_t length = 0;

    static constexpr std::size_t most = 2 * sizeof first;
    /// `bytes`: `most` of them, whatever the length.
    static Text of(std::span<const std::byte> bytes, std::uint64_t length) {
      constexpr std::uint64_t half = most / 2;
      const auto kept = [](std::uint64_t word, std::uint64_t count) {
        return count >= half ? word : word & ((std::uint64_t{1} << (8 * count)) - 1);
      };
      Text text{.length = length};
      std::memcpy(&text.first, bytes.data(), half);
      std::memcpy(&text.second, bytes.data() + half, half);
      text.first = kept(text.first, length);
      text.second = length > half ? kept(text.second, length - half) : 0;
      return text;
    }
    friend bool operator==(const Text&, const Text&) = default;
  };

  /// Its value if recently seen, else null.
  const Value* find(const Text& text) const {
    const Known& known = known_[slot_of(text)];
    return known.text == text ? &known.value : nullptr;
  }
  void add(const Text& text, Value value) { known_[slot_of(text)] = {text, value}; }

 private:
  struct Known {
    Text text{.length = Text::most + 1};  // no text has that length
    Value value;
  };
  static constexpr unsigned slots_log2 = 7;

  static std::size_t slot_of(const Text& text) {
    constexpr std::uint64_t odd = 0x9E37'79B9'7F4A'7C15;  // 2^64 divided by the golden ratio
    return ((text.first ^ (text.second * odd)) * odd) >> (64 - slots_log2);
  }

  std::array<Known, std::size_t{1} << slots_log2> known_;
};

}  // namespace memreel
