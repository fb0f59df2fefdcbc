// SPDX-License-Identifier: Apache-2.0
#include "formats/import/sqlite/database.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>

#include "formats/model/quantity.h"

namespace memreel::sqlite {
namespace {

constexpr std::string_view magic("SQLite format 3\0", 16);
constexpr int steps_at_once = 10'000;

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

std::string quoted_name(std::string_view name) {
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

/// A path as a URI: special characters are escaped as %XX.
std::string uri_of(const std::string& path) {
  std::string uri = path.starts_with("/") ? "file://" : "file:";
  for (const char c : path) {
    const bool is_special = c == '%' || c == '?' || c == '#';
    uri += is_special ? "%" + hex_of(std::string_view(&c, 1)) : std::string(1, c);
  }
  return uri + "?immutable=1&mode=ro";
}

int allow(void* /*nothing*/, int action, const char* /*first*/, const char* second, const char* /*database*/,
          const char* /*trigger*/) {
  if (action == SQLITE_FUNCTION)
    return second != nullptr && std::string_view(second) != "load_extension" ? SQLITE_OK : SQLITE_DENY;
  return action == SQLITE_SELECT || action == SQLITE_READ ? SQLITE_OK : SQLITE_DENY;
}

void harden(sqlite3* database) {
  sqlite3_db_config(database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, nullptr);
  constexpr std::array<std::pair<int, int>, 6> limits{{{SQLITE_LIMIT_LENGTH, 1 << 20},
                                                       {SQLITE_LIMIT_SQL_LENGTH, 1 << 20},
                                                       {SQLITE_LIMIT_COLUMN, 2000},
                                                       {SQLITE_LIMIT_EXPR_DEPTH, 200},
                                                       {SQLITE_LIMIT_ATTACHED, 0},
                                                       {SQLITE_LIMIT_WORKER_THREADS, 0}}};
  for (const auto& [limit, value] : limits) sqlite3_limit(database, limit, value);
  sqlite3_exec(database,
               "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY; PRAGMA cache_size=-8192",
               nullptr, nullptr, nullptr);
  sqlite3_set_authorizer(database, allow, nullptr);
}

Result<std::vector<std::byte>> all_of(ByteCursor& bytes) {
  std::vector<std::byte> content;
  for (auto piece = bytes.take(bytes.memory_limit().count); !piece.empty();
       piece = bytes.take(bytes.memory_limit().count))
    content.insert(content.end(), piece.begin(), piece.end());
  if (bytes.failure()) return *bytes.failure();
  return content;
}

}  // namespace

bool looks_like_database(std::span<const std::byte> beginning) {
  return std::string_view(reinterpret_cast<const char*>(beginning.data()), beginning.size()).starts_with(magic);
}

std::optional<std::int64_t> Row::integer(int column) const {
  if (sqlite3_column_type(statement_, column) != SQLITE_INTEGER) return std::nullopt;
  return sqlite3_column_int64(statement_, column);
}

std::string_view Row::text(int column) const {
  const auto* const text = sqlite3_column_text(statement_, column);
  if (text == nullptr) return {};
  return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

void Database::Close::operator()(sqlite3* database) const { sqlite3_close(database); }

Result<Database> Database::open(ByteCursor& bytes) {
  Database result;
  result.where_ = bytes.where();
  result.budget_ = std::make_unique<Budget>();
  sqlite3* handle = nullptr;
  std::uint64_t size = bytes.stored_size();
  int status = SQLITE_OK;
  if (!bytes.file().empty()) {
    status = sqlite3_open_v2(uri_of(bytes.file()).c_str(), &handle,
                             SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  } else {
    Result<std::vector<std::byte>> content = all_of(bytes);
    if (!content) return std::move(content).error();
    result.content_ = *std::move(content);
    size = result.content_.size();
    constexpr std::size_t write_version = 18, read_version = 19;  // 2: write-ahead log, which is a separate file
    if (size > read_version) result.content_[write_version] = result.content_[read_version] = std::byte{1};
    status = sqlite3_open_v2(":memory:", &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
    if (status == SQLITE_OK)
      status = sqlite3_deserialize(handle, "main", reinterpret_cast<unsigned char*>(result.content_.data()),
                                   static_cast<sqlite3_int64>(size), static_cast<sqlite3_int64>(size),
                                   SQLITE_DESERIALIZE_READONLY);
  }
  result.database_.reset(handle);
  if (status != SQLITE_OK || handle == nullptr) return result.error("opened");
  harden(handle);
  constexpr std::uint64_t least_steps = 100'000'000, steps_per_byte = 100;
  result.steps_per_query_ = least_steps + steps_per_byte * size;
  sqlite3_progress_handler(
      handle, steps_at_once,
      [](void* budget) {
        std::uint64_t& left = static_cast<Budget*>(budget)->steps;
        left -= std::min<std::uint64_t>(left, steps_at_once);
        return left == 0 ? 1 : 0;
      },
      result.budget_.get());
  // A file damaged from the start would look like one without tables.
  constexpr std::array<std::string_view, 1> names{"name"};
  if (Result<void> sound = result.read("sqlite_master", names, [](const Row&) { return Result<void>{}; }); !sound)
    return std::move(sound).error();
  return result;
}

std::set<std::string> Database::columns(const std::string& table) const {
  budget_->steps = steps_per_query_;
  std::set<std::string> names;
  const std::string query = "SELECT * FROM " + quoted_name(table) + " LIMIT 0";
  sqlite3_stmt* prepared = nullptr;
  sqlite3_prepare_v2(database_.get(), query.c_str(), -1, &prepared, nullptr);
  const Statement statement(prepared);
  for (int i = 0; prepared != nullptr && i < sqlite3_column_count(prepared); ++i)
    if (const char* const name = sqlite3_column_name(prepared, i)) names.insert(name);
  return names;
}

Result<void> Database::read(const std::string& table, std::span<const std::string_view> columns,
                            const std::function<Result<void>(const Row&)>& take) const {
  const std::set<std::string> known = this->columns(table);
  std::string query;
  for (const std::string_view column : columns)
    query += (query.empty() ? "SELECT " : ", ") + (known.contains(std::string(column)) ? quoted_name(column) : "NULL");
  query += " FROM " + quoted_name(table);
  budget_->steps = steps_per_query_;
  sqlite3_stmt* prepared = nullptr;
  if (sqlite3_prepare_v2(database_.get(), query.c_str(), -1, &prepared, nullptr) != SQLITE_OK)
    return error("read from '" + table + "'");
  const Statement statement(prepared);
  int status = sqlite3_step(prepared);
  for (; status == SQLITE_ROW; status = sqlite3_step(prepared))
    if (Result<void> taken = take(Row(prepared)); !taken) return taken;
  if (status == SQLITE_INTERRUPT)
    return Error{.what = "reading '" + table + "' takes more steps than its size allows",
                 .where = where_,
                 .remedy = "the file is damaged: export it again"};
  if (status != SQLITE_DONE) return error("read from '" + table + "'");
  return {};
}

Error Database::error(const std::string& doing) const {
  const std::string said = database_ == nullptr ? "out of memory" : sqlite3_errmsg(database_.get());
  return {.what = "SQLite: can't be " + doing + ": " + said.substr(0, said.find('\n')),
          .where = where_,
          .remedy = "the file is damaged or cut off: export it again"};
}

}  // namespace memreel::sqlite
