// SPDX-License-Identifier: Apache-2.0
// Writes and reads structs as protobuf messages by the lists of their members.
//
// Members that equal their type's default are left out; a reader leaves them as they are, so that has to be a member's
// own default, too. Of optional numbers, 0 stands for none and N + 1 for N. `Rows` has the tables of interned values:
// row_of(value) gives a row, at(row, value) a value, or false if there is no such row. Ids are the numbers of rows in
// the file: at(row, id) makes them ids, at_back(n, i, id) if the row is n before the i-th of those that are read. A
// value with a coding of its own has encode(value) and decode(bytes, value) beside it.
#pragma once

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <tuple>
#include <type_traits>

#include "formats/model/printable.h"
#include "formats/model/trace.h"
#include "formats/wire/column.h"

namespace memreel::wire {

// Structs stored as protobuf messages: beside each, a list of its members, by which wire/message.h writes and reads it.

enum class Coding : std::uint8_t {
  plain,     // numbers as varints, text made printable when it is read
  always,    // the same, written even if it is the default
  fixed,     // numbers in all their bytes: hashes, addresses
  verbatim,  // text as it is: names that are compared or opened, and what is no text
  inverted,  // a flag that is set unless the field says otherwise
  interned,  // as the row of an equal value in a table beside it; for lists, the rows of their items
  inlined,   // the members of a struct, as if they were the message's
  columns,   // of a list of structs of numbers: each of their members as a packed list of the message
  delta,     // in a column: since the row before
  back,      // in a column: how many rows before its own the row is; 0: none
  sparse,    // in a column, which is left out if it has nothing but zeros
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

/// The number of a member's field: number_of(&Row::name).
template <class Row, class Value>
consteval std::uint32_t number_of(Value Row::*at) {
  std::uint32_t number = 0;
  const auto look_at = [&]<Coding coding, class Other>(const Member<coding, Row, Other>& member) {
    if constexpr (std::is_same_v<Other, Value>)
      if (member.at == at) number = member.number;
  };
  std::apply([&](const auto&... each) { (look_at(each), ...); }, MembersOf<Row>::all);
  if (number == 0) throw "not in the list";  // ends the compilation
  return number;
}

/// Makes members with that coding: member(1, &Row::name).
template <Coding coding>
struct MemberMaker {
  template <class Row, class Value>
  constexpr auto operator()(auto number, Value Row::*at) const {
    return Member<coding, Row, Value>{static_cast<std::uint32_t>(number), at};
  }
  template <class Row, class Value>
  constexpr auto operator()(Value Row::*at) const {  // has no field of its own
    return Member<coding, Row, Value>{0, at};
  }
};
inline constexpr MemberMaker<Coding::plain> member;
inline constexpr MemberMaker<Coding::always> always;
inline constexpr MemberMaker<Coding::fixed> fixed;
inline constexpr MemberMaker<Coding::verbatim> verbatim;
inline constexpr MemberMaker<Coding::inverted> inverted;
inline constexpr MemberMaker<Coding::interned> interned;
inline constexpr MemberMaker<Coding::inlined> inlined;
inline constexpr MemberMaker<Coding::columns> columns;
inline constexpr MemberMaker<Coding::delta> delta;
inline constexpr MemberMaker<Coding::back> back;
inline constexpr MemberMaker<Coding::sparse> sparse;

/// The Rows of messages without interned values, whose ids are read as the file's.
struct FileRows {
  bool out_of_range = false;  // whether a row's number was larger than any id, and has been cut

