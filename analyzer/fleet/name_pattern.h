// A regular expression that is looked for in names, in time that grows with the name's length alone.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/result.h"

namespace memreel {

/// ECMAScript's regular expressions, upper and lower case alike, without look-ahead and back references. Every way to
/// match is followed at once, a byte at a time (Thompson, "Regular expression search algorithm", CACM 11, 1968), with
/// the priorities that decide between them as in Pike's sam: no pattern makes the search exponential.
class NamePattern {
 public:
  static constexpr std::size_t longest = 256;              // bytes of a pattern
  static constexpr std::size_t most_instructions = 2'000;  // repetitions are written out

  /// Errors: `text` is too long, too large when written out, no regular expression, or has no group.
  static Result<NamePattern> parse(std::string_view text);

  /// What the first group matched, in the leftmost match; empty where the group took no part. None without a match.
  /// Time: `name`'s bytes times most_instructions, at most.
  std::optional<std::string_view> first_group(std::string_view name) const;

  using Set = std::bitset<256>;

  struct Instruction {
    enum class Kind : std::uint8_t { byte, split, jump, group_begin, group_end, begin, end, edge, no_edge, match };
    Kind kind = Kind::match;
    std::uint32_t next = 0;   // split: tried first
    std::uint32_t other = 0;  // split: tried then; byte: which of `sets`
  };

 private:
  class Search;

  std::vector<Instruction> program_;
  std::vector<Set> sets_;
};

}  // namespace memreel
