// SPDX-License-Identifier: Apache-2.0
#include "analyzer/describe/html/charts.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <queue>
#include <set>

#include "analyzer/analysis/category/frame_rules.h"
#include "analyzer/describe/live_groups.h"
#include "analyzer/describe/markup.h"
#include "formats/model/quantity.h"
#include "formats/model/stack_text.h"

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

namespace {

// Data colours are those of Okabe and Ito, distinguishable with any colour vision. Red is for leaks and failures only.
constexpr std::string_view style = R"css(
:root{color-scheme:light dark;--ground:#fff;--panel:#f6f7f8;--text:#1c2126;--quiet:#66707a;--line:#e1e5e8;
--blue:#0072b2;--sky:#56b4e9;--orange:#e69f00;--bad:#c62f18;--own:#f3cf8a;--library:#c4e2f5;--root:#e1e5e8;--ink:#1c2126}
@media(prefers-color-scheme:dark){:root{--ground:#14171a;--panel:#1c2024;--text:#e4e8eb;--quiet:#98a2ab;--line:#2c3238;
--blue:#3d9ad1;--sky:#2a6f9c;--orange:#c78a0b;--bad:#ff7b5e;--own:#7d5b12;--library:#24506b;--root:#2c3238;--ink:#eef1f3}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--text);font:15px/1.55 Inter,system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1080px;margin:0 auto;padding:32px 20px 64px}
h1{font-size:24px;font-weight:650;letter-spacing:-.01em;margin:0;overflow-wrap:anywhere}
h2{font-size:18px;font-weight:650;margin:48px 0 4px}
h3{font-size:15px;font-weight:600;margin:28px 0 6px;overflow-wrap:anywhere}
p{margin:6px 0;max-width:78ch;overflow-wrap:anywhere}
.quiet{color:var(--quiet)}.bad{color:var(--bad)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:24px 0}
.tile{background:var(--panel);border-radius:10px;padding:14px 16px}
.tile b{display:block;font-size:22px;font-weight:600;letter-spacing:-.01em;font-variant-numeric:tabular-nums}
.tile span{color:var(--quiet);font-size:13px}
.headlines{list-style:none;padding:0;margin:16px 0}
.headlines li{border-left:3px solid var(--sky);padding:2px 0 2px 12px;margin:10px 0;overflow-wrap:anywhere}
.headlines li.alarm{border-color:var(--bad)}
.scroll{overflow-x:auto;margin:10px 0}
table{border-collapse:collapse;width:100%;font-size:14px}
th{text-align:left;font-weight:500;color:var(--quiet);font-size:13px;white-space:nowrap}
th,td{padding:5px 22px 5px 0;border-bottom:1px solid var(--line);vertical-align:top;width:1%;white-space:nowrap}
th:last-child,td:last-child{width:auto;min-width:180px;white-space:normal;overflow-wrap:anywhere;padding-right:0}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
code,.strip,ol.stack{font:13px/1.5 ui-monospace,"SF Mono",Menlo,Consolas,monospace;overflow-wrap:anywhere}
details{margin:6px 0}summary{cursor:pointer;overflow-wrap:anywhere}
ol.stack{margin:4px 0 10px;padding-left:32px;color:var(--quiet)}
.chart{margin:12px 0 0}
.plot{position:relative;height:260px;background:var(--panel);border-radius:8px;overflow:hidden}
.plot svg{width:100%;height:100%;display:block}
.plot path{stroke:none}.reserved{fill:var(--orange)}.allocated{fill:var(--sky)}.live{fill:var(--blue)}
.plot path.reserved{opacity:.5}.plot path.most{opacity:.3}.plot .grid,.plot path.failed{fill:none;vector-effect:non-scaling-stroke}
.plot .grid{stroke:var(--line)}.plot path.failed{stroke:var(--bad);stroke-width:1.5}
.plot span{position:absolute;left:8px;font-size:12px;color:var(--quiet);pointer-events:none;background:var(--panel);border-radius:4px;padding:0 4px}
.plot .top{top:4px}.plot .middle{top:50%;transform:translateY(-50%)}
.cursor{position:absolute;top:0;bottom:0;width:1px;background:var(--text);opacity:.5;display:none;pointer-events:none}
.axis{display:flex;justify-content:space-between;font-size:12px;color:var(--quiet);padding:2px 2px 0}
.ticks{position:relative;height:20px;font-size:12px;color:var(--quiet)}.ticks span{position:absolute;top:2px}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px;color:var(--quiet);margin-bottom:6px}
.legend span{background:none}.legend span::before{content:"";display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px;vertical-align:-1px}
.legend .reserved::before{background:var(--orange);opacity:.5}.legend .allocated::before{background:var(--sky)}
.legend .key::before{background:var(--key)}
.legend .live::before{background:var(--blue)}.legend .failed::before{background:var(--bad);width:2px;border-radius:0}
.flame{position:relative;overflow:hidden;border-radius:8px;background:var(--panel);margin:10px 0}
.flame div{position:absolute;height:19px;line-height:19px;padding:0 5px;font-size:12px;white-space:nowrap;overflow:hidden;
text-overflow:ellipsis;color:var(--ink);border-right:1px solid var(--ground);border-radius:2px;cursor:zoom-in}
.flame .all{background:var(--root)}.flame .own{background:var(--own)}.flame .library{background:var(--library)}
.strip{color:var(--blue);letter-spacing:0;white-space:pre;overflow-x:auto}
.keys{display:inline-block;width:11px;height:11px;border-radius:3px;margin:0 6px 0 14px;vertical-align:-1px}
footer{margin-top:56px;color:var(--quiet);font-size:13px}
@media(max-width:600px){main{padding:20px 14px 48px}h1{font-size:20px}.plot{height:200px}.tiles{grid-template-columns:1fr 1fr}
th,td{padding-right:14px}}
@media print{.flame,.plot{break-inside:avoid}}
)css";

// The page works without it: charts and flame graphs are static, and titles show what scripts show faster.
constexpr std::string_view script = R"js(
const say=m=>m>=1024?(m/1024).toFixed(2)+' GiB':m+' MiB';
document.querySelectorAll('.plot[data-names]').forEach(plot=>{
 const names=plot.dataset.names.split('|'),values=plot.dataset.values.split('|').map(v=>v.split(',')),
  span=+plot.dataset.span,cursor=plot.querySelector('.cursor');
 plot.addEventListener('pointermove',e=>{
  const box=plot.getBoundingClientRect(),x=Math.min(.9999,Math.max(0,(e.clientX-box.left)/box.width)),i=Math.floor(x*values[0].length);
  cursor.style.display='block';cursor.style.left=x*100+'%';
  plot.title=[span>0?(x*span).toPrecision(4)+' s, at most:':'at most:'].concat(
   names.map((name,n)=>[name,+values[n][i]]).filter(([,v])=>v>0).reverse().map(([name,v])=>name+' '+say(v))).join('\n');});
 plot.addEventListener('pointerleave',()=>cursor.style.display='none');});
document.querySelectorAll('.flame').forEach(flame=>{
 const nodes=[...flame.children].map(n=>({n,l:parseFloat(n.style.left),w:parseFloat(n.style.width),t:parseFloat(n.style.top)}));
 const zoom=to=>nodes.forEach(({n,l,w,t})=>{
  const above=t<to.t&&l<=to.l+1e-6&&l+w>=to.l+to.w-1e-6,inside=t>=to.t&&l>=to.l-1e-3&&l+w<=to.l+to.w+1e-3;
  n.hidden=!above&&!inside;
  n.style.left=above?'0%':(l-to.l)/to.w*100+'%';n.style.width=above?'100%':w/to.w*100+'%';});
 nodes.forEach(node=>{node.n.addEventListener('click',()=>zoom(node));
  node.n.addEventListener('keydown',e=>{if(e.key==='Enter')zoom(node)});});});
)js";

}  // namespace

