// SPDX-License-Identifier: Apache-2.0
#include "formats/export/export.h"

#include <array>
#include <bit>

#include "formats/wire/zstd.h"
#include "memreel/version.h"

namespace memreel {
namespace {

constexpr std::string_view magic = "PAR1";
constexpr int compression_level = 3;

// Numbers from parquet.thrift.
enum class Type : std::int32_t { int64 = 2, float64 = 5, bytes = 6 };
constexpr std::int32_t optional_field = 1, utf8_text = 0, plain_encoding = 0, run_lengths = 3, zstd_codec = 6,
                       data_page = 0;

void append_varint(std::string& out, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7U) out += static_cast<char>(number | 0x80U);
  out += static_cast<char>(number);
}

template <class T>
void append_plain(std::string& out, T number) {  // little-endian
  auto bits = std::bit_cast<std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>>(number);
  for (std::size_t i = 0; i < sizeof(T); ++i, bits >>= 8U) out += static_cast<char>(bits & 0xFFU);
}

/// A struct in Thrift's compact protocol, written to `out` field by field in ascending order.
class ThriftStruct {
 public:
  explicit ThriftStruct(std::string& out) : out_(out) {}

  void integer(int field, std::int64_t value, bool wide = true) {
    header(field, wide ? 6 : 5);
    zigzag(value);
  }
  void enumeration(int field, std::int32_t value) { integer(field, value, false); }
  void text(int field, std::string_view value) {
    header(field, 8);
    append_varint(out_, value.size());
    out_ += value;
  }
  /// `fill(inner)` writes the fields of a nested struct.
  template <class Fill>
  void structure(int field, Fill fill) {
    header(field, 12);
    ThriftStruct inner(out_);
    fill(inner);
    inner.end();
  }
  /// `fill(i, inner)` writes the fields of element i.
  template <class Fill>
  void structures(int field, std::size_t count, Fill fill) {
    list(field, count, 12);
    for (std::size_t i = 0; i < count; ++i) {
      ThriftStruct inner(out_);
      fill(i, inner);
      inner.end();
    }
  }
  void enumerations(int field, std::span<const std::int32_t> values) {
    list(field, values.size(), 5);
    for (const std::int32_t value : values) zigzag(value);
  }
  void one_text(int field, std::string_view value) {
    list(field, 1, 8);
    append_varint(out_, value.size());
    out_ += value;
  }
  void end() { out_ += '\0'; }

 private:
  void header(int field, unsigned type) {
    out_ += static_cast<char>(static_cast<unsigned>(field - last_) << 4U | type);  // no gap here exceeds 15
    last_ = field;
  }
  void list(int field, std::size_t count, unsigned type) {
    header(field, 9);
    if (count < 15) {
      out_ += static_cast<char>(count << 4U | type);
    } else {
      out_ += static_cast<char>(0xF0U | type);
      append_varint(out_, count);
    }
  }
  void zigzag(std::int64_t value) {
    append_varint(out_, static_cast<std::uint64_t>(value) << 1U ^ static_cast<std::uint64_t>(value >> 63U));
  }

