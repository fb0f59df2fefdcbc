#include "analyzer/report/html/memory_chart.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "analyzer/report/category_style.h"
#include "analyzer/report/html/plot.h"

namespace memreel {
namespace {

using Range = MemoryRange MemoryColumn::*;
using Edge = Bytes MemoryRange::*;

std::vector<Bytes> values(const MemoryTimeline& timeline, Range range, Edge edge) {
  std::vector<Bytes> list;
  for (const MemoryColumn& column : timeline.columns) list.push_back(column.*range.*edge);
  return list;
}

double seconds(const MemoryTimeline& timeline) {
  return std::chrono::duration<double>(timeline.end - timeline.begin).count();
}

}  // namespace

std::string memory_chart(const MemoryTimeline& timeline) {
  Plot plot{.legend =
                "<span class=reserved>reserved</span><span class=allocated>allocated</span>"
                "<span class=live>live (requested)</span>" +
                std::string(timeline.failures.empty() ? "" : "<span class=failed>failed request</span>"),
            .label = "memory over time",
            .columns = timeline.columns.size(),
            .seconds = seconds(timeline)};
  for (const MemoryColumn& column : timeline.columns)
    plot.highest = std::max({plot.highest, column.reserved.most, column.allocated.most, column.live.most});
  // The minimum of each column in full colour, the range up to its maximum in a lighter one.
  const auto area = [&](const std::string& name, Range range) {
    for (const auto& [kind, edge] : {std::pair{"most", &MemoryRange::most}, std::pair{"least", &MemoryRange::least}})
      plot.shapes += "<path class=\"" + name + " " + kind + "\" d=\"" +
                     steps_path(values(timeline, range, edge), plot.highest) + "\"/>\n";
  };
  area("reserved", &MemoryColumn::reserved);
  area("allocated", &MemoryColumn::allocated);
  area("live", &MemoryColumn::live);
  for (const std::size_t column : timeline.failures)
    plot.shapes += "<path class=failed d=\"M" + std::to_string(column) + ".5 0V1000\"/>\n";
  plot.series = {{"live", values(timeline, &MemoryColumn::live, &MemoryRange::most)},
                 {"reserved", values(timeline, &MemoryColumn::reserved, &MemoryRange::most)}};
  return plot_html(plot);
}

std::string category_chart(const MemoryTimeline& timeline, const CategoryTimeline& categories) {
  Plot plot{.label = "live memory over time, by category",
            .columns = categories.columns.size(),
            .seconds = seconds(timeline)};
  // Each area reaches down to the axis; areas drawn later, from the top of the stack to its bottom, cover the rest.
  std::vector<std::string> colours;
  std::vector<Bytes> stacked(categories.columns.size());
  for (const CategoryStyle& style : category_styles()) {
    PlotSeries series{.name = words_of(style.category), .values = {}};
    for (const BytesByCategory& column : categories.columns)
      series.values.push_back(column.at(static_cast<std::size_t>(style.category)));
    if (std::ranges::all_of(series.values, [](Bytes bytes) { return bytes == 0_B; })) continue;
    const std::string colour = css_colour(style.category);
    plot.legend += "<span style=\"--key:" + colour + "\" class=key>" + std::string(series.name) + "</span>";
    for (std::size_t i = 0; i < stacked.size(); ++i) stacked[i] += series.values[i];
    plot.series.push_back(std::move(series));
    colours.push_back(colour);
    plot.highest = std::max(plot.highest, stacked.empty() ? 0_B : *std::ranges::max_element(stacked));
  }
  for (std::size_t s = plot.series.size(); s > 0; --s) {
    plot.shapes += "<path style=\"fill:" + colours[s - 1] + "\" d=\"" + steps_path(stacked, plot.highest) + "\"/>\n";
    for (std::size_t i = 0; i < stacked.size(); ++i) stacked[i] -= plot.series[s - 1].values[i];
  }
  return plot_html(plot);
}

}  // namespace memreel
