#include "analyzer/report/html/plot.h"

#include <array>
#include <cstdint>
#include <cstdio>

#include "analyzer/report/html_text.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

constexpr double plot_height = 1000;  // of the chart, in its own units

/// Names and values in MiB, for the page's script.
std::string data_of(const std::vector<PlotSeries>& series) {
  std::string names, values;
  for (const PlotSeries& one : series) {
    if (!names.empty()) {
      names += '|';
      values += '|';
    }
    names += html_escaped(one.name);
    for (std::size_t i = 0; i < one.values.size(); ++i)
      values += (i == 0 ? "" : ",") + std::to_string((one.values[i].count + (1U << 19U)) >> 20U);
  }
  return " data-names=\"" + names + "\" data-values=\"" + values + '"';
}

}  // namespace

std::string svg_number(double value) {
  std::array<char, 32> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.5g", value);
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string steps_path(std::span<const Bytes> values, Bytes highest) {
  std::string path = "M0 1000";
  std::string last;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double share = highest == 0_B ? 0 : static_cast<double>(values[i].count) / static_cast<double>(highest.count);
    std::string at = svg_number(plot_height * (1 - share));
    if (at == last) continue;
    path += (i == 0 ? std::string() : "H" + std::to_string(i)) + "V" + at;
    last = std::move(at);
  }
  return path + "H" + std::to_string(values.size()) + "V1000Z";
}

std::string plot_html(const Plot& plot) {
  const std::string width = std::to_string(plot.columns);
  std::string html = "<figure class=chart>\n<div class=legend>" + plot.legend + "</div>\n";
  html += "<div class=plot data-span=\"" + svg_number(plot.seconds) + "\"" + data_of(plot.series) +
          ">\n<svg viewBox=\"0 0 " + width + " 1000\" preserveAspectRatio=none role=img aria-label=\"" +
          html_escaped(plot.label) + "\">\n";
  for (const double at : {0.25, 0.5, 0.75})
    html += "<path class=grid d=\"M0 " + svg_number(at * plot_height) + "H" + width + "\"/>\n";
  html += plot.shapes + "</svg>\n<div class=cursor></div>\n";
  html += "<span class=top>" + text_of(plot.highest) + "</span><span class=middle>" +
          text_of(Bytes{plot.highest.count / 2}) + "</span>\n</div>\n";
  return html + "<div class=axis><span>" + (plot.seconds > 0 ? "0 s" : "first event") + "</span><span>" +
         (plot.seconds > 0 ? text_of_seconds(plot.seconds) : std::string("last event")) + "</span></div>\n</figure>\n";
}

}  // namespace memreel
