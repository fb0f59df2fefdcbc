#include "collector/top/document.h"

#include <string>

namespace memreel::top {
namespace {

using record::Json;

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json json_of(const WatchedHeap& heap) {
  return {{"device", heap.status.device},
          {"heap", heap.status.name},
          {"level", heap.status.level == Level::driver ? "driver" : "framework"},
          {"live_bytes", heap.status.live.count},
          {"peak_bytes", heap.status.peak.count},
          {"reserved_bytes", heap.status.reserved.count},
          {"growth_bytes_per_minute", heap.growth ? Json(*heap.growth) : Json()}};
}

Json json_of(const attach::Findings& findings) {
  Json categories = Json::array(), leaks = Json::array();
  for (const attach::CategoryUse& use : findings.categories)
    categories.push_back(
        {{"device", use.device}, {"heap", use.heap}, {"category", use.category}, {"bytes", use.bytes.count}});
  for (const attach::LeakSoFar& leak : findings.leaks)
    leaks.push_back({{"verdict", leak.verdict},
                     {"bytes", leak.bytes.count},
                     {"count", leak.count},
                     {"growth_bytes_per_step", leak.growth_per_step},
                     {"place", leak.place}});
  return {{"categories", categories}, {"leaks", leaks}};
}

Json json_of(const WatchedProcess& process) {
  Json heaps = Json::array(), devices = Json::array();
  for (const WatchedHeap& heap : process.heaps) heaps.push_back(json_of(heap));
  for (const attach::DeviceStatus& device : process.status.devices)
    devices.push_back(
        {{"device", device.device}, {"used_bytes", device.used.count}, {"free_bytes", device.free.count}});
  return {{"process", process.process},
          {"name", process.name},
          {"rank", text_or_null(process.status.rank)},
          {"problem", text_or_null(process.problem)},
          {"recording", process.status.recording},
          {"trace", text_or_null(process.status.trace)},
          {"events", process.status.events},
          {"lost_events", process.status.lost},
          {"heaps", heaps},
          {"devices", devices},
          {"findings", process.findings ? json_of(*process.findings) : Json()}};
}

}  // namespace

Json top_document(std::span<const WatchedProcess> processes) {
  Json rows = Json::array();
  for (const WatchedProcess& process : processes) rows.push_back(json_of(process));
  return {{"schema", "memreel.top/1"}, {"processes", rows}};
}

}  // namespace memreel::top