  std::string& out_;
  int last_ = 0;
};

Type type_of(const ParquetColumn& column) {
  if (std::holds_alternative<ParquetColumn::Integers>(column.values)) return Type::int64;
  return std::holds_alternative<ParquetColumn::Reals>(column.values) ? Type::float64 : Type::bytes;
}

std::size_t rows_of(const ParquetColumn& column) {
  return std::visit([](const auto& values) { return values.size(); }, column.values);
}

/// Which values are not null, as runs, preceded by their length in bytes.
template <class Values>
std::string definition_levels(const Values& values) {
  std::string runs;
  for (std::size_t i = 0; i < values.size();) {
    std::size_t end = i;
    while (end < values.size() && values[end].has_value() == values[i].has_value()) ++end;
    append_varint(runs, static_cast<std::uint64_t>(end - i) << 1U);
    runs += values[i].has_value() ? '\1' : '\0';
    i = end;
  }
  std::string levels;
  append_plain(levels, static_cast<std::uint32_t>(runs.size()));
  return levels + runs;
}

std::string page_of(const ParquetColumn& column) {
  return std::visit(
      [](const auto& values) {
        std::string page = definition_levels(values);
        for (const auto& value : values) {
          if (!value) continue;
          if constexpr (std::is_same_v<std::decay_t<decltype(*value)>, std::string>) {
            append_plain(page, static_cast<std::uint32_t>(value->size()));
            page += *value;
          } else {
            append_plain(page, *value);
          }
        }
        return page;
      },
      column.values);
}

/// The position of a column in the file.
struct Chunk {
  std::size_t offset = 0, size = 0, uncompressed = 0;
};

Chunk append_chunk(std::string& file, const ParquetColumn& column, wire::Compressor& compressor) {
  const std::string page = page_of(column);
  const std::string_view compressed = compressor.compress(page);
  Chunk chunk{.offset = file.size()};
  ThriftStruct header(file);
  header.enumeration(1, data_page);
  header.enumeration(2, static_cast<std::int32_t>(page.size()));
  header.enumeration(3, static_cast<std::int32_t>(compressed.size()));
  header.structure(5, [&](ThriftStruct& data) {
    data.enumeration(1, static_cast<std::int32_t>(rows_of(column)));
    data.enumeration(2, plain_encoding);
    data.enumeration(3, run_lengths);
    data.enumeration(4, run_lengths);
  });
  header.end();
  const std::size_t header_size = file.size() - chunk.offset;
  file += compressed;
  chunk.size = file.size() - chunk.offset;
  chunk.uncompressed = header_size + page.size();
  return chunk;
}

void write_schema(ThriftStruct& metadata, std::span<const ParquetColumn> columns) {
  metadata.structures(2, columns.size() + 1, [&](std::size_t i, ThriftStruct& element) {
    if (i == 0) {
      element.text(4, "schema");
      element.enumeration(5, static_cast<std::int32_t>(columns.size()));
      return;
    }
    const Type type = type_of(columns[i - 1]);
    element.enumeration(1, static_cast<std::int32_t>(type));
    element.enumeration(3, optional_field);
    element.text(4, columns[i - 1].name);
    if (type == Type::bytes) element.enumeration(6, utf8_text);
  });
}

void write_chunk(ThriftStruct& chunk, const ParquetColumn& column, const Chunk& place) {
  chunk.integer(2, static_cast<std::int64_t>(place.offset));
  chunk.structure(3, [&](ThriftStruct& metadata) {
    constexpr std::array encodings{plain_encoding, run_lengths};
    metadata.enumeration(1, static_cast<std::int32_t>(type_of(column)));
    metadata.enumerations(2, encodings);
    metadata.one_text(3, column.name);
    metadata.enumeration(4, zstd_codec);
    metadata.integer(5, static_cast<std::int64_t>(rows_of(column)));
    metadata.integer(6, static_cast<std::int64_t>(place.uncompressed));
    metadata.integer(7, static_cast<std::int64_t>(place.size));
    metadata.integer(9, static_cast<std::int64_t>(place.offset));
  });
}

}  // namespace

std::string parquet_file(std::span<const ParquetColumn> columns) {
  std::string file(magic);
  wire::Compressor compressor(compression_level);
  std::vector<Chunk> chunks;
  std::size_t uncompressed = 0;
  for (const ParquetColumn& column : columns) {
    chunks.push_back(append_chunk(file, column, compressor));
    uncompressed += chunks.back().uncompressed;
  }
  const auto rows = static_cast<std::int64_t>(columns.empty() ? 0 : rows_of(columns.front()));
  const std::size_t footer = file.size();
  ThriftStruct metadata(file);
  metadata.enumeration(1, 1);
  write_schema(metadata, columns);
  metadata.integer(3, rows);
  metadata.structures(4, 1, [&](std::size_t, ThriftStruct& group) {
    group.structures(1, columns.size(),
                     [&](std::size_t i, ThriftStruct& chunk) { write_chunk(chunk, columns[i], chunks[i]); });
    group.integer(2, static_cast<std::int64_t>(uncompressed));
    group.integer(3, rows);
  });
  metadata.text(6, "memreel " + std::string(version));
  metadata.end();
  append_plain(file, static_cast<std::uint32_t>(file.size() - footer));
  file += magic;
  return file;
}

}  // namespace memreel
