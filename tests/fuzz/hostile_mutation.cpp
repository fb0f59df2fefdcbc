// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/hostile_mutation.h"

#include <sqlite3.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <utility>
#include <vector>

#include "formats/reader/trace_reader.h"
#include "formats/wire/framing.h"
#include "formats/wire/schema.h"

namespace memreel::fuzz {
namespace {

using Json = nlohmann::json;
using Random = std::mt19937;

std::size_t below(std::size_t limit, Random& random) {
  return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
}

/// A number at a likely breaking point, or one near `from`.
std::uint64_t hostile(std::uint64_t from, Random& random) {
  constexpr std::uint64_t one = 1;
  static constexpr std::array<std::uint64_t, 18> numbers{0,
                                                         1,
                                                         2,
                                                         511,
                                                         512,
                                                         one << 20U,
                                                         (one << 21U) - 1,
                                                         one << 31U,
                                                         (one << 32U) - 1,
                                                         one << 44U,
                                                         one << 45U,
                                                         (one << 45U) + 1,
                                                         one << 46U,
                                                         one << 56U,
                                                         one << 61U,
                                                         one << 62U,
                                                         one << 63U,
                                                         ~std::uint64_t{0}};
  switch (below(6, random)) {
    case 0:
      return from + 1;
    case 1:
      return from - 1;
    case 2:
      return from * 2;
    case 3:
      return from ^ one << below(64, random);
    default:
      return numbers.at(below(numbers.size(), random));
  }
}

// ---- protobuf

/// A field: a number, or bytes.
struct Field {
  std::uint32_t tag = 0;
  protozero::pbf_wire_type type = protozero::pbf_wire_type::varint;
  std::uint64_t number = 0;
  std::string bytes;
};
using Message = std::vector<Field>;

std::optional<Message> parsed(const std::string& text) {
  Message message;
  try {
    for (protozero::pbf_reader reader(text); reader.next();) {
      Field field{.tag = reader.tag(), .type = reader.wire_type()};
      if (field.type == protozero::pbf_wire_type::varint)
        field.number = reader.get_uint64();
      else if (field.type == protozero::pbf_wire_type::fixed64)
        field.number = reader.get_fixed64();
      else if (field.type == protozero::pbf_wire_type::fixed32)
        field.number = reader.get_fixed32();
      else
        field.bytes = reader.get_bytes();
      message.push_back(std::move(field));
    }
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
  return message;
}

std::string serialized(const Message& message) {
  std::string text;
  protozero::pbf_writer writer(text);
  for (const Field& field : message) {
    if (field.type == protozero::pbf_wire_type::varint)
      writer.add_uint64(field.tag, field.number);
    else if (field.type == protozero::pbf_wire_type::fixed64)
      writer.add_fixed64(field.tag, field.number);
    else if (field.type == protozero::pbf_wire_type::fixed32)
      writer.add_fixed32(field.tag, static_cast<std::uint32_t>(field.number));
    else
      writer.add_bytes(field.tag, field.bytes);
  }
  return text;
}

Field* find(Message& message, std::uint32_t tag) {
  const auto found = std::ranges::find(message, tag, &Field::tag);
  return found == message.end() ? nullptr : &*found;
}

/// The varints of a column.
std::optional<std::vector<std::uint64_t>> numbers_of(const std::string& column) {
  std::vector<std::uint64_t> numbers;
  const char* at = column.data();
  const char* const end = at + column.size();
  try {
    while (at != end) numbers.push_back(protozero::decode_varint(&at, end));
  } catch (const protozero::exception&) {
    return std::nullopt;
  }
  return numbers;
}

std::string column_of(const std::vector<std::uint64_t>& numbers) {
  std::string column;
  for (const std::uint64_t number : numbers) protozero::write_varint(std::back_inserter(column), number);
  return column;
}

void change_column(std::string& column, Random& random) {
  auto numbers = numbers_of(column);
  if (!numbers || numbers->empty()) return;
  std::uint64_t& number = numbers->at(below(numbers->size(), random));
  number = hostile(number, random);
  column = column_of(*numbers);
}

/// A name that could break a terminal.
std::string hostile_name(Random& random) {
  static const std::array<std::string, 6> names{"\x1b]0;x\x07",
                                                "a\nmemreel: note: x",
                                                "\xe2\x80\xae"
                                                "x",
                                                "\xff\xfe",
                                                "=1+1",
                                                std::string(5000, 'n')};
  return names.at(below(names.size(), random));
}

/// For compressed rows or columns.
void change_content(Message& content, bool is_tables, Random& random) {
  if (content.empty()) return;
  const std::size_t i = below(content.size(), random);
  Field& field = content[i];
  switch (below(8, random)) {
    case 0:
      content.erase(content.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    case 1:
      content.push_back(Field(field));
      return;
    default:
      break;
  }
  const bool is_text = is_tables && field.tag == static_cast<std::uint32_t>(wire::RowsField::strings);
  if (field.type != protozero::pbf_wire_type::length_delimited) {
    field.number = hostile(field.number, random);
  } else if (is_text) {
    field.bytes = hostile_name(random);
  } else if (!is_tables && field.tag == static_cast<std::uint32_t>(wire::ColumnField::kind)) {
    if (!field.bytes.empty()) field.bytes[below(field.bytes.size(), random)] = static_cast<char>(below(18, random));
  } else if (auto inner = is_tables ? parsed(field.bytes) : std::nullopt; inner && !inner->empty()) {
    Field& of_row = inner->at(below(inner->size(), random));
    of_row.number = hostile(of_row.number, random);
    field.bytes = serialized(*inner);
  } else {
    change_column(field.bytes, random);
  }
}

/// Made once: they are large.
struct Contexts {
  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> compression{ZSTD_createCCtx(), ZSTD_freeCCtx};
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> decompression{ZSTD_createDCtx(), ZSTD_freeDCtx};
};

const Contexts& contexts() {
  static const Contexts both;
  return both;
}

/// Changes the contents of the frame in `frame_tag`, and the size stored next to it.
bool change_frame(Message& message, std::uint32_t frame_tag, std::uint32_t size_tag, bool is_tables, Random& random) {
  Field* const frame = find(message, frame_tag);
  Field* const size = find(message, size_tag);
  if (frame == nullptr || size == nullptr || size->number > wire::max_content_size) return false;
  std::string content(size->number, '\0');
  const std::size_t got = ZSTD_decompressDCtx(contexts().decompression.get(), content.data(), content.size(),
                                              frame->bytes.data(), frame->bytes.size());
  if (ZSTD_isError(got) != 0) return false;
  content.resize(got);
  auto inner = parsed(content);
  if (!inner) return false;
  change_content(*inner, is_tables, random);
  content = serialized(*inner);
  std::string compressed(ZSTD_compressBound(content.size()), '\0');
  compressed.resize(ZSTD_compressCCtx(contexts().compression.get(), compressed.data(), compressed.size(),
                                      content.data(), content.size(), 1));
  frame->bytes = std::move(compressed);
  size->number = content.size();
  return true;
}

void change_message(wire::PacketField kind, Message& message, Random& random) {
  const auto tag = [](auto field) { return static_cast<std::uint32_t>(field); };
  if (below(4, random) != 0) {
    if (kind == wire::PacketField::tables &&
        change_frame(message, tag(wire::TablesField::rows_zstd), tag(wire::TablesField::rows_size), true, random))
      return;
    if (kind == wire::PacketField::events &&
        change_frame(message, tag(wire::BlockField::columns_zstd), tag(wire::BlockField::columns_size), false, random))
      return;
    if (kind == wire::PacketField::keyframe &&
        change_frame(message, tag(wire::KeyframeField::rows_zstd), tag(wire::KeyframeField::rows_size), false, random))
      return;
  }
  if (kind == wire::PacketField::folded && below(4, random) != 0 &&
      change_frame(message, tag(wire::FoldedField::rows_zstd), tag(wire::FoldedField::rows_size), false, random))
    return;
  if (kind == wire::PacketField::initial_heap && below(4, random) != 0 &&
      change_frame(message, tag(wire::InitialHeapField::rows_zstd), tag(wire::InitialHeapField::rows_size), false,
                   random))
    return;
  if (message.empty()) return;
  Field& field = message[below(message.size(), random)];
  if (field.type == protozero::pbf_wire_type::length_delimited)
    change_column(field.bytes, random);
  else
    field.number = hostile(field.number, random);
}

std::vector<std::string> packets_of(std::string_view trace) {
  std::vector<std::string> packets;
  while (const auto head = wire::parse_head(trace)) {
    if (head->packet_size > trace.size()) break;
    packets.emplace_back(trace.substr(0, head->packet_size));
    trace.remove_prefix(head->packet_size);
  }
  if (!trace.empty()) packets.emplace_back(trace);
  return packets;
}

std::string mutated_trace(std::string_view trace, Random& random) {
  std::vector<std::string> packets = packets_of(trace);
  if (packets.empty()) return std::string(trace);
  const std::size_t i = below(packets.size(), random);
  const auto at = packets.begin() + static_cast<std::ptrdiff_t>(i);
  const std::size_t way = below(16, random);
  if (way == 0) {
    packets.erase(at);
  } else if (way == 1) {
    packets.insert(at, std::string(packets[below(packets.size(), random)]));
  } else if (way == 2) {
    const std::vector<std::string> again = packets;  // a concatenation
    packets.insert(packets.end(), again.begin(), again.end());
  } else if (auto body = parsed(packets[i].substr(std::min(packets[i].size(), wire::head_size)));
             body && !body->empty()) {
    Field& field = body->front();
    if (auto message = parsed(field.bytes)) {
      change_message(static_cast<wire::PacketField>(field.tag), *message, random);
      field.bytes = serialized(*message);
      packets[i] = wire::open_packet() + serialized(*body);
      wire::seal_packet(packets[i]);
    }
  }
  std::string whole;
  for (const std::string& packet : packets) whole += packet;
  return whole;
}

// ---- results of `fleet map`, and profiles of XLA

/// A number or string in a message or a nested one.
void change_nested(Message& message, Random& random) {
  if (message.empty()) return;
  Field& field = message[below(message.size(), random)];
  if (field.type != protozero::pbf_wire_type::length_delimited) {
    field.number = hostile(field.number, random);
  } else if (auto inner = below(8, random) != 0 ? parsed(field.bytes) : std::nullopt; inner && !inner->empty()) {
    change_nested(*inner, random);
    field.bytes = serialized(*inner);
  } else if (below(2, random) == 0) {
    change_column(field.bytes, random);
  } else {
    field.bytes = hostile_name(random);
  }
}

std::string mutated_result(std::string_view result, Random& random) {
  auto message = parsed(std::string(result));
  if (!message || message->empty()) return std::string(result);
  const std::size_t i = below(message->size(), random);
  if (const std::size_t way = below(8, random); way == 0)
    message->erase(message->begin() + static_cast<std::ptrdiff_t>(i));
  else if (way == 1)
    message->push_back(Field((*message)[i]));
  else
    change_nested(*message, random);
  return serialized(*message);
}

// ---- JSON

/// Values of a document, in order.
void collect(Json& value, std::vector<Json*>& values) {
  values.push_back(&value);
  if (value.is_structured())
    for (Json& item : value) collect(item, values);
}

std::string mutated_json(Json document, Random& random) {
  std::vector<Json*> values;
  collect(document, values);
  Json& value = *values[below(values.size(), random)];
  if (value.is_number()) {
    value = hostile(value.is_number_unsigned() ? value.get<std::uint64_t>() : 0, random);
  } else if (value.is_string()) {
    static constexpr std::array actions{"alloc",        "free_requested", "free_completed", "segment_alloc",
                                        "segment_free", "segment_map",    "segment_unmap",  "oom",
                                        "user_defined"};
    value = below(3, random) == 0 ? hostile_name(random) : actions.at(below(actions.size(), random));
  } else if (value.is_array() && !value.empty()) {
    const std::size_t i = below(value.size(), random);
    if (below(2, random) == 0)
      value.erase(i);
    else
      value.insert(value.begin() + static_cast<std::ptrdiff_t>(i), Json(value[below(value.size(), random)]));
  } else if (value.is_boolean()) {
    value = !value.get<bool>();
  }
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// ---- pickles

/// Opcodes followed by a number, and the number's size in bytes.
constexpr std::array<std::pair<unsigned char, std::size_t>, 4> number_opcodes{
    {{'K', 1}, {'M', 2}, {'J', 4}, {0x8A, 0}}};

std::string mutated_pickle(std::string_view pickle, Random& random) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i + 9 < pickle.size(); ++i)
    for (const auto& [opcode, size] : number_opcodes)
      if (static_cast<unsigned char>(pickle[i]) == opcode) places.push_back(i);
  if (places.empty()) return std::string(pickle);
  const std::size_t at = places[below(places.size(), random)];
  std::size_t size = 0;
  for (const auto& [opcode, bytes] : number_opcodes)
    if (static_cast<unsigned char>(pickle[at]) == opcode) size = bytes;
  if (size == 0) size = 1 + std::min<std::size_t>(static_cast<unsigned char>(pickle[at + 1]), 8);
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(size, 8); ++i)
    number |= std::uint64_t{static_cast<unsigned char>(pickle[at + 1 + i])} << (8 * i);
  number = hostile(number, random);
  std::string replaced(pickle.substr(0, at));
  replaced += {static_cast<char>(0x8A), 9};  // LONG1, with an extra sign byte
  for (unsigned i = 0; i < 8; ++i) replaced += static_cast<char>(number >> (8 * i) & 0xFFU);
  replaced += '\0';
  return replaced + std::string(pickle.substr(at + 1 + size));
}

// ---- SQLite

struct Closes {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
using Database = std::unique_ptr<sqlite3, Closes>;

/// The first column of the rows of a query.
std::vector<std::string> answers(sqlite3* database, const std::string& query) {
  std::vector<std::string> rows;
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database, query.c_str(), -1, &statement, nullptr) != SQLITE_OK) return rows;
  while (sqlite3_step(statement) == SQLITE_ROW && rows.size() < 1000)
    if (const unsigned char* const text = sqlite3_column_text(statement, 0))
      rows.emplace_back(reinterpret_cast<const char*>(text));
  sqlite3_finalize(statement);
  return rows;
}

/// Changes a value, a row, a column or a table.
std::string mutated_database(std::string_view file, Random& random) {
  sqlite3* opened = nullptr;
  if (sqlite3_open(":memory:", &opened) != SQLITE_OK) return std::string(file);
  const Database database(opened);
  auto* const bytes = static_cast<unsigned char*>(sqlite3_malloc64(file.size()));
  std::memcpy(bytes, file.data(), file.size());
  const auto size = static_cast<sqlite3_int64>(file.size());
  sqlite3_deserialize(opened, "main", bytes, size, size,
                      SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE);
  const std::vector<std::string> tables = answers(opened, "SELECT name FROM sqlite_master WHERE type = 'table'");
  if (tables.empty()) return std::string(file);
  const auto quoted = [](std::string name) {
    std::erase(name, '"');
    return '"' + name + '"';
  };
  const std::string table = quoted(tables[below(tables.size(), random)]);
  const std::vector<std::string> columns = answers(opened, "SELECT name FROM pragma_table_info(" + table + ")");
  if (columns.empty()) return std::string(file);
  const std::string column = quoted(columns[below(columns.size(), random)]);
  const std::string row = " WHERE rowid = (SELECT rowid FROM " + table + " ORDER BY random() LIMIT 1)";
  const std::vector<std::string> values = answers(opened, "SELECT " + column + " FROM " + table + row);
  std::string change;
  switch (below(8, random)) {
    case 0:
      change = "DELETE FROM " + table + row;
      break;
    case 1:
      change = "INSERT INTO " + table + " SELECT * FROM " + table + " LIMIT 3";
      break;
    case 2:
      change = "ALTER TABLE " + table + " RENAME COLUMN " + column + " TO other";
      break;
    case 3:
      change = "DROP TABLE " + table;
      break;
    case 4:
      change = "UPDATE " + table + " SET " + column + (below(2, random) == 0 ? " = NULL" : " = 1.5e300") + row;
      break;
    case 5: {
      std::string name = hostile_name(random);
      std::erase(name, '\'');
      change = "UPDATE " + table + " SET " + column + " = '" + name + "'" + row;
      break;
    }
    default: {
      const std::uint64_t from = values.empty() ? 0 : std::strtoull(values.front().c_str(), nullptr, 10);
      change = "UPDATE " + table + " SET " + column + " = " +
               std::to_string(static_cast<std::int64_t>(hostile(from, random))) + row;
    }
  }
  sqlite3_exec(opened, change.c_str(), nullptr, nullptr, nullptr);
  sqlite3_int64 changed_size = 0;
  const unsigned char* const changed = sqlite3_serialize(opened, "main", &changed_size, SQLITE_SERIALIZE_NOCOPY);
  if (changed == nullptr) return std::string(file);
  return {reinterpret_cast<const char*>(changed), static_cast<std::size_t>(changed_size)};
}

// ---- logs

/// Changes a number, or a line.
std::string mutated_log(std::string_view log, Random& random) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = std::min(log.find('\n', at), log.size() - 1) + 1;
    lines.emplace_back(log.substr(at, end - at));
    at = end;
  }
  if (lines.empty()) return std::string(log);
  const std::size_t i = below(lines.size(), random);
  const auto at = lines.begin() + static_cast<std::ptrdiff_t>(i);
  const std::size_t way = below(8, random);
  if (way == 0) {
    lines.erase(at);
  } else if (way == 1) {
    lines.insert(at, std::string(lines[below(lines.size(), random)]));
  } else if (way == 2) {
    lines[i].insert(below(lines[i].size() + 1, random), hostile_name(random));
  } else {
    std::vector<std::size_t> numbers;
    const auto is_digit = [&](std::size_t j) { return std::isdigit(static_cast<unsigned char>(lines[i][j])) != 0; };
    for (std::size_t j = 0; j < lines[i].size(); ++j)
      if (is_digit(j) && (j == 0 || !is_digit(j - 1))) numbers.push_back(j);
    if (numbers.empty()) return std::string(log);
    const std::size_t begin = numbers[below(numbers.size(), random)];
    std::size_t end = begin;
    while (end < lines[i].size() && is_digit(end)) ++end;
    const std::uint64_t number = std::strtoull(lines[i].c_str() + begin, nullptr, 10);
    lines[i].replace(begin, end - begin, std::to_string(hostile(number, random)));
  }
  std::string whole;
  for (const std::string& line : lines) whole += line;
  return whole;
}

}  // namespace

std::string mutated(std::span<const std::uint8_t> recording, std::mt19937& random) {
  const std::string_view text(reinterpret_cast<const char*>(recording.data()), recording.size());
  if (looks_like_trace(std::as_bytes(recording))) return mutated_trace(text, random);
  if (!recording.empty() && recording[0] == 0x80) return mutated_pickle(text, random);
  if (text.starts_with(0x08) || text.starts_with(0x0a)) return mutated_result(text, random);
  if (text.starts_with("SQLite format 3")) return mutated_database(text, random);
  Json document = Json::parse(text, nullptr, false);
  return document.is_discarded() ? mutated_log(text, random) : mutated_json(std::move(document), random);
}

}  // namespace memreel::fuzz
