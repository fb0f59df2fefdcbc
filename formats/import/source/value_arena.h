// SPDX-License-Identifier: Apache-2.0
// The values of a parsed document (pickle or JSON): numbers, texts, lists and dictionaries, eight bytes each, in one
// arena. Values may be shared and may even contain themselves: nothing here follows references, so neither is a
// problem.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

enum class ValueKind : std::uint8_t {
  none,
  boolean,
  integer,
  huge_integer,  // does not fit 64 bits; its value is not kept
  number,        // floating point
  text,
  list,
  tuple,
  dict,
};

/// For error messages: "an integer", "a list".
std::string_view described(ValueKind kind);

/// A number of up to 61 bits, a constant, or a reference to an object of the arena that made it.
class Value {
 public:
  Value() = default;  // none

  friend bool operator==(Value, Value) = default;

 private:
  friend class ValueArena;
  enum class Tag : std::uint8_t { none, no, yes, integer, object };
  static constexpr unsigned tag_bits = 3;

  constexpr Value(Tag tag, std::uint64_t payload) : bits_(payload << tag_bits | static_cast<std::uint64_t>(tag)) {}
  Tag tag() const { return static_cast<Tag>(bits_ & 7U); }
  std::uint32_t object() const { return static_cast<std::uint32_t>(bits_ >> tag_bits); }
  std::int64_t integer() const { return static_cast<std::int64_t>(bits_) >> tag_bits; }

  std::uint64_t bits_ = 0;
};

/// Owns the values of one document.
///
/// An object is an 8-byte header; the items of containers are in a second array, texts in a third. Two mechanisms keep
/// memory from growing with the document: a processed object is marked `used` and keeps only a number for later
/// references to it, and recycle() reclaims the items of used objects.
class ValueArena {
 public:
  static constexpr Bytes no_limit{std::numeric_limits<std::uint64_t>::max()};

  /// `document_size` (bytes; 0: unknown) is used to reserve memory. Beyond `memory_limit` bytes the arena is full().
  explicit ValueArena(std::uint64_t document_size = 0, Bytes memory_limit = no_limit);

  // ---- making values

