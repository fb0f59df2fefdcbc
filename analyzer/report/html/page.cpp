#include "analyzer/report/html/page.h"

#include <string_view>

#include "analyzer/report/category_style.h"
#include "analyzer/report/html_text.h"

namespace memreel {
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

}  // namespace memreel
