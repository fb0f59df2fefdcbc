// Tables in Apache Parquet, which pandas, Polars, DuckDB, Spark and spreadsheets read. Format:
// https://parquet.apache.org/docs/file-format/; metadata use Thrift's compact protocol.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace memreel {

/// A table column; an empty optional is a null.
struct ParquetColumn {
  using Integers = std::vector<std::optional<std::int64_t>>;
  using Reals = std::vector<std::optional<double>>;
  using Texts = std::vector<std::optional<std::string>>;

  std::string name;
  std::variant<Integers, Reals, Texts> values;
};

/// A whole file: one row group, one page per column, plain values compressed with zstd. All columns have the same
/// number of values, and each column is less than 2 GiB in total.
std::string parquet_file(std::span<const ParquetColumn> columns);

}  // namespace memreel
