// Tables that grow by rows they don't have yet.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "formats/model/tables.h"
#include "formats/writer/row_index.h"

namespace memreel {

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
