// SPDX-License-Identifier: Apache-2.0
// Reads the fields of an untrusted protobuf message.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <protozero/pbf_reader.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace memreel::wire {

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

}  // namespace memreel::wire