  template <class Id>
  void at(std::uint64_t row, Id& id) {
    out_of_range = out_of_range || row > ~std::uint32_t{};
    id = static_cast<Id>(row);
  }
};

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

template <class Value>
inline constexpr bool is_list = false;
template <class Item>
inline constexpr bool is_list<std::vector<Item>> = true;

template <class Value>
inline constexpr bool is_map = false;
template <class... Of>
inline constexpr bool is_map<std::map<std::string, std::string, Of...>> = true;

/// The number of a row, or another one that stays as it is in the file.
template <class Value>
inline constexpr bool is_id = std::is_enum_v<Value> && sizeof(Value) == sizeof(std::uint32_t);

template <class Value>
inline constexpr bool is_optional = false;
template <class Value>
inline constexpr bool is_optional<std::optional<Value>> = true;

/// A number, size, address, duration, flag, enumerator, set of these or id as a varint.
template <class Value>
std::uint64_t varint_of(const Value& value) {
  if constexpr (is_optional<Value>)
    return value ? varint_of(*value) + 1 : 0;
  else if constexpr (std::is_same_v<Value, Bytes>)
    return value.count;
  else if constexpr (std::is_same_v<Value, Address>)
    return value.value;
  else if constexpr (requires { value.bits(); })
    return value.bits();
  else if constexpr (std::is_same_v<Value, Nanoseconds>)
    return protozero::encode_zigzag64(value.count());
  else if constexpr (std::is_signed_v<Value>)
    return protozero::encode_zigzag64(value);
  else
    return static_cast<std::uint64_t>(value);
}

/// The inverse. Of an enumeration, what is beyond highest(), which is declared beside it, is unknown_as(), or highest()
/// itself if that is not declared.
template <class Value>
void read_varint(std::uint64_t number, Value& value) {
  if constexpr (is_optional<Value>) {
    value.reset();
    if (number > 0) read_varint(number - 1, value.emplace());
  } else if constexpr (std::is_same_v<Value, Bytes>)
    value.count = number;
  else if constexpr (std::is_same_v<Value, Address>)
    value.value = number;
  else if constexpr (requires { Value::of_bits(number); })
    value = Value::of_bits(number);
  else if constexpr (std::is_same_v<Value, Nanoseconds>)
    value = Nanoseconds{protozero::decode_zigzag64(number)};
  else if constexpr (std::is_enum_v<Value>) {
    if (number <= static_cast<std::uint64_t>(highest(Value{})))
      value = static_cast<Value>(number);
    else if constexpr (requires { unknown_as(Value{}); })
      value = unknown_as(Value{});
    else
      value = highest(Value{});
  } else if constexpr (std::is_same_v<Value, bool>)
    value = number != 0;
  else if constexpr (std::is_signed_v<Value> && sizeof(Value) == sizeof(std::uint32_t))
    value = protozero::decode_zigzag32(static_cast<std::uint32_t>(number));
  else if constexpr (std::is_signed_v<Value>)
    value = static_cast<Value>(protozero::decode_zigzag64(number));
  else
    value = static_cast<Value>(number);
}

/// The same, or the id of a row.
template <class Value, class Rows>
void read_number(std::uint64_t number, Value& value, Rows& rows) {
  if constexpr (is_id<Value>)
    rows.at(number, value);
  else
    read_varint(number, value);
}

template <class Row, class Rows>
void write_message(protozero::pbf_writer& out, const Row& row, Rows& rows);
template <class Row, class Rows>
void read_message(std::string_view bytes, Row& row, Rows& rows);
template <class Row, class Rows>
bool read_field(MessageReader<std::uint32_t>& in, Row& row, Rows& rows);

template <Coding coding, class Value, class Rows>
void write_value(protozero::pbf_writer& out, std::uint32_t number, const Value& value, Rows& rows) {
  if constexpr (coding == Coding::interned && is_list<Value>) {
    std::vector<std::uint32_t> places;
    for (const auto& item : value) places.push_back(rows.row_of(item));
    out.add_packed_uint32(number, places.begin(), places.end());
  } else if constexpr (coding == Coding::interned) {
    out.add_uint32(number, rows.row_of(value));
  } else if constexpr (std::is_convertible_v<Value, std::string_view>) {
    out.add_bytes(number, value.data(), value.size());
  } else if constexpr (HasMembers<Value>) {
    protozero::pbf_writer inner(out, number);
    write_message(inner, value, rows);
  } else if constexpr (requires { encode(value); }) {
    out.add_bytes(number, encode(value));
  } else if constexpr (is_map<Value>) {
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
    out.add_fixed64(number, varint_of(value));
  } else if constexpr (coding == Coding::fixed) {
    out.add_fixed32(number, value);
  } else if constexpr (coding == Coding::inverted) {
    out.add_bool(number, !value);
  } else {
    out.add_uint64(number, varint_of(value));
  }
}

/// Of a map: the first value of a name counts, as for getenv(3).
template <class Map, class Text>
void read_entry(std::string_view bytes, Map& map, Text text) {
  std::string name, value;
  for (MessageReader<std::uint32_t> in(bytes); in.next();) {
    if (in.field() == 1)
      name = text(in.bytes());
    else if (in.field() == 2)
      value = text(in.bytes());
    else
      in.skip();
  }
  if (map.size() < max_variables) map.try_emplace(std::move(name), std::move(value));
}

template <Coding coding, class Value, class Rows>
void read_value(MessageReader<std::uint32_t>& in, Value& value, Rows& rows) {
  if constexpr (coding == Coding::interned && is_list<Value>) {
    value.clear();
    for (const std::uint64_t row : in.numbers())
      if (!rows.at(row, value.emplace_back())) value.pop_back();
  } else if constexpr (coding == Coding::interned) {
    rows.at(in.uint64(), value);
  } else if constexpr (is_map<Value>) {
    read_entry(in.bytes(), value, [](std::string_view bytes) {
      return coding == Coding::verbatim ? std::string(bytes) : printable(bytes);
    });
  } else if constexpr (coding == Coding::verbatim) {
    value = in.bytes();
  } else if constexpr (std::is_same_v<Value, std::string>) {
    value = printable(in.bytes());
  } else if constexpr (HasMembers<Value>) {
    read_message(in.bytes(), value, rows);
  } else if constexpr (requires { decode(in.bytes(), value); }) {
    decode(in.bytes(), value);
  } else if constexpr (std::is_same_v<Value, std::vector<Bytes>>) {
    value.clear();
    for (const std::uint64_t size : in.numbers()) value.push_back({size});
  } else if constexpr (is_list<Value>) {
    read_value<coding>(in, value.emplace_back(), rows);
  } else if constexpr (std::is_floating_point_v<Value>) {
    value = in.floating();
  } else if constexpr (coding == Coding::fixed && sizeof(Value) == sizeof(std::uint64_t)) {
    read_varint(in.fixed64(), value);
  } else if constexpr (coding == Coding::fixed) {
    value = in.fixed32();
  } else if constexpr (is_id<Value>) {
    rows.at(static_cast<std::uint32_t>(in.uint64()), value);
  } else if constexpr (coding == Coding::inverted) {
    value = in.uint64() == 0;
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

/// `first`: the number of the list's first row in its table.
template <class Item>
void write_columns(protozero::pbf_writer& out, std::span<const Item> list, std::uint64_t first = 0) {
  ColumnEncoder encoder;
  const auto write = [&]<class Column>(const Column& column) {
    const auto number_at = [&](std::size_t i) {
      const std::uint64_t number = varint_of(list[i].*column.at);
      if (Column::coding == Coding::delta && i > 0) return number - varint_of(list[i - 1].*column.at);
      if (Column::coding == Coding::back && number > 0) return first + i - number;
      return number;
    };
    if constexpr (Column::coding == Coding::fixed) {
      std::vector<std::uint64_t> numbers;
      for (std::size_t i = 0; i < list.size(); ++i) numbers.push_back(number_at(i));
      out.add_packed_fixed64(column.number, numbers.begin(), numbers.end());
    } else {
      const auto is_zero = [&](const Item& item) { return varint_of(item.*column.at) == 0; };
      if (list.empty() || (Column::coding == Coding::sparse && std::ranges::all_of(list, is_zero))) return;
      const std::string_view bytes = encoder.encode_all(list.size(), number_at);
      out.add_bytes(column.number, bytes.data(), bytes.size());
    }
  };
  std::apply([&](const auto&... column) { (write(column), ...); }, MembersOf<Item>::all);
}

/// Collects the columns of a list until its rows can be made of them: they may come in any order, and name rows that
/// follow them.
template <class Item>
class ColumnsOf {
 public:
  /// Whether the current field is one of them, which it then has been read.
  template <class Field>
  bool read(MessageReader<Field>& in) {
    auto* numbers = numbers_.data();
    const auto read_one = [&](const auto& column) {
      auto& to = *numbers++;
      if (static_cast<std::uint32_t>(in.field()) != column.number) return false;
      to = in.numbers();
      return true;
    };
    return std::apply([&](const auto&... column) { return (read_one(column) || ...); }, MembersOf<Item>::all);
  }

  /// The rows: numbers in the first column.
  std::size_t count() const { return numbers_.front().size(); }

  /// Whether each column has a number for every row. Sparse ones may be missing.
  bool have_equal_length() const {
    bool equal = true;
    for_each([&]<class Column>(const Column&, const std::vector<std::uint64_t>& numbers) {
      if (Column::coding != Coding::sparse || !numbers.empty()) equal = equal && numbers.size() == count();
    });
    return equal;
  }

  /// Appends the rows. A member for which a column has no number stays as it is by default.
  template <class Rows>
  void append_to(std::vector<Item>& list, Rows& rows) const {
    const std::size_t first = list.size();
    list.resize(first + count());
    for_each([&](const auto& column, const std::vector<std::uint64_t>& numbers) {
      fill(column, numbers, std::span(list).subspan(first), rows);
    });
  }
  void append_to(std::vector<Item>& list) const {
    FileRows rows;
    append_to(list, rows);
  }

 private:
  template <class Column, class Rows>
  static void fill(const Column& column, const std::vector<std::uint64_t>& numbers, std::span<Item> list, Rows& rows) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < std::min(list.size(), numbers.size()); ++i) {
      auto& value = list[i].*column.at;
      if constexpr (Column::coding == Coding::delta) {
        constexpr std::uint64_t most = ~std::uint64_t{} >> (64 - 8 * sizeof value);
        sum += numbers[i];
        if (numbers[i] > most || sum > most) throw protozero::invalid_length_exception{};
        read_number(sum, value, rows);
      } else if constexpr (Column::coding == Coding::back) {
        rows.at_back(numbers[i], i, value);
      } else {
        read_number(numbers[i], value, rows);
      }
    }
  }

  template <class Use>
  void for_each(Use use) const {
    const auto* numbers = numbers_.data();
    std::apply([&](const auto&... column) { (use(column, *numbers++), ...); }, MembersOf<Item>::all);
  }

  std::array<std::vector<std::uint64_t>, std::tuple_size_v<decltype(MembersOf<Item>::all)>> numbers_;
};

/// Reads a message of columns. Other fields are skipped.
template <class... Items>
void read_columns(std::string_view message, ColumnsOf<Items>&... lists) {
  for (MessageReader<std::uint32_t> in(message); in.next();)
    if (!(lists.read(in) || ...)) in.skip();
}

/// Whether the current field is a member of `row`, which it then has been read into. Throws protozero::exception if it
/// is malformed.
template <class Row, class Rows>
bool read_field(MessageReader<std::uint32_t>& in, Row& row, Rows& rows) {
  const auto read = [&]<class M>(const M& field) {
    auto& value = row.*field.at;
    if constexpr (M::coding == Coding::inlined) {
      return read_field(in, value, rows);
    } else if constexpr (M::coding == Coding::columns) {
      return read_column(in, value);
    } else {
      if (in.field() != field.number) return false;
      read_value<M::coding>(in, value, rows);
      return true;
    }
  };
  return std::apply([&](const auto&... each) { return (read(each) || ...); }, MembersOf<Row>::all);
}

/// Fields that `row` does not have are skipped. Throws protozero::exception if it is malformed.
template <class Row, class Rows>
void read_message(std::string_view bytes, Row& row, Rows& rows) {
  for (MessageReader<std::uint32_t> in(bytes); in.next();)
    if (!read_field(in, row, rows)) in.skip();
}

template <Coding coding, class Value>
bool is_left_out(const Value& value) {
  if constexpr (coding == Coding::inverted)
    return value;
  else
    return coding != Coding::interned && coding != Coding::always && value == Value{};
}

template <class Row, class Rows>
void write_message(protozero::pbf_writer& out, const Row& row, Rows& rows) {
  const auto write = [&]<class M>(const M& field) {
    const auto& value = row.*field.at;
    if constexpr (M::coding == Coding::inlined)
      write_message(out, value, rows);
    else if constexpr (M::coding == Coding::columns)
      write_columns(out, std::span(value));
    else if (!is_left_out<M::coding>(value))
      write_value<M::coding>(out, field.number, value, rows);
  };
  std::apply([&](const auto&... each) { (write(each), ...); }, MembersOf<Row>::all);
}

// The same for messages without interned values.

template <class Row>
Row read_message(std::string_view bytes) {
  Row row;
  FileRows rows;
  read_message(bytes, row, rows);
  return row;
}

template <class Row>
void write_message(protozero::pbf_writer& out, const Row& row) {
  FileRows rows;
  write_message(out, row, rows);
}

}  // namespace memreel::wire