  static Value boolean(bool value) { return {value ? Value::Tag::yes : Value::Tag::no, 0}; }
  Value integer(std::int64_t value) {
    if (value >= 0) return integer(static_cast<std::uint64_t>(value));
    if (value < -static_cast<std::int64_t>(inline_limit)) return huge_integer();
    return {Value::Tag::integer, static_cast<std::uint64_t>(value)};
  }
  Value integer(std::uint64_t value) {
    if (value < inline_limit) return {Value::Tag::integer, value};
    return boxed(ValueKind::integer, std::bit_cast<Value>(value));
  }
  Value number(double value);
  Value huge_integer() { return make(ValueKind::huge_integer); }
  /// A container without items. Returns none only if the document has more than 2^32 objects, see full().
  Value make(ValueKind kind) {
    if (objects_.size() >= most_) {
      full_ = true;
      return {};
    }
    objects_.emplace_back().kind = kind;
    return reference(objects_.size() - 1);
  }
  /// A text built from pieces: begin_text(), any number of add_text(), end_text().
  void begin_text() {
    make(ValueKind::text);
    if (full_) return;
    objects_.back().first = static_cast<std::uint32_t>(texts_.size());
    texts_.push_back('\0');
  }
  void add_text(std::span<const std::byte> piece) {
    full_ = full_ || texts_.size() > most_;
    if (full_) return;
    texts_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  Value end_text() {
    if (full_) return {};
    const std::size_t length = texts_.size() - objects_.back().first - 1;
    full_ = length > max_count || texts_.size() > most_;
    objects_.back().count = length & max_count;
    return reference(objects_.size() - 1);
  }

  /// Appends to a list, or alternating keys and values to a dict. `items` is not part of this arena. False if the
  /// container is already used, or would exceed the arena's limits.
  [[nodiscard]] bool append(Value container, std::span<const Value> items);

  /// True once the document is larger than the arena can address (4 Gi objects, items, or bytes of text) or its limit.
  bool full() const { return full_; }
  /// A parser may use as much memory as the arena.
  Bytes memory_limit() const { return memory_limit_; }
  /// The error for a document that exceeds the arena or its parser.
  Error too_large(const std::string& where, std::uint64_t offset) const;

  // ---- reading values

  ValueKind kind(Value value) const {
    switch (value.tag()) {
      case Value::Tag::none:
        return ValueKind::none;
      case Value::Tag::no:
      case Value::Tag::yes:
        return ValueKind::boolean;
      case Value::Tag::integer:
        return ValueKind::integer;
      case Value::Tag::object:
        break;
    }
    return objects_[value.object()].kind;
  }
  bool is(Value value, ValueKind kind_wanted) const { return kind(value) == kind_wanted; }

  std::optional<bool> as_boolean(Value value) const;
  std::optional<std::int64_t> as_signed(Value value) const {
    if (value.tag() == Value::Tag::integer) return value.integer();
    return as_signed_boxed(value);
  }
  std::optional<std::uint64_t> as_unsigned(Value value) const {
    if (value.tag() == Value::Tag::integer) {
      if (value.integer() < 0) return std::nullopt;
      return static_cast<std::uint64_t>(value.integer());
    }
    if (!is(value, ValueKind::integer)) return std::nullopt;
    return std::bit_cast<std::uint64_t>(items_[objects_[value.object()].first]);
  }
  std::optional<double> as_number(Value value) const;  // integers too
  /// Only for texts. Valid until the next text is made.
  std::string_view text(Value value) const {
    const Object& object = objects_[value.object()];
    return std::string_view(texts_).substr(object.first + std::size_t{1}, object.count);
  }
  /// Only for texts: a byte in which the document's reader notes what it recognised. Initially 0.
  std::uint8_t text_note(Value value) const {
    return static_cast<std::uint8_t>(texts_[objects_[value.object()].first]);
  }
  void set_text_note(Value value, std::uint8_t note) {
    texts_[objects_[value.object()].first] = static_cast<char>(note);
  }
  /// The items of a list or tuple; alternating keys and values of a dict. Empty once used. Valid until the next
  /// append().
  std::span<const Value> items(Value container) const {
    const Object& object = objects_[container.object()];
    if (object.used) return {};
    return std::span(items_).subspan(object.first, object.count);
  }

  // ---- discarding values

  /// Only for containers: discards the items; `result` replaces them from now on.
  void use(Value container, std::uint32_t result) {
    Object& object = objects_[container.object()];
    object.used = 1;
    object.first = result;
    object.count = 0;
  }
  /// The `result` given to use(); none if it was not used.
  std::optional<std::uint32_t> used(Value container) const {
    const Object& object = objects_[container.object()];
    if (object.used == 0) return std::nullopt;
    return object.first;
  }

  /// The amount of data at an instant.
  struct Extent {
    std::size_t objects = 0, items = 0, texts = 0;
  };
  Extent extent() const { return {objects_.size(), items_.size(), texts_.size()}; }
  /// Reclaims the items of containers made since the last call that are now used. Cost: what was made since.
  void recycle();
  /// Discards everything made since `extent`; nothing older may refer to it.
  void truncate(Extent extent);

 private:
  static constexpr std::uint64_t inline_limit = std::uint64_t{1} << 60U;
  static constexpr std::size_t max_count = (std::size_t{1} << 27U) - 1;
  static constexpr std::size_t max_index = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::size_t bytes_for_each = 16;  // of a vector that grew to hold eight

  struct Object {
    std::uint32_t first = 0;  // index in items_ or texts_; for a used container: its result
    std::uint32_t count : 27 = 0;
    std::uint32_t used : 1 = 0;
    ValueKind kind : 4 = ValueKind::none;
  };
  static_assert(sizeof(Object) == 8);

  Value reference(std::size_t object) const { return {Value::Tag::object, object}; }
  Value boxed(ValueKind kind, Value content);
  std::optional<std::int64_t> as_signed_boxed(Value value) const;
  bool holds_items(const Object& object) const { return object.kind != ValueKind::text && !object.used; }

  std::vector<Object> objects_;
  std::vector<Value> items_;
  std::string texts_;      // each: a note byte, then the text
  Extent recycled_;        // the extent after the last recycle()
  bool grew_old_ = false;  // an older object got items since
  Bytes memory_limit_;
  std::size_t most_;  // objects, items, and bytes of text
  bool full_ = false;
};

// A cache of a document's recent short texts.

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
