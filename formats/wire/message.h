// SPDX-License-Identifier: Apache-2.0
// Writes and reads structs as protobuf messages by the lists of their members.
//
// Members that equal their type's default are left out; a reader leaves them as they are, so that has to be a member's
// own default, too. Of optional numbers, 0 stands for none and N + 1 for N. `Rows` has the tables of interned values:
// row_of(value) gives a row, at(row, value) a value, or false if there is no such row.
#pragma once

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <tuple>
#include <type_traits>

#include "formats/model/stack_text.h"
#include "formats/model/units.h"

namespace memreel::wire {

// Structs stored as protobuf messages: beside each, a list of its members, by which wire/message.h writes and reads it.

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

// Reads the fields of an untrusted protobuf message.

/// protozero's reader with typed field numbers, which also throws protozero::exception if a field has the wrong wire
/// type (protozero itself treats that as a programming error).
template <class Field>
class MessageReader {
 public:
  explicit MessageReader(std::string_view message) : reader_(message.data(), message.size()) {}

  bool next() { return reader_.next(); }
  Field field() const { return static_cast<Field>(reader_.tag()); }
  void skip() { reader_.skip(); }
  bool is_bytes() const { return reader_.wire_type() == protozero::pbf_wire_type::length_delimited; }

  std::uint32_t uint32() { return typed(protozero::pbf_wire_type::varint).get_uint32(); }
  std::uint64_t uint64() { return typed(protozero::pbf_wire_type::varint).get_uint64(); }
  std::int32_t sint32() { return typed(protozero::pbf_wire_type::varint).get_sint32(); }
  std::int64_t sint64() { return typed(protozero::pbf_wire_type::varint).get_sint64(); }
  std::uint64_t fixed64() { return typed(protozero::pbf_wire_type::fixed64).get_fixed64(); }
  std::uint32_t fixed32() { return typed(protozero::pbf_wire_type::fixed32).get_fixed32(); }
  double floating() { return typed(protozero::pbf_wire_type::fixed64).get_double(); }
  bool boolean() { return uint64() != 0; }

  std::string_view bytes() {
    const auto view = typed(protozero::pbf_wire_type::length_delimited).get_view();
    return {view.data(), view.size()};
  }
  /// A packed list of varints.
  std::vector<std::uint64_t> numbers() {
    const auto range = typed(protozero::pbf_wire_type::length_delimited).get_packed_uint64();
    return {range.begin(), range.end()};
  }
  /// A packed list of fixed64.
  std::vector<std::uint64_t> fixed_numbers() {
    const auto range = typed(protozero::pbf_wire_type::length_delimited).get_packed_fixed64();
    return {range.begin(), range.end()};
  }

 private:
  protozero::pbf_reader& typed(protozero::pbf_wire_type expected) {
    if (reader_.wire_type() != expected) throw protozero::unknown_pbf_wire_type_exception{};
    return reader_;
  }

