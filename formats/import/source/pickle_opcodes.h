// SPDX-License-Identifier: Apache-2.0
// The opcodes of Python's pickle format, protocols 0 to 5 (Lib/pickletools.py documents each).
#pragma once

#include <cstdint>
#include <string_view>

namespace memreel {

/// The opcodes that build plain data. All others are refused.
enum class PickleOpcode : std::uint8_t {
  mark = '(',
  stop = '.',
  binfloat = 'G',
  binint = 'J',
  binint1 = 'K',
  binint2 = 'M',
  none = 'N',
  binunicode = 'X',
  append = 'a',
  appends = 'e',
  binget = 'h',
  long_binget = 'j',
  empty_list = ']',
  empty_tuple = ')',
  empty_dict = '}',
  binput = 'q',
  long_binput = 'r',
  setitem = 's',
  setitems = 'u',
  tuple = 't',
  proto = 0x80,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  newtrue = 0x88,
  newfalse = 0x89,
  long1 = 0x8A,
  long4 = 0x8B,
  short_binunicode = 0x8C,
  binunicode8 = 0x8D,
  memoize = 0x94,
  frame = 0x95,
};

/// "GLOBAL" for 'c'; empty for a byte that is no opcode of any protocol.
std::string_view pickle_opcode_name(std::uint8_t opcode);

/// The two's complement number whose lowest `bytes` (1 to 8) bytes are `bits`, as LONG1 has it.
constexpr std::int64_t sign_extended(std::uint64_t bits, std::uint32_t bytes) {
  const std::uint32_t unused = 8 * (static_cast<std::uint32_t>(sizeof bits) - bytes);
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

}  // namespace memreel
