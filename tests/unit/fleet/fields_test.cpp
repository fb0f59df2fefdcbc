// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/job_fields.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "analyzer/fleet/settings_search.h"
#include "tests/histories.h"

namespace memreel {
namespace {

using Json = nlohmann::ordered_json;

Json schema_at(const char* path) {
  std::ifstream file(test::source_directory() / "docs/schema/fleet.json");
  return Json::parse(file).at(Json::json_pointer(path));
}

/// What the schema says of the fields of a row, in their order.
template <class Row>
void expect_described(const char* path) {
  const Json schema = schema_at(path);
  Json required = Json::array();
  for (const FleetField<Row>& field : fleet_fields<Row>()) {
    if (field.sentence.empty()) continue;
    required.push_back(field.name);
    EXPECT_EQ(schema.at("properties").at(std::string(field.name)).at("description"), field.sentence) << path;
  }
  EXPECT_EQ(schema.at("required"), required) << path;
  EXPECT_EQ(schema.at("properties").size(), required.size()) << path;
}

TEST(FleetFields, TheSchemaSaysWhatTheySay) {
  expect_described<FleetRow>("/$defs/rank");
  expect_described<RankDevice>("/$defs/rank/properties/devices/items");
  expect_described<Decision>("/properties/decides/anyOf/0");
  expect_described<FirstFailure>("/properties/decides/anyOf/0/properties/fails_first/anyOf/0");
  expect_described<RankClass>("/properties/classes/items");
  expect_described<Imbalance>("/properties/imbalance");
  expect_described<AxisImbalance>("/properties/imbalance/properties/axes/items");
  expect_described<Outlier>("/properties/outliers/items");
  expect_described<SiteDelta>("/properties/outliers/items/properties/sites/items");
  expect_described<FleetLeak>("/properties/leaks/items");
  expect_described<FleetSite>("/$defs/site");
  expect_described<CommonSetting>("/properties/setting/anyOf/0");
  expect_described<ClassSettings>("/properties/setting/anyOf/0/properties/classes/items");
  expect_described<ReplayedSetting>("/$defs/outcome");
  expect_described<PeakChange>("/$defs/before_after");
}

/// "rank, host, local_rank"
template <class Row>
std::string columns_of() {
  std::map<unsigned, std::string> columns;
  for (const FleetField<Row>& field : fleet_fields<Row>())
    if (field.column > 0) {
      EXPECT_TRUE(columns.emplace(field.column, field.name).second) << field.name;
    }
  std::string text;
  for (const auto& [place, name] : columns) text += (text.empty() ? "" : ", ") + name;
  return text;
}

TEST(FleetFields, TheGuideListsTheColumns) {
  std::ifstream file(test::source_directory() / "docs/fleet.md");
  std::ostringstream guide;
  guide << file.rdbuf();
  for (const std::string& columns :
       {columns_of<FleetRow>(), columns_of<ReplayedSetting>(), columns_of<SiteOnRank>(), columns_of<TimelineColumn>()})
    EXPECT_NE(guide.str().find("| `" + columns + "`"), std::string::npos) << columns;
}

TEST(StoredReplays, AreReadAsTheyAreWritten) {
  const std::string text = R"({"recorded":{"setting":"a","peak":1,"peak_most":2,"failures":3,"calls":4,"seconds":0.5},)"
                           R"("outcomes":[{"setting":"b","peak":7}],"allocations":5,"matches":6,"problem":""})";
  const ClassSettings settings = read_replays(text);
  EXPECT_EQ(settings.problem, "");
  EXPECT_EQ(settings.recorded, (SettingOutcome{"a", 1_B, 2_B, 3, 4, 0.5}));
  ASSERT_EQ(settings.outcomes.size(), 1U);
  EXPECT_EQ(settings.outcomes.front(), (SettingOutcome{.setting = "b", .peak_reserved = 7_B}));
  EXPECT_EQ(settings.allocations, 5U);
  EXPECT_EQ(settings.address_matches, 6U);
  EXPECT_EQ(settings.witness_allocations, 0U);
  for (const char* const other : {"", "[]", "{}", "{\"recorded\":{}}", "{\"recorded\":1,\"outcomes\":[]}"})
    EXPECT_NE(read_replays(other).problem, "") << other;
}

TEST(StoredReplays, SayWhyThereAreNone) {
  EXPECT_EQ(no_replays("why"),
            R"({"recorded":{"setting":"","peak":0,"peak_most":0,"failures":0,"calls":0,"seconds":0.0},"outcomes":[],)"
            R"("allocations":0,"matches":0,"witness_allocations":0,"witness_matches":0,"problem":"why"})");
  EXPECT_EQ(read_replays(no_replays("why")).problem, "why");
}

}  // namespace
}  // namespace memreel
