// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/fleet_tables.h"

#include <algorithm>

#include "analyzer/fleet/job_fields.h"
#include "formats/export/export.h"

namespace memreel {
namespace {

using Json = nlohmann::ordered_json;

std::optional<std::int64_t> integer_of(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<std::int64_t>());
}

/// "pp=1,tp=0" of a place on the mesh. Empty texts become nulls.
std::optional<std::string> text_of(const Json& value) {
  std::string text;
  if (value.is_string()) text = value.get_ref<const std::string&>();
  if (value.is_object())
    for (const auto& [axis, at] : value.items()) text += (text.empty() ? "" : ",") + axis + "=" + at.dump();
  return text.empty() ? std::nullopt : std::optional(std::move(text));
}

/// The columns of a type of rows, filled row by row.
template <class Row>
class TableOf {
 public:
  explicit TableOf(const Fleet& fleet) : fleet_(fleet) {
    for (const FleetField<Row>& field : fleet_fields<Row>())
      if (field.column > 0) fields_.push_back(&field);
    std::ranges::sort(fields_, {}, &FleetField<Row>::column);
    for (const FleetField<Row>* field : fields_) columns_.push_back({std::string(field->name), values_of(field->type)});
  }

  void add(const Row& row) {
    for (std::size_t i = 0; i < fields_.size(); ++i) push(columns_[i], fields_[i]->value(fleet_, row));
  }

  std::string file() const { return parquet_file(columns_); }

 private:
  using Values = decltype(ParquetColumn::values);

  static Values values_of(ColumnOf type) {
    if (type == ColumnOf::integers) return ParquetColumn::Integers{};
    if (type == ColumnOf::reals) return ParquetColumn::Reals{};
    return ParquetColumn::Texts{};
  }

  static void push(ParquetColumn& column, const Json& value) {
    if (auto* const integers = std::get_if<ParquetColumn::Integers>(&column.values))
      integers->push_back(integer_of(value));
    else if (auto* const reals = std::get_if<ParquetColumn::Reals>(&column.values))
      reals->push_back(value.get<double>());
    else
      std::get<ParquetColumn::Texts>(column.values).push_back(text_of(value));
  }

  const Fleet& fleet_;
  std::vector<const FleetField<Row>*> fields_;
  std::vector<ParquetColumn> columns_;
};

std::string ranks_table(const Fleet& fleet) {
  TableOf<FleetRow> table(fleet);
  for (const FleetRow& row : fleet.rows) table.add(row);
  return table.file();
}

std::string settings_table(const Fleet& fleet, const CommonSetting* setting) {
  TableOf<ReplayedSetting> table(fleet);
  if (setting == nullptr) return table.file();
  for (const ClassSettings& replayed : setting->classes) {
    if (!replayed.problem.empty()) continue;
    table.add({replayed, replayed.recorded});
    for (const SettingOutcome& outcome : replayed.outcomes) table.add({replayed, outcome});
  }
  return table.file();
}

std::string sites_table(const Fleet& fleet) {
  TableOf<SiteOnRank> table(fleet);
  for (const FleetRow& row : fleet.rows) {
    if (!row.judged()) continue;
    for (const RankSite& site : row.summary.sites) table.add({row.rank, site});
  }
  return table.file();
}

std::string timeline_table(const Fleet& fleet) {
  TableOf<TimelineColumn> table(fleet);
  for (const FleetRow& row : fleet.rows) {
    if (!row.judged()) continue;
    const std::size_t columns = std::min(row.summary.reserved.size(), row.summary.allocated.size());
    for (std::size_t column = 0; column < columns; ++column) table.add({row, column, columns});
  }
  return table.file();
}

}  // namespace

std::vector<FleetTable> fleet_tables(const Fleet& fleet, const CommonSetting* setting) {
  const std::array contents{ranks_table(fleet), settings_table(fleet, setting), sites_table(fleet),
                            timeline_table(fleet)};
  std::vector<FleetTable> tables;
  for (std::size_t i = 0; i < contents.size(); ++i)
    tables.push_back({.name = std::string(fleet_table_names.at(i)), .content = contents.at(i)});
  return tables;
}

}  // namespace memreel
