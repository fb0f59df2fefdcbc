// SPDX-License-Identifier: Apache-2.0
#include "formats/wire/column.h"

namespace memreel::wire {

std::size_t count_varints(std::string_view bytes) {
  // One-byte counters, of which a processor adds sixteen at once. They can't overflow within one part.
  constexpr std::size_t part_size = 240;
  const auto ends_in = [](std::string_view part) {
    std::uint8_t count = 0;
    for (const char byte : part)
      count = static_cast<std::uint8_t>(count + (static_cast<signed char>(byte) >= 0 ? 1 : 0));
    return std::size_t{count};
  };
  std::size_t count = 0;
  for (; bytes.size() > part_size; bytes.remove_prefix(part_size)) count += ends_in(bytes.substr(0, part_size));
  return count + ends_in(bytes);
}

namespace detail {

std::uint64_t read_long_varint(const char*& from) {
  // Ends at the end of the column at the latest, whose last byte ends a varint. Bits beyond 64 are dropped, as in
  // protobuf.
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(*from++);
    if (shift < 64) value |= (byte & std::uint64_t{0x7F}) << shift;
    if (byte < 0x80) return value;
  }
}

const char* skip_varints(const char* from, std::size_t count) {
  while (count >= 8) {  // eight bytes never hold more than that many ends
    std::uint64_t word = 0;
    std::memcpy(&word, from, sizeof word);
    const std::uint64_t ends = (~word >> 7U) & 0x0101'0101'0101'0101U;          // a one in each byte that ends a varint
    count -= static_cast<std::size_t>((ends * 0x0101'0101'0101'0101U) >> 56U);  // their sum
    from += sizeof word;
  }
  while (count > 0) count -= static_cast<std::size_t>(static_cast<signed char>(*from++) >= 0);
  return from;
}

}  // namespace detail
}  // namespace memreel::wire