  protozero::pbf_reader reader_;
};

/// Reads columns, each a packed list of varints. Other fields are skipped.
template <class Field>
void read_columns(std::string_view message,
                  std::initializer_list<std::pair<Field, std::vector<std::uint64_t>*>> columns) {
  for (MessageReader<Field> fields(message); fields.next();) {
    const auto column =
        std::ranges::find(columns, fields.field(), &std::pair<Field, std::vector<std::uint64_t>*>::first);
    if (column == columns.end())
      fields.skip();
    else
      *column->second = fields.numbers();
  }
}

template <class Value>
inline constexpr bool is_list = false;
template <class Item>
inline constexpr bool is_list<std::vector<Item>> = true;

template <class Value>
inline constexpr bool is_optional = false;
template <class Value>
inline constexpr bool is_optional<std::optional<Value>> = true;

/// A number, size, duration, flag or enumerator as a varint.
template <class Value>
std::uint64_t varint_of(const Value& value) {
  if constexpr (is_optional<Value>)
    return value ? varint_of(*value) + 1 : 0;
  else if constexpr (std::is_same_v<Value, Bytes>)
    return value.count;
  else if constexpr (std::is_same_v<Value, Nanoseconds>)
    return protozero::encode_zigzag64(value.count());
  else if constexpr (std::is_signed_v<Value>)
    return protozero::encode_zigzag64(value);
  else
    return static_cast<std::uint64_t>(value);
}

/// The inverse. Of an enumeration, what is beyond highest(), which is declared beside it, is that.
template <class Value>
void read_varint(std::uint64_t number, Value& value) {
  if constexpr (is_optional<Value>) {
    value.reset();
    if (number > 0) read_varint(number - 1, value.emplace());
  } else if constexpr (std::is_same_v<Value, Bytes>)
    value.count = number;
  else if constexpr (std::is_same_v<Value, Nanoseconds>)
    value = Nanoseconds{protozero::decode_zigzag64(number)};
  else if constexpr (std::is_enum_v<Value>)
    value = static_cast<Value>(std::min(number, static_cast<std::uint64_t>(highest(Value{}))));
  else if constexpr (std::is_same_v<Value, bool>)
    value = number != 0;
  else if constexpr (std::is_signed_v<Value>)
    value = static_cast<Value>(protozero::decode_zigzag64(number));
  else
    value = static_cast<Value>(number);
}

template <class Row, class Rows>
void write_message(protozero::pbf_writer& out, const Row& row, Rows& rows);
template <class Row, class Rows>
void read_message(std::string_view bytes, Row& row, const Rows& rows);
template <class Row, class Rows>
bool read_field(MessageReader<std::uint32_t>& in, Row& row, const Rows& rows);

template <Coding coding, class Value, class Rows>
void write_value(protozero::pbf_writer& out, std::uint32_t number, const Value& value, Rows& rows) {
  if constexpr (coding == Coding::interned && is_list<Value>) {
    std::vector<std::uint32_t> places;
    for (const auto& item : value) places.push_back(rows.row_of(item));
    out.add_packed_uint32(number, places.begin(), places.end());
  } else if constexpr (coding == Coding::interned) {
    out.add_uint32(number, rows.row_of(value));
  } else if constexpr (std::is_same_v<Value, std::string>) {
    out.add_string(number, value);
  } else if constexpr (HasMembers<Value>) {
    protozero::pbf_writer inner(out, number);
    write_message(inner, value, rows);
  } else if constexpr (std::is_same_v<Value, std::map<std::string, std::string>>) {
    for (const auto& [key, text] : value) {
      protozero::pbf_writer pair(out, number);
      pair.add_string(1, key);
      pair.add_string(2, text);
    }
  } else if constexpr (std::is_same_v<Value, std::vector<Bytes>>) {
    std::vector<std::uint64_t> numbers;
    for (const Bytes size : value) numbers.push_back(size.count);
    out.add_packed_uint64(number, numbers.begin(), numbers.end());
  } else if constexpr (is_list<Value>) {
    for (const auto& item : value) write_value<coding>(out, number, item, rows);
  } else if constexpr (std::is_floating_point_v<Value>) {
    out.add_double(number, value);
  } else if constexpr (coding == Coding::fixed && sizeof(Value) == sizeof(std::uint64_t)) {
    out.add_fixed64(number, value);
  } else if constexpr (coding == Coding::fixed) {
    out.add_fixed32(number, value);
  } else {
    out.add_uint64(number, varint_of(value));
  }
}

template <Coding coding, class Value, class Rows>
void read_value(MessageReader<std::uint32_t>& in, Value& value, const Rows& rows) {
  if constexpr (coding == Coding::interned && is_list<Value>) {
    value.clear();
    for (const std::uint64_t row : in.numbers())
      if (!rows.at(row, value.emplace_back())) value.pop_back();
  } else if constexpr (coding == Coding::interned) {
    rows.at(in.uint64(), value);
  } else if constexpr (coding == Coding::verbatim) {
    value = in.bytes();
  } else if constexpr (std::is_same_v<Value, std::string>) {
    value = printable(in.bytes());
  } else if constexpr (HasMembers<Value>) {
    read_message(in.bytes(), value, rows);
  } else if constexpr (std::is_same_v<Value, std::map<std::string, std::string>>) {
    std::string key, text;
    for (MessageReader<std::uint32_t> pair(in.bytes()); pair.next();) {
      if (pair.field() == 1)
        key = printable(pair.bytes());
      else if (pair.field() == 2)
        text = printable(pair.bytes());
      else
        pair.skip();
    }
    value[std::move(key)] = std::move(text);
  } else if constexpr (std::is_same_v<Value, std::vector<Bytes>>) {
    value.clear();
    for (const std::uint64_t size : in.numbers()) value.push_back({size});
  } else if constexpr (is_list<Value>) {
    read_value<coding>(in, value.emplace_back(), rows);
  } else if constexpr (std::is_floating_point_v<Value>) {
    value = in.floating();
  } else if constexpr (coding == Coding::fixed && sizeof(Value) == sizeof(std::uint64_t)) {
    value = in.fixed64();
  } else if constexpr (coding == Coding::fixed) {
    value = in.fixed32();
  } else {
    read_varint(in.uint64(), value);
  }
}

/// Whether the current field is a column of `list`, which it then has been read into. Columns of unequal length are no
/// list.
template <class Item>
bool read_column(MessageReader<std::uint32_t>& in, std::vector<Item>& list) {
  const auto read = [&](const auto& column) {
    if (in.field() != column.number) return false;
    const bool is_fixed = std::remove_cvref_t<decltype(column)>::coding == Coding::fixed;
    const std::vector<std::uint64_t> numbers = is_fixed ? in.fixed_numbers() : in.numbers();
    if (list.empty()) list.resize(numbers.size());
    if (list.size() != numbers.size()) throw protozero::invalid_length_exception{};
    for (std::size_t i = 0; i < numbers.size(); ++i) read_varint(numbers[i], list[i].*column.at);
    return true;
  };
  return std::apply([&](const auto&... column) { return (read(column) || ...); }, MembersOf<Item>::all);
}

template <class Item>
void write_columns(protozero::pbf_writer& out, const std::vector<Item>& list) {
  const auto write = [&](const auto& column) {
    std::vector<std::uint64_t> numbers;
    for (const Item& item : list) numbers.push_back(varint_of(item.*column.at));
    if constexpr (std::remove_cvref_t<decltype(column)>::coding == Coding::fixed)
      out.add_packed_fixed64(column.number, numbers.begin(), numbers.end());
    else
      out.add_packed_uint64(column.number, numbers.begin(), numbers.end());
  };
  std::apply([&](const auto&... column) { (write(column), ...); }, MembersOf<Item>::all);
}

/// Whether the current field is a member of `row`, which it then has been read into. Throws protozero::exception if it
/// is malformed.
template <class Row, class Rows>
bool read_field(MessageReader<std::uint32_t>& in, Row& row, const Rows& rows) {
  const auto read = [&]<class M>(const M& member) {
    auto& value = row.*member.at;
    if constexpr (M::coding == Coding::inlined) {
      return read_field(in, value, rows);
    } else if constexpr (M::coding == Coding::columns) {
      return read_column(in, value);
    } else {
      if (in.field() != member.number) return false;
      read_value<M::coding>(in, value, rows);
      return true;
    }
  };
  return std::apply([&](const auto&... member) { return (read(member) || ...); }, MembersOf<Row>::all);
}

/// Fields that `row` does not have are skipped. Throws protozero::exception if it is malformed.
template <class Row, class Rows>
void read_message(std::string_view bytes, Row& row, const Rows& rows) {
  for (MessageReader<std::uint32_t> in(bytes); in.next();)
    if (!read_field(in, row, rows)) in.skip();
}

template <class Row, class Rows>
void write_message(protozero::pbf_writer& out, const Row& row, Rows& rows) {
  const auto write = [&]<class M>(const M& member) {
    const auto& value = row.*member.at;
    if constexpr (M::coding == Coding::inlined)
      write_message(out, value, rows);
    else if constexpr (M::coding == Coding::columns)
      write_columns(out, value);
    else if (M::coding == Coding::interned || value != std::remove_cvref_t<decltype(value)>{})
      write_value<M::coding>(out, member.number, value, rows);
  };
  std::apply([&](const auto&... member) { (write(member), ...); }, MembersOf<Row>::all);
}

}  // namespace memreel::wire