std::string html_page(const std::string& title, const std::string& body) {
  std::string page =
      "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n"
      "<meta name=viewport content=\"width=device-width,initial-scale=1\">\n"
      // Nothing is fetched, whatever a trace may contain.
      "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; script-src "
      "'unsafe-inline'\">\n<title>" +
      html_escaped(title) + "</title>\n<style>";
  page += style;
  page += ":root{" + css_colours(false) + "}@media(prefers-color-scheme:dark){:root{" + css_colours(true) + "}}\n";
  page += "</style>\n</head>\n<body>\n<main>\n" + body + "</main>\n<script>";
  page += script;
  return page + "</script>\n</body>\n</html>\n";
}

namespace {

constexpr std::size_t deepest = 64;
constexpr std::size_t most_text = 120;  // bytes of a frame's name
constexpr std::size_t most_label = 60;  // shown in place

/// Outermost first and at most `deepest`: without what only passes calls on, and without what a notebook or a launcher
/// calls the user's code through.
std::vector<FrameId> shown_frames(const Tables& tables, StackId stack) {
  std::vector<FrameId> frames;
  for (; stack != StackId::none; stack = tables[stack].caller)
    if (!passes_on(frame_text(tables, tables[stack].frame))) frames.push_back(tables[stack].frame);
  std::ranges::reverse(frames);
  const auto own = std::ranges::find_if(frames, [&](FrameId frame) { return tables[frame].owner == CodeOwner::user; });
  if (own != frames.end()) frames.erase(frames.begin(), own);
  if (frames.size() > deepest) frames.resize(deepest);
  return frames;
}

/// The whole tree, without positions.
class Builder {
 public:
  void add(const Tables& tables, StackId stack, Bytes bytes) {
    std::uint32_t node = 0;
    nodes_[0].size += bytes;
    for (const FrameId frame : shown_frames(tables, stack)) {
      node = child(node, frame);
      nodes_[node].size += bytes;
    }
  }

