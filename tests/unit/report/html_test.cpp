// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "analyzer/analysis/insight/timeline.h"
#include "analyzer/describe/html/charts.h"
#include "analyzer/describe/live_groups.h"
#include "analyzer/describe/markup.h"
#include "tests/unit/analyzer/history.h"

namespace memreel {
namespace {

constexpr Address base{0x10000000};

TEST(HtmlText, IsNeverMarkup) {
  EXPECT_EQ(html_escaped("<script>alert('1' & \"2\")</script>"),
            "&lt;script&gt;alert(&#39;1&#39; &amp; &quot;2&quot;)&lt;/script&gt;");
  EXPECT_EQ(html_escaped(std::string("a\0b\nc\x1b", 6)),
            "a\xEF\xBF\xBD"
            "b c\xEF\xBF\xBD");
}

TEST(HtmlText, IsCutBetweenCodePoints) {
  EXPECT_EQ(clipped("kurz", 10), "kurz");
  EXPECT_EQ(clipped("aäb", 2), "a…");
  EXPECT_EQ(clipped("aäb", 3), "aä…");
}

TEST(MarkdownText, MeansNothing) {
  EXPECT_EQ(markdown_escaped("a_b*c [x](y)\n| `z`"), "a\\_b\\*c \\[x\\]\\(y\\)\\\\n\\| \\`z\\`");
  EXPECT_EQ(markdown_escaped("<b>&"), "&lt;b&gt;&amp;");
  EXPECT_EQ(markdown_escaped("@all"), "@<!-- -->all");
  EXPECT_EQ(markdown_escaped("see https://evil.example and www.evil.example").find("://"), std::string::npos);
  EXPECT_EQ(markdown_escaped("www.evil.example").find("www.e"), std::string::npos);
}

TEST(MarkdownText, CodeIsFencedByMoreTicksThanItHas) {
  EXPECT_EQ(markdown_code("f(x)"), "`f(x)`");
  EXPECT_EQ(markdown_code("a``b|c\nd"), "``` a``b\\|c\\nd ```");
  EXPECT_EQ(markdown_code("").size(), 4U);
}

TEST(Timeline, HasExactMinimaAndMaxima) {
  testing::TraceBuilder builder;
  const OriginId origin = builder.origin(HeapId{1});
  builder.event(EventKind::segment_alloc, origin, base, 20_MiB);
  const AllocationId first = builder.alloc(origin, base, 4_MiB);
  builder.free(first);  // within one column: visible only in its maximum
  builder.alloc(origin, base, 2_MiB);
  for (int i = 0; i < 95; ++i) builder.event(EventKind::mark, origin, {}, {});
  const auto timelines = memory_timelines(builder.trace(), recorded_blocks(builder.trace()), 10);
  ASSERT_EQ(timelines.size(), 1U);
  const auto& columns = timelines.front().columns;
  ASSERT_EQ(columns.size(), 10U);
  EXPECT_EQ(columns[0].live, (MemoryRange{0_B, 4_MiB}));
  EXPECT_EQ(columns[0].reserved, (MemoryRange{0_B, 20_MiB}));
  EXPECT_EQ(columns[9].live, (MemoryRange{2_MiB, 2_MiB}));
}

TEST(Timeline, OfATraceWithoutTimesCountsEvents) {
  testing::TraceBuilder builder;
  const OriginId origin = builder.origin(HeapId{1});
  for (std::uint64_t i = 0; i < 10; ++i) builder.alloc(origin, base + 1_MiB * i, 1_MiB);
  for (std::size_t i = 0; i < builder.trace().events.count(); ++i)
    memreel::testing::set_time(builder.trace().events, i, {});
  const auto timelines = memory_timelines(builder.trace(), recorded_blocks(builder.trace()), 5);
  EXPECT_EQ(timelines.front().columns[1].live, (MemoryRange{2_MiB, 4_MiB}));
}

TEST(CategoryTimeline, AddsUpToTheMostThatWasLiveInEachColumn) {
  testing::TraceBuilder builder;
  const OriginId origin = builder.origin(HeapId{1});
  std::vector<AllocationId> held;
  Categories categories;
  for (std::uint64_t i = 0; i < 200; ++i) {
    held.push_back(builder.alloc(origin, base + 8_MiB * i, 1_KiB * (1 + i * 37 % 101)));
    categories.evidence.push_back(i % 3 == 0 ? Evidence::module_parameter : Evidence::freed_by_backward);
    if (i % 4 == 3) builder.free(held[i / 2]);
  }
  const auto timelines = memory_timelines(builder.trace(), recorded_blocks(builder.trace()), 23);
  const auto by_category = category_timelines(builder.trace(), categories, 23);
  ASSERT_EQ(by_category.size(), 1U);
  ASSERT_EQ(by_category.front().columns.size(), 23U);
  for (std::size_t c = 0; c < 23; ++c) {
    Bytes sum;
    for (const Bytes bytes : by_category.front().columns[c]) sum += bytes;
    EXPECT_EQ(sum, timelines.front().columns[c].live.most) << c;
  }
  const std::string html = category_chart(timelines.front(), by_category.front());
  EXPECT_NE(html.find("parameters"), std::string::npos);
  EXPECT_NE(html.find("activations"), std::string::npos);
  EXPECT_EQ(html.find("gradients"), std::string::npos);
  // It uses the page's colors, which exist for both backgrounds.
  EXPECT_NE(html.find("fill:var(--activation)"), std::string::npos);
  const std::string page = html_page("run", html);
  EXPECT_NE(page.find(":root{" + css_colours(false)), std::string::npos);
  EXPECT_NE(page.find("dark){:root{" + css_colours(true)), std::string::npos);
  EXPECT_NE(css_colours(true), css_colours(false));
}

TEST(FlameGraph, AddsUpCallersAndEscapesTheirNames) {
  testing::TraceBuilder builder;
  const OriginId origin = builder.origin(HeapId{1});
  const StackId step = builder.stack({"<b>step</b>@train.py:3"});
  builder.alloc(origin, base, 3_MiB, step);
  builder.alloc(origin, base + 4_MiB, 1_MiB, builder.stack({"loss@train.py:9"}));
  const auto tree = flame_tree(builder.trace(), lifetimes(builder.trace()), HeapId{1}, builder.trace().events.count());
  ASSERT_EQ(tree.size(), 3U);
  EXPECT_EQ(tree[0].size, 4_MiB);
  EXPECT_EQ(tree[1].size, 3_MiB);
  EXPECT_EQ(tree[2].begin, 3_MiB);
  const std::string html = flame_graph(builder.trace().tables, tree);
  EXPECT_EQ(html.find("<b>"), std::string::npos);
  EXPECT_NE(html.find("&lt;b&gt;step&lt;/b&gt;"), std::string::npos);
}

TEST(FlameGraph, StaysSmallWhateverTheFramesAreCalled) {
  testing::TraceBuilder builder;
  const OriginId origin = builder.origin(HeapId{1});
  const std::string name(4000, '"');
  for (std::uint64_t i = 0; i < 900; ++i)
    builder.alloc(origin, base + 1_MiB * i, 1_MiB, builder.stack({name + std::to_string(i) + "@a.py:1"}));
  const auto tree = flame_tree(builder.trace(), lifetimes(builder.trace()), HeapId{1}, builder.trace().events.count());
  EXPECT_LE(tree.size(), 700U);
  EXPECT_LT(flame_graph(builder.trace().tables, tree).size(), 1300 * tree.size());
}

TEST(MemoryChart, OfAnEmptyHeapIsAPicture) {
  MemoryTimeline timeline;
  timeline.columns.resize(4);
  EXPECT_NE(memory_chart(timeline).find("<svg"), std::string::npos);
}

TEST(Page, FetchesNothing) {
  const std::string page = html_page("a </title><script>", "");
  EXPECT_EQ(page.find("http://"), std::string::npos);
  EXPECT_EQ(page.find("https://"), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(page.find("<title>a </title>"), std::string::npos);
}

}  // namespace
}  // namespace memreel
