// SPDX-License-Identifier: Apache-2.0
// Structs stored as protobuf messages: beside each, a list of its members, by which wire/message.h writes and reads it.
#pragma once

#include <cstdint>

namespace memreel::wire {

enum class Coding : std::uint8_t {
  plain,     // numbers as varints, text made printable when it is read
  fixed,     // numbers in all their bytes: hashes
  verbatim,  // text as it is: names that are compared or opened
  interned,  // as the row of an equal value in a table beside it; for lists, the rows of their items
  inlined,   // the members of a struct, as if they were the message's
  columns,   // of a list of structs of numbers: each of their members as a packed list of the message
};

/// A member and the number of its field, which is never given to another one.
template <Coding coding_, class Row, class Value>
struct Member {
  static constexpr Coding coding = coding_;
  std::uint32_t number = 0;
  Value Row::*at = nullptr;
};

/// The members of a struct as `static constexpr std::tuple all`, in the order in which they are written. Specialised
/// beside each struct.
template <class Row>
struct MembersOf;

template <class Row>
concept HasMembers = requires {
  MembersOf<Row>::all;
};

template <class Row, class Value>
constexpr auto member(std::uint32_t number, Value Row::*at) {
  return Member<Coding::plain, Row, Value>{number, at};
}
template <class Row, class Value>
constexpr auto fixed(std::uint32_t number, Value Row::*at) {
  return Member<Coding::fixed, Row, Value>{number, at};
}
template <class Row, class Value>
constexpr auto verbatim(std::uint32_t number, Value Row::*at) {
  return Member<Coding::verbatim, Row, Value>{number, at};
}
template <class Row, class Value>
constexpr auto interned(std::uint32_t number, Value Row::*at) {
  return Member<Coding::interned, Row, Value>{number, at};
}
template <class Row, class Value>
constexpr auto inlined(Value Row::*at) {
  return Member<Coding::inlined, Row, Value>{0, at};
}
template <class Row, class Value>
constexpr auto columns(Value Row::*at) {
  return Member<Coding::columns, Row, Value>{0, at};
}

}  // namespace memreel::wire