  /// The widest nodes, laid out.
  std::vector<FlameNode> widest(std::size_t most) const {
    std::vector<std::vector<std::uint32_t>> children(nodes_.size());
    for (std::uint32_t n = 1; n < nodes_.size(); ++n) children[nodes_[n].parent].push_back(n);
    const auto narrower = [&](std::pair<std::uint32_t, std::uint32_t> a, std::pair<std::uint32_t, std::uint32_t> b) {
      return std::pair(nodes_[a.first].size, b.first) < std::pair(nodes_[b.first].size, a.first);
    };
    // Pairs of a node here and its index in the result.
    std::priority_queue<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::pair<std::uint32_t, std::uint32_t>>,
                        decltype(narrower)>
        open(narrower);
    std::vector<FlameNode> result{nodes_[0]};
    open.emplace(0, 0);
    while (!open.empty()) {
      const auto [from, place] = open.top();
      open.pop();
      std::ranges::stable_sort(children[from], std::ranges::greater{}, [&](std::uint32_t n) { return nodes_[n].size; });
      Bytes at = result[place].begin;
      for (const std::uint32_t n : children[from]) {
        if (result.size() == most || nodes_[n].size * 1000 < nodes_[0].size) break;
        FlameNode node = nodes_[n];
        node.parent = place;
        node.begin = at;
        at += node.size;
        open.emplace(n, static_cast<std::uint32_t>(result.size()));
        result.push_back(node);
      }
    }
    return result;
  }

 private:
  std::uint32_t child(std::uint32_t parent, FrameId frame) {
    const auto [found, is_new] =
        by_frame_.try_emplace({parent, index(frame)}, static_cast<std::uint32_t>(nodes_.size()));
    if (is_new) nodes_.push_back({.frame = frame, .parent = parent, .depth = nodes_[parent].depth + 1});
    return found->second;
  }

  std::vector<FlameNode> nodes_{FlameNode{}};
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> by_frame_;
};

std::string percent(Bytes part, Bytes whole) {
  std::array<char, 32> text{};
  const double share = whole == 0_B ? 0 : 100 * static_cast<double>(part.count) / static_cast<double>(whole.count);
  const int length = std::snprintf(text.data(), text.size(), "%.3f%%", share);
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace

std::vector<FlameNode> flame_tree(const Trace& trace, std::span<const Lifetime> lives, HeapId heap,
                                  std::uint64_t events, std::size_t most_nodes) {
  std::map<std::uint32_t, Bytes> by_stack;
  for (const Lifetime& life : lives)
    if (life.live_after(events) && trace.tables[trace.events.origin(life.begin)].heap == heap)
      by_stack[index(trace.events.stack(life.begin))] += trace.events.size(life.begin);
  Builder builder;
  for (const auto& [stack, bytes] : by_stack) builder.add(trace.tables, StackId{stack}, bytes);
  return builder.widest(most_nodes);
}

std::string flame_graph(const Tables& tables, const std::vector<FlameNode>& tree) {
  if (tree.empty() || tree.front().size == 0_B) return "<p class=quiet>Nothing was live.</p>\n";
  const Bytes all = tree.front().size;
  std::uint32_t depth = 0;
  for (const FlameNode& node : tree) depth = std::max(depth, node.depth);
  std::string html = "<div class=flame style=\"height:" + std::to_string((depth + 1) * 20) + "px\">\n";
  for (const FlameNode& node : tree) {
    const FrameText frame = frame_text(tables, node.frame);
    const std::string name = node.depth == 0 ? "all" : clipped(text_of(frame), most_text);
    const char* const kind = node.depth == 0 ? "all" : frame.owner != CodeOwner::user ? "library" : "own";
    html += "<div tabindex=0 class=" + std::string(kind) + " style=\"left:" + percent(node.begin, all) +
            ";width:" + percent(node.size, all) + ";top:" + std::to_string(node.depth * 20) + "px\" title=\"" +
            html_escaped(name) + "&#10;" + text_of(node.size) + ", " +
            text_of_share(static_cast<double>(node.size.count) / static_cast<double>(all.count)) + "\">" +
            html_escaped(clipped(name, most_label)) + "</div>\n";
  }
  return html + "</div>\n";
}

}  // namespace memreel
