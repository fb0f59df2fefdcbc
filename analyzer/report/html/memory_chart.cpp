#include "analyzer/report/html/memory_chart.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "formats/model/quantity.h"

namespace memreel {
namespace {

constexpr double height = 1000;  // of the picture, in its own units

using Range = MemoryRange MemoryColumn::*;
using Edge = Bytes MemoryRange::*;

std::string number(double value) {
  std::array<char, 32> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.4g", value);
  return {text.data(), static_cast<std::size_t>(length)};
}

class Chart {
 public:
  explicit Chart(const MemoryTimeline& timeline) : timeline_(timeline) {
    for (const MemoryColumn& column : timeline.columns)
      highest_ = std::max({highest_, column.reserved.most, column.allocated.most, column.live.most});
  }

  std::string html() const {
    const std::size_t width = timeline_.columns.size();
    std::string html =
        "<figure class=chart>\n<div class=legend><span class=reserved>reserved</span>"
        "<span class=allocated>allocated</span><span class=live>live (requested)</span>" +
        std::string(timeline_.failures.empty() ? "" : "<span class=failed>failed request</span>") + "</div>\n";
    html += "<div class=plot data-max=\"" + std::to_string(highest_.count) + "\" data-span=\"" + number(seconds()) +
            "\" data-r=\"" + values(&MemoryColumn::reserved) + "\" data-l=\"" + values(&MemoryColumn::live) +
            "\">\n<svg viewBox=\"0 0 " + std::to_string(width) +
            " 1000\" preserveAspectRatio=none role=img "
            "aria-label=\"memory over time\">\n";
    for (const double at : {0.25, 0.5, 0.75})
      html += "<path class=grid d=\"M0 " + number(at * height) + "H" + std::to_string(width) + "\"/>\n";
    html += area("reserved", &MemoryColumn::reserved) + area("allocated", &MemoryColumn::allocated) +
            area("live", &MemoryColumn::live);
    for (const std::size_t column : timeline_.failures)
      html += "<path class=failed d=\"M" + std::to_string(column) + ".5 0V1000\"/>\n";
    html += "</svg>\n<div class=cursor></div>\n";
    html += "<span class=top>" + text_of(highest_) + "</span><span class=middle>" + text_of(Bytes{highest_.count / 2}) +
            "</span>\n</div>\n";
    return html + "<div class=axis><span>" + (seconds() > 0 ? "0 s" : "first event") + "</span><span>" +
           (seconds() > 0 ? text_of_seconds(seconds()) : std::string("last event")) + "</span></div>\n</figure>\n";
  }

 private:
  double seconds() const { return std::chrono::duration<double>(timeline_.end - timeline_.begin).count(); }

  double y(Bytes value) const {
    return highest_ == 0_B ? height
                           : height * (1 - static_cast<double>(value.count) / static_cast<double>(highest_.count));
  }

  /// From the first column to the last along one edge of a range: a step for every change.
  std::string line(Range range, Edge edge) const {
    std::string path;
    std::string last;
    for (std::size_t i = 0; i < timeline_.columns.size(); ++i) {
      std::string at = number(y(timeline_.columns[i].*range.*edge));
      if (at == last) continue;
      path += (i == 0 ? std::string() : "H" + std::to_string(i)) + "V" + at;
      last = std::move(at);
    }
    return path + "H" + std::to_string(timeline_.columns.size());
  }

  /// What was held all the time in full colour, what was held at times above it in a lighter one.
  std::string area(const std::string& name, Range range) const {
    const auto path = [&](const char* kind, Edge edge) {
      return "<path class=\"" + name + " " + kind + "\" d=\"M0 1000" + line(range, edge) + "V1000Z\"/>\n";
    };
    return path("most", &MemoryRange::most) + path("least", &MemoryRange::least);
  }

  /// The maxima in MiB, for who points at the picture.
  std::string values(Range range) const {
    std::string text;
    for (const MemoryColumn& column : timeline_.columns)
      text += (text.empty() ? "" : ",") + std::to_string(((column.*range).most.count + (1U << 19U)) >> 20U);
    return text;
  }

  const MemoryTimeline& timeline_;
  Bytes highest_;
};

}  // namespace

std::string memory_chart(const MemoryTimeline& timeline) { return Chart(timeline).html(); }

}  // namespace memreel
