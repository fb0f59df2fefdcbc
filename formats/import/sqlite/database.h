// SQLite files that anybody may have made, read and never written.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/import/source/byte_cursor.h"
#include "formats/model/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace memreel::sqlite {

/// Whether a file begins like a database of SQLite 3.
bool looks_like_database(std::span<const std::byte> beginning);

/// A row of an answer. Valid while the function that it is given to runs.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
  /// Nothing where it is NULL or no whole number.
  std::optional<std::int64_t> integer(int column) const;
  std::string_view text(int column) const;

 private:
  sqlite3_stmt* statement_;
};

/// A file is opened read-only and as one that nobody changes; what was compressed is held in memory. Only SELECT is
/// allowed, in defensive mode, without extensions and other files; texts have at most 1 MiB, and a query may take as
/// many steps as suits the size of the file.
class Database {
 public:
  static Result<Database> open(ByteCursor& bytes);

  /// Of a table or a view; empty: there is none of that name. Names are as in the file.
  std::set<std::string> columns(const std::string& table) const;

  /// Calls `take` with each row of `SELECT columns FROM table`, in the order of the file; columns that the table lacks
  /// are NULL. Stops at the first error of `take`. Errors: the file is damaged, or the query takes too long.
  Result<void> read(const std::string& table, std::span<const std::string_view> columns,
                    const std::function<Result<void>(const Row&)>& take) const;

  const std::string& where() const { return where_; }

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  struct Budget {
    std::uint64_t steps = 0;  // what is left of this query
  };

  Error error(const std::string& doing) const;

  std::vector<std::byte> content_;  // when it is not read from the file
  std::unique_ptr<Budget> budget_;
  std::uint64_t steps_per_query_ = 0;
  std::unique_ptr<sqlite3, Close> database_;  // goes before what it reads
  std::string where_;
};

}  // namespace memreel::sqlite
