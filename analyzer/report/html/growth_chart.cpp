#include "analyzer/report/html/growth_chart.h"

#include <algorithm>
#include <set>

#include "analyzer/report/html/plot.h"
#include "analyzer/report/html_text.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

constexpr double chart_width = 960, chart_height = 320;

class Chart {
 public:
  explicit Chart(const GrowthChart& chart) : chart_(chart) {
    for (const GrowthChart::Recorded& point : chart.recorded) include(point.at, std::max(point.live, point.reserved));
    for (const GrowthChart::Predicted& point : chart.predicted) include(point.at, std::max(point.live, point.high));
    if (chart.limit && chart.limit->count <= 3 * highest_.count) {
      draws_limit_ = true;
      highest_ = std::max(highest_, *chart.limit);
    }
    highest_ = Bytes{highest_.count + highest_.count / 20};
  }

  std::string html() const {
    if (furthest_ == 0) return {};
    std::string html = "<figure class=chart>\n" + legend();
    html += "<div class=plot style=\"height:" + svg_number(chart_height) + "px\" data-max=\"" +
            std::to_string(highest_.count) + "\" data-to=\"" + std::to_string(furthest_) + "\">\n<svg viewBox=\"0 0 " +
            svg_number(chart_width) + " " + svg_number(chart_height) +
            "\" preserveAspectRatio=none role=img aria-label=\"memory over " + html_escaped(chart_.parameter) + "\">\n";
    for (const double at : {0.25, 0.5, 0.75})
      html += "<path class=grid d=\"M0 " + svg_number(at * chart_height) + "H" + svg_number(chart_width) + "\"/>\n";
    html += range() + curve("reserved", &GrowthChart::Predicted::reserved, "--orange") +
            curve("live", &GrowthChart::Predicted::live, "--blue");
    for (const GrowthChart::Predicted& point : chart_.predicted) {
      if (!point.asked) continue;
      html += dot(point.at, point.reserved, "predicted", "reserved, predicted", "--orange", 7);
      html += dot(point.at, point.live, "predicted", "live, predicted", "--blue", 7);
    }
    for (const GrowthChart::Recorded& point : chart_.recorded) {
      html += dot(point.at, point.reserved, "recorded", "reserved, recorded", "--text", 9);
      html += dot(point.at, point.live, "recorded", "live, recorded", "--text", 9);
    }
    if (draws_limit_)
      html += "<path class=limit style=\"fill:none;stroke:var(--bad);stroke-width:1.5;stroke-dasharray:6 4;" +
              std::string(thin) + "\" d=\"M0 " + svg_number(y(*chart_.limit)) + "H" + svg_number(chart_width) +
              "\"/>\n";
    html += "</svg>\n<span class=top>" + text_of(highest_) + "</span><span class=middle>" +
            text_of(Bytes{highest_.count / 2}) + "</span>\n</div>\n" + ticks() + "</figure>\n";
    if (chart_.limit && !draws_limit_)
      html += "<p class=quiet>" + html_escaped(chart_.limit_name) + ", " + text_of(*chart_.limit) +
              ", lies far above the chart.</p>\n";
    return html;
  }

 private:
  static constexpr std::string_view thin = "vector-effect:non-scaling-stroke";

  void include(std::uint64_t at, Bytes bytes) {
    furthest_ = std::max(furthest_, at);
    highest_ = std::max(highest_, bytes);
  }

  double x(std::uint64_t at) const {
    return chart_width * static_cast<double>(at) / static_cast<double>(furthest_) * 0.98;
  }
  double y(Bytes bytes) const {
    return chart_height * (1 - static_cast<double>(bytes.count) / static_cast<double>(std::max(highest_, 1_B).count));
  }
  std::string point(std::uint64_t at, Bytes bytes) const { return svg_number(x(at)) + " " + svg_number(y(bytes)); }

  std::string legend() const {
    std::string html =
        "<div class=legend><span class=reserved>reserved, predicted, and its range</span><span class=live>live, "
        "predicted</span><span><i class=keys style=\"background:var(--text);border-radius:50%;margin-left:0\"></i>"
        "recorded</span>";
    if (draws_limit_)
      html += "<span class=failed>" + html_escaped(chart_.limit_name) + ", " + text_of(*chart_.limit) + "</span>";
    return html + "</div>\n";
  }

  std::string range() const {
    if (chart_.predicted.empty()) return {};
    std::string path;
    for (const GrowthChart::Predicted& p : chart_.predicted) path += (path.empty() ? "M" : "L") + point(p.at, p.high);
    for (auto p = chart_.predicted.rbegin(); p != chart_.predicted.rend(); ++p) path += "L" + point(p->at, p->low);
    return "<path class=range style=\"fill:var(--orange);opacity:.25\" d=\"" + path + "Z\"/>\n";
  }

  std::string curve(const std::string& name, Bytes GrowthChart::Predicted::*bytes, const std::string& colour) const {
    std::string path;
    for (const GrowthChart::Predicted& p : chart_.predicted) path += (path.empty() ? "M" : "L") + point(p.at, p.*bytes);
    if (path.empty()) return {};
    return "<path class=\"curve-" + name + "\" style=\"fill:none;opacity:1;stroke:var(" + colour + ");stroke-width:2;" +
           std::string(thin) + "\" d=\"" + path + "\"/>\n";
  }

  /// Round however the chart is stretched: a zero-length line with round caps.
  std::string dot(std::uint64_t at, Bytes bytes, const std::string& kind, const std::string& what,
                  const std::string& colour, int size) const {
    return "<path class=\"dot-" + kind + "\" style=\"fill:none;stroke:var(" + colour +
           ");stroke-linecap:round;stroke-width:" + std::to_string(size) + ";" + std::string(thin) + "\" d=\"M" +
           point(at, bytes) + "h0\"><title>" + html_escaped(chart_.parameter) + " " + text_of(at) + ": " +
           text_of(bytes) + " " + what + "</title></path>\n";
  }

  /// The axis numbers, omitting overlapping ones.
  std::string ticks() const {
    std::set<std::uint64_t> values;
    for (const GrowthChart::Recorded& p : chart_.recorded) values.insert(p.at);
    for (const GrowthChart::Predicted& p : chart_.predicted)
      if (p.asked) values.insert(p.at);
    std::string html =
        "<div class=ticks><span style=\"left:0\">" + html_escaped(clipped(chart_.parameter, 24)) + "</span>";
    double free_from = 60;
    for (const std::uint64_t value : values) {
      if (x(value) < free_from) continue;
      html += "<span style=\"left:" + svg_number(100 * x(value) / chart_width) + "%;transform:translateX(-50%)\">" +
              text_of(value) + "</span>";
      free_from = x(value) + 36;
    }
    return html + "</div>\n";
  }

  const GrowthChart& chart_;
  std::uint64_t furthest_ = 0;
  Bytes highest_;
  bool draws_limit_ = false;
};

}  // namespace

std::string growth_chart(const GrowthChart& chart) { return Chart(chart).html(); }

}  // namespace memreel
