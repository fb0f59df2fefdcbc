// SPDX-License-Identifier: Apache-2.0
// Read-only access to untrusted SQLite files.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "formats/import/source/bytes.h"
#include "formats/model/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace memreel::sqlite {

/// Whether a file begins like an SQLite 3 database.
bool looks_like_database(std::span<const std::byte> beginning);

/// A result row. Valid during the call that receives it.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
  /// None if it is NULL or not an integer.
  std::optional<std::int64_t> integer(int column) const;
  std::string_view text(int column) const;

 private:
  sqlite3_stmt* statement_;
};

/// Opens a file read-only and as immutable; decompressed content is kept in memory. Only SELECT is allowed, in
/// defensive mode, without extensions or other files; texts have at most 1 MiB, and the steps of a query are limited in
/// proportion to the file's size.
class Database {
 public:
  static Result<Database> open(ByteCursor& bytes);

  /// The columns of a table or view; empty: there is none with that name. Names are as in the file.
  std::set<std::string> columns(const std::string& table) const;

  /// Calls `take` with each row of `SELECT columns FROM table`, in file order; missing columns are NULL. Stops at the
  /// first error of `take`. Errors: the file is damaged, or the query takes too long.
  Result<void> read(const std::string& table, std::span<const std::string_view> columns,
                    const std::function<Result<void>(const Row&)>& take) const;

  const std::string& where() const { return where_; }

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  struct Budget {
    std::uint64_t steps = 0;  // the remaining steps of this query
  };

  Error error(const std::string& doing) const;

  std::vector<std::byte> content_;  // if not read from the file
  std::unique_ptr<Budget> budget_;
  std::uint64_t steps_per_query_ = 0;
  std::unique_ptr<sqlite3, Close> database_;  // destroyed before what it reads
  std::string where_;
};

}  // namespace memreel::sqlite
