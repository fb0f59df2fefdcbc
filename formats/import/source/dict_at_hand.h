// SPDX-License-Identifier: Apache-2.0
// Reads a dict of a pickle directly, without the pickle's machine: one written like the entries of a history.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "formats/import/source/pickle_opcodes.h"
#include "formats/import/source/value_arena.h"

namespace memreel {

/// Nearly all of a snapshot is entries that a pickler writes alike: a dict with texts it wrote before as keys, whose
/// values are numbers, short texts, references, pairs of numbers, or lists of references. Between the entries nothing
/// changes but the memo, so they need no stack.
///
/// Everything that it reads, it reads as the machine would. It refuses whatever else there is, and then leaves arena
/// and memo as they were.
class DictAtHand {
 public:
  /// It looks at that many bytes, and refuses longer dicts.
  static constexpr std::size_t longest = 8192;

  DictAtHand(ValueArena& arena, std::vector<Value>& memo, const RecentTexts& texts)
      : arena_(arena), memo_(memo), texts_(texts) {}

  /// Whether `bytes` may begin with a dict.
  static bool may_follow(std::span<const std::byte> bytes) {
    return bytes.size() >= longest && bytes[0] == static_cast<std::byte>(PickleOpcode::empty_dict);
  }
  /// Before the first dict after the machine ran.
  void begin() { keys_ = {}; }
  /// Reads the dict at the beginning of `bytes`; returns how many of them it is, 0 if refused. In the memo, `stand_in`
  /// takes its place.
  std::size_t read(std::span<const std::byte> bytes, Value stand_in);
  /// Alternating keys and values of the latest dict.
  std::span<const Value> items() const { return std::span(items_).first(count_); }
  /// Whether the keys are those of the dict before.
  bool has_same_keys() const { return has_same_keys_; }
  /// Forgets the latest dict, as if it had been refused.
  void undo();

 private:
  static constexpr std::size_t most_keys = 24, most_listed = 512;
  using At = const std::byte*;

  /// How the latest dict wrote a key: the next one has the same at the same place. Without bytes, none is known.
  struct KnownKey {
    std::uint64_t bytes = 0, mask = 0;
    std::size_t length = 0;
  };

  // Each returns where what it reads ends, null if refused.
  At read_dict(At at, Value stand_in);
  At read_key(At at, std::size_t which);
  At read_value(At at, Value& into);
  At read_reference(At at, Value& into) const;
  At read_integer(At at, Value& into);
  At read_pair(At at, Value first, Value& into);
  At read_text(At at, Value& into);
  At read_list(At at, Value& into);
  At memoize(At at, Value value);

  ValueArena& arena_;
  std::vector<Value>& memo_;
  const RecentTexts& texts_;
  std::array<Value, 2 * most_keys> items_;
  std::size_t count_ = 0;
  bool has_same_keys_ = false;
  std::array<KnownKey, most_keys> keys_;
  std::array<Value, most_listed> listed_;
  At last_ = nullptr;          // where the longest value can still begin
  ValueArena::Extent extent_;  // before the latest dict
  std::size_t memoized_ = 0;   // before the latest dict
};

}  // namespace memreel
