// SPDX-License-Identifier: Apache-2.0
// The answer about a job described once: each type of row has a list of its fields, of which come the objects of
// `memreel fleet --json`, what their schema says of them, and the columns of its tables.
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "analyzer/fleet/fleet.h"
#include "analyzer/fleet/fleet_settings.h"

namespace memreel {

enum class ColumnOf : std::uint8_t { integers, reals, texts };

template <class Row>
struct FleetField {
  std::string_view name;  // of the key and the column
  nlohmann::ordered_json (*value)(const Fleet& fleet, const Row& row) = nullptr;
  std::string_view sentence;  // what it says, in the schema; empty: it is in the table only
  std::uint8_t column = 0;    // its place in the row's table, from 1; 0: it has none
  ColumnOf type = ColumnOf::integers;
};

/// In the order of the keys. Specialised for the rows below.
template <class Row>
std::span<const FleetField<Row>> fleet_fields();

/// The object of a row.
template <class Row>
nlohmann::ordered_json fleet_json(const Fleet& fleet, const Row& row) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const FleetField<Row>& field : fleet_fields<Row>())
    if (!field.sentence.empty()) json[std::string(field.name)] = field.value(fleet, row);
  return json;
}

/// The objects of rows.
nlohmann::ordered_json fleet_json_of(const Fleet& fleet, const auto& rows) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const auto& row : rows) json.push_back(fleet_json(fleet, row));
  return json;
}

// Rows beside those of fleet.h and fleet_settings.h.

/// The rank that fails first, of a decision that names one.
struct FirstFailure {
  const Decision& decision;
};

/// A peak without and with a setting.
struct PeakChange {
  std::optional<Bytes> before, after;
};

/// What a class replayed with a setting.
struct ReplayedSetting {
  const ClassSettings& replayed;
  const SettingOutcome& outcome;

  bool is_recorded() const { return &outcome == &replayed.recorded; }
};

/// What a call stack holds on one rank: a row of a table.
struct SiteOnRank {
  std::uint32_t rank = 0;
  const RankSite& site;
};

/// A rank in a stretch of its time: a row of a table.
struct TimelineColumn {
  const FleetRow& row;
  std::size_t column = 0, columns = 0;
};

#define MEMREEL_FLEET_ROW(Row) \
  template <>                  \
  std::span<const FleetField<Row>> fleet_fields<Row>()
MEMREEL_FLEET_ROW(FleetRow);
MEMREEL_FLEET_ROW(RankDevice);
MEMREEL_FLEET_ROW(Decision);
MEMREEL_FLEET_ROW(FirstFailure);
MEMREEL_FLEET_ROW(RankClass);
MEMREEL_FLEET_ROW(Imbalance);
MEMREEL_FLEET_ROW(AxisImbalance);
MEMREEL_FLEET_ROW(Outlier);
MEMREEL_FLEET_ROW(SiteDelta);
MEMREEL_FLEET_ROW(FleetLeak);
MEMREEL_FLEET_ROW(FleetSite);
MEMREEL_FLEET_ROW(CommonSetting);
MEMREEL_FLEET_ROW(ClassSettings);
MEMREEL_FLEET_ROW(ReplayedSetting);
MEMREEL_FLEET_ROW(PeakChange);
MEMREEL_FLEET_ROW(SiteOnRank);
MEMREEL_FLEET_ROW(TimelineColumn);
#undef MEMREEL_FLEET_ROW

}  // namespace memreel
