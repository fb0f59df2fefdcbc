// SPDX-License-Identifier: Apache-2.0
#include "collector/top/top_table.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "formats/model/printable.h"
#include "formats/model/quantity.h"

namespace memreel::top {
namespace {

constexpr std::array<std::pair<std::string_view, Order>, 4> orders{
    {{"live", Order::live}, {"reserved", Order::reserved}, {"growth", Order::growth}, {"pid", Order::process}}};

constexpr std::size_t most_leaks = 3;  // of one process

std::string left(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

/// `line`, cut to fit, without trailing blanks.
std::string fitted(std::string line, std::size_t columns) {
  line.resize(std::min(line.size(), columns));
  while (!is_printable(line) || line.ends_with(' ')) line.pop_back();
  return line + "\n";
}

/// The value by which a process is sorted: over all its heaps nearest to the program.
double weight(const WatchedProcess& process, Order order) {
  if (order == Order::process) return -static_cast<double>(process.process);
  const bool has_framework =
      std::ranges::any_of(process.heaps, [](const WatchedHeap& heap) { return heap.status.level == Level::framework; });
  double sum = process.heaps.empty() ? std::numeric_limits<double>::lowest() : 0;
  for (const WatchedHeap& heap : process.heaps) {
    if (has_framework && heap.status.level != Level::framework) continue;
    if (order == Order::growth)
      sum += heap.growth.value_or(0);
    else
      sum += static_cast<double>((order == Order::live ? heap.status.live : heap.status.reserved).count);
  }
  return sum;
}

/// "GPU 0: 61.2 GiB of 80.0 GiB used"
std::string device_lines(std::span<const WatchedProcess> processes) {
  std::map<std::int32_t, attach::DeviceStatus> devices;  // processes sample at different moments: the maximum counts
  for (const WatchedProcess& process : processes)
    for (const attach::DeviceStatus& device : process.status.devices) {
      attach::DeviceStatus& known = devices.try_emplace(device.device, device).first->second;
      if (device.used > known.used) known = device;
    }
  std::string text;
  for (const auto& [number, device] : devices)
    text += "GPU " + std::to_string(number) + ": " + text_of(device.used) + " of " +
            text_of(device.used + device.free) + " used\n";
  return text;
}

std::string heap_line(const WatchedProcess& process, const WatchedHeap* heap, bool first) {
  std::string line = right_aligned(first ? std::to_string(process.process) : "", 8) + "  " +
                     left(first ? (process.status.rank.empty() ? "-" : process.status.rank) : "", 4) + "  " +
                     left(first ? process.name : "", 15) + "  ";
  if (heap == nullptr) {
    if (!process.problem.empty()) return line + process.problem;
    return line + (process.status.recording ? "no device memory seen" : "dormant: memreel attach starts recording");
  }
  const attach::HeapStatus& status = heap->status;
  return line + right_aligned(std::to_string(status.device), 3) + "  " + left(status.name, 12) + "  " +
         right_aligned(text_of(status.live), 10) + "  " +
         right_aligned(status.reserved.count > 0 ? text_of(status.reserved) : "-", 10) + "  " +
         right_aligned(text_of(status.peak), 10) + "  " +
         right_aligned(heap->growth ? text_of_growth(*heap->growth) : "-", 11);
}

constexpr std::string_view below_heaps = "                                 ";  // below the first column of a heap

std::string lost_line(const WatchedProcess& process, std::size_t columns) {
  if (process.status.lost == 0) return "";
  return fitted(std::string(below_heaps) + counted(process.status.lost, "event") +
                    " lost: with frees among them, LIVE and PEAK are too high",
                columns);
}

std::string findings_lines(const attach::Findings& findings, std::size_t columns) {
  std::string text, categories;
  for (const attach::CategoryUse& use : findings.categories)
    if (use.device >= 0) categories += (categories.empty() ? "" : ", ") + use.category + " " + text_of(use.bytes);
  if (!categories.empty()) text += fitted(std::string(below_heaps) + categories, columns);
  for (const attach::LeakSoFar& leak : std::span(findings.leaks).first(std::min(findings.leaks.size(), most_leaks)))
    text += fitted(std::string(below_heaps) + leak.verdict + " " + text_of(leak.bytes) + ": " +
                       (leak.place.empty() ? "no stack" : leak.place),
                   columns);
  return text;
}

}  // namespace

std::optional<Order> order_named(std::string_view name) {
  for (const auto& [known, order] : orders)
    if (known == name) return order;
  return std::nullopt;
}

std::optional<Order> order_of_key(char key) {
  for (const auto& [known, order] : orders)
    if (known.front() == key) return order;
  return std::nullopt;
}

std::string table(std::span<const WatchedProcess> processes, Order order, std::size_t columns) {
  std::string text = device_lines(processes);
  if (processes.empty()) return text + "no recorded processes\n";
  std::vector<const WatchedProcess*> sorted;
  for (const WatchedProcess& process : processes) sorted.push_back(&process);
  std::ranges::stable_sort(
      sorted, [&](const WatchedProcess* a, const WatchedProcess* b) { return weight(*a, order) > weight(*b, order); });
  text += fitted("     PID  RANK  PROCESS          GPU  HEAP                LIVE    RESERVED        PEAK   GROWTH/min",
                 columns);
  for (const WatchedProcess* const process : sorted) {
    if (process->heaps.empty()) text += fitted(heap_line(*process, nullptr, true), columns);
    for (const WatchedHeap& heap : process->heaps)
      text += fitted(heap_line(*process, &heap, &heap == &process->heaps.front()), columns);
    text += lost_line(*process, columns);
    if (process->findings) text += findings_lines(*process->findings, columns);
  }
  return text;
}

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
