// SPDX-License-Identifier: Apache-2.0
// Tables that grow by rows they don't have yet.
#pragma once

#include <functional>
#include <tuple>

#include "formats/model/flat_map.h"
#include "formats/model/tables.h"

namespace memreel {

// Finds equal rows of a table.

/// An order-dependent hash of some integers.
template <class... Integers>
constexpr std::uint64_t hash_all(Integers... values) {
  std::uint64_t hash = 0;
  ((hash = mix_bits(hash + static_cast<std::uint64_t>(values))), ...);
  return hash;
}

inline std::uint64_t hash_of(std::string_view text) { return std::hash<std::string_view>{}(text); }
inline std::uint64_t hash_of(const Module& row) {
  return hash_all(index(row.path), hash_of(row.build_id), row.base.value, row.size.count);
}
inline std::uint64_t hash_of(const Frame& row) {
  return hash_all(index(row.function), index(row.file), row.line, index(row.module), row.module_offset,
                  index(row.instance));
}
inline std::uint64_t hash_of(const Stack& row) {
  return mix_bits((std::uint64_t{index(row.frame)} << 32U) | index(row.caller));
}
inline std::uint64_t hash_of(const Heap& row) {
  return hash_all(index(row.name), row.level, row.device, index(row.parent), row.observes_completion);
}
inline std::uint64_t hash_of(const Pool& row) {
  return hash_all(index(row.name), row.key_high, row.key_low, row.inferred);
}
inline std::uint64_t hash_of(const Stream& row) { return mix_bits(row.handle); }
inline std::uint64_t hash_of(const Thread& row) { return hash_all(row.tid, index(row.name)); }
inline std::uint64_t hash_of(const Origin& row) {
  return hash_all(index(row.heap), index(row.pool), index(row.stream), index(row.thread), index(row.metadata));
}
inline std::uint64_t hash_of(const Mark& row) { return hash_all(index(row.name), row.phase); }
inline std::uint64_t hash_of(const Settings& row) {
  std::uint64_t hash = row.entries.size();
  for (const auto& [key, value] : row.entries) hash = hash_all(hash, index(key), index(value));
  return hash;
}

/// A hash index over the rows of one table, which are stored elsewhere. Next to each row number it stores half of the
/// row's hash, so that rows are compared only if they are almost certainly equal.
template <class Row>
class RowIndex {
 public:
  /// The first row equal to `value`; appends one if there is none.
  template <class Value>
  std::uint32_t find_or_append(std::vector<Row>& rows, const Value& value) {
    if (2 * (count_ + 1) > entries_.size()) grow(rows);
    const std::uint64_t hash = hash_of(value);
    Entry& entry = entries_[place_of(rows, value, hash)];
    if (entry.row == no_row) {
      entry = {tag_of(hash), static_cast<std::uint32_t>(rows.size())};
      rows.emplace_back(value);
      ++count_;
    }
    return entry.row;
  }

  /// Indexes the last row, unless an earlier one is equal.
  void add_last(const std::vector<Row>& rows) {
    if (2 * (count_ + 1) > entries_.size()) return grow(rows);
    const std::uint64_t hash = hash_of(rows.back());
    Entry& entry = entries_[place_of(rows, rows.back(), hash)];
    if (entry.row != no_row) return;
    entry = {tag_of(hash), static_cast<std::uint32_t>(rows.size() - 1)};
    ++count_;
  }

 private:
  static constexpr std::uint32_t no_row = 0xFFFF'FFFF;
  struct Entry {
    std::uint32_t tag = 0;
    std::uint32_t row = no_row;
  };

  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32U); }

  template <class Value>
  std::size_t place_of(const std::vector<Row>& rows, const Value& value, std::uint64_t hash) const {
    const std::size_t mask = entries_.size() - 1;
    std::size_t i = static_cast<std::size_t>(hash) & mask;
    while (entries_[i].row != no_row && !(entries_[i].tag == tag_of(hash) && rows[entries_[i].row] == value))
      i = (i + 1) & mask;
    return i;
  }

  void grow(const std::vector<Row>& rows) {
    entries_.assign(entries_.empty() ? 64 : 2 * entries_.size(), Entry{});
    count_ = 0;
    for (std::uint32_t row = 0; row < rows.size(); ++row) {
      const std::uint64_t hash = hash_of(rows[row]);
      Entry& entry = entries_[place_of(rows, rows[row], hash)];
      if (entry.row != no_row) continue;
      entry = {tag_of(hash), row};
      ++count_;
    }
  }

  std::vector<Entry> entries_;  // a power of two
  std::size_t count_ = 0;
};

class Interner {
 public:
  /// The row equal to `value`, appended if there is none. `rows` is one of tables().
  template <class Row, class Value>
  std::uint32_t intern(std::vector<Row>& rows, const Value& value) {
    return std::get<RowIndex<Row>>(indexes_).find_or_append(rows, value);
  }

  /// Appends the rows that `tables` has beyond these, so that every ID means the same in both.
  void extend(const Tables& tables) {
    extend(tables_.strings, tables.strings);
    extend(tables_.modules, tables.modules);
    extend(tables_.frames, tables.frames);
    extend(tables_.stacks, tables.stacks);
    extend(tables_.heaps, tables.heaps);
    extend(tables_.pools, tables.pools);
    extend(tables_.streams, tables.streams);
    extend(tables_.threads, tables.threads);
    extend(tables_.origins, tables.origins);
    extend(tables_.marks, tables.marks);
    extend(tables_.settings, tables.settings);
  }

  Tables& tables() { return tables_; }
  const Tables& tables() const { return tables_; }

 private:
  /// One per table, in any order: std::get finds it by the type of its rows.
  using RowIndexes = std::tuple<RowIndex<std::string>, RowIndex<Module>, RowIndex<Frame>, RowIndex<Stack>,
                                RowIndex<Heap>, RowIndex<Pool>, RowIndex<Stream>, RowIndex<Thread>, RowIndex<Origin>,
                                RowIndex<Mark>, RowIndex<Settings>>;

  template <class Row>
  void extend(std::vector<Row>& rows, const std::vector<Row>& all) {
    for (std::size_t i = rows.size(); i < all.size(); ++i) {
      rows.push_back(all[i]);
      std::get<RowIndex<Row>>(indexes_).add_last(rows);
    }
  }

  Tables tables_;
  RowIndexes indexes_;
};

}  // namespace memreel
