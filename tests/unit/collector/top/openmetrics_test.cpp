// SPDX-License-Identifier: Apache-2.0
#include "collector/top/scrape_server.h"

#include <gmock/gmock.h>

#include <array>
#include <set>
#include <sstream>

#include "tests/unit/collector/top/watched.h"

namespace memreel::top {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(OpenMetrics, HasDevicesInMebibytesAndHeapsInBytes) {
  const std::array processes{watched(42, "python", 1_GiB)};
  const std::string text = openmetrics(processes);
  EXPECT_THAT(text, HasSubstr("\nDCGM_FI_DEV_FB_USED{rank=\"3\",pid=\"42\",process=\"python\",device=\"0\"} 3072\n"));
  EXPECT_THAT(text, HasSubstr("\nDCGM_FI_DEV_FB_FREE{rank=\"3\",pid=\"42\",process=\"python\",device=\"0\"} 5120\n"));
  EXPECT_THAT(text, HasSubstr("\nmemreel_heap_live_bytes{rank=\"3\",pid=\"42\",process=\"python\",device=\"0\","
                              "heap=\"torch.cuda\",level=\"framework\"} 1073741824\n"));
  EXPECT_THAT(text, HasSubstr("\nmemreel_events_total{rank=\"3\",pid=\"42\",process=\"python\"} 17\n"));
  EXPECT_THAT(text, Not(HasSubstr("\nmemreel_category_bytes{"))) << "before it was analysed";
  EXPECT_THAT(text, EndsWith("\n# EOF\n"));
}

TEST(OpenMetrics, HasNothingReservedWhereItIsNotKnown) {
  std::array processes{watched(42, "python", 1_GiB)};
  EXPECT_THAT(openmetrics(processes), HasSubstr("\nmemreel_heap_reserved_bytes{"));
  processes[0].heaps[0].status.reserved = {};
  EXPECT_THAT(openmetrics(processes), Not(HasSubstr("\nmemreel_heap_reserved_bytes{")));
}

TEST(OpenMetrics, HasFindings) {
  std::array processes{watched(42, "python", 1_GiB)};
  processes[0].findings = attach::Findings{
      .categories = {{.device = 0, .heap = "torch.cuda", .category = "parameter", .bytes = 10_B}},
      .leaks = {{.verdict = "leak", .bytes = 5_B, .growth_per_step = 1.5}, {.verdict = "leak", .bytes = 6_B}}};
  const std::string text = openmetrics(processes);
  EXPECT_THAT(text, HasSubstr("heap=\"torch.cuda\",category=\"parameter\"} 10\n"));
  EXPECT_THAT(text,
              HasSubstr("\nmemreel_leaked_bytes{rank=\"3\",pid=\"42\",process=\"python\",verdict=\"leak\"} 11\n"));
  EXPECT_THAT(text, HasSubstr("process=\"python\",verdict=\"leak\"} 1.5\n"));
  EXPECT_THAT(text, HasSubstr("process=\"python\",verdict=\"suspected\"} 0\n"));
}

TEST(OpenMetrics, NamesCannotForgeSeries) {
  const std::array processes{watched(1, "a\"} 1\nb\\", 1_B)};
  EXPECT_THAT(openmetrics(processes), HasSubstr(R"(process="a\"} 1\nb\\",device)"));
}

TEST(OpenMetrics, FamiliesStayTogetherAndNoSeriesIsThereTwice) {
  const std::array processes{watched(1, "a", 1_B), watched(2, "b", 1_B)};
  std::istringstream lines(openmetrics(processes));
  std::set<std::string> families, series;
  std::string family;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(families.insert(family).second) << line;
    } else if (!line.starts_with('#')) {
      EXPECT_TRUE(line.starts_with(family)) << line;
      EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
    }
  }
  EXPECT_GE(series.size(), 12U);
}

}  // namespace
}  // namespace memreel::top
