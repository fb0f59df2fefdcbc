// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/recorded.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "formats/model/notation.h"
#include "formats/model/quantity.h"

namespace memreel::viewer::terminal {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::pair<std::string_view, RecordedOrder>, recorded_orders> order_names{
    {{"live", RecordedOrder::live},
     {"reserved", RecordedOrder::reserved},
     {"growth", RecordedOrder::growth},
     {"pid", RecordedOrder::process}}};

std::string text_or_nothing(const Json& value) { return value.is_string() ? value.get<std::string>() : ""; }
Bytes bytes_of(const Json& row, const char* key) { return Bytes{row.at(key).get<std::uint64_t>()}; }

void read_findings(const Json& findings, RecordedProcess& process) {
  for (const Json& use : findings.at("categories"))
    if (use.at("device").get<int>() >= 0)
      process.categories += (process.categories.empty() ? "" : ", ") + use.at("category").get<std::string>() + " " +
                            text_of(bytes_of(use, "bytes"));
  for (const Json& leak : findings.at("leaks")) {
    const auto place = leak.at("place").get<std::string>();
    process.leaks.push_back(leak.at("verdict").get<std::string>() + " " + text_of(bytes_of(leak, "bytes")) + ": " +
                            (place.empty() ? "no stack" : place));
  }
}

RecordedProcess process_of(const Json& row) {
  RecordedProcess process;
  process.process = row.at("process").get<int>();
  process.name = row.at("name").get<std::string>();
  process.rank = text_or_nothing(row.at("rank"));
  process.problem = text_or_nothing(row.at("problem"));
  process.is_recording = row.at("recording").get<bool>();
  process.trace = text_or_nothing(row.at("trace"));
  for (const Json& heap : row.at("heaps")) {
    const Json& growth = heap.at("growth_bytes_per_minute");
    process.heaps.push_back({.name = heap.at("heap").get<std::string>(),
                             .device = heap.at("device").get<int>(),
                             .is_framework = heap.at("level") == "framework",
                             .live = bytes_of(heap, "live_bytes"),
                             .reserved = bytes_of(heap, "reserved_bytes"),
                             .peak = bytes_of(heap, "peak_bytes"),
                             .growth = growth.is_number() ? std::optional(growth.get<double>()) : std::nullopt});
  }
  for (const Json& device : row.at("devices"))
    process.devices.push_back({.device = device.at("device").get<int>(),
                               .used = bytes_of(device, "used_bytes"),
                               .free = bytes_of(device, "free_bytes")});
  process.lost = row.at("lost_events").get<std::uint64_t>();
  if (row.at("findings").is_object()) read_findings(row.at("findings"), process);
  return process;
}

/// What a process is sorted by: the sum over its heaps nearest to the program.
double weight(const RecordedProcess& process, RecordedOrder order) {
  if (order == RecordedOrder::process) return -static_cast<double>(process.process);
  const bool has_framework = std::ranges::any_of(process.heaps, &RecordedHeap::is_framework);
  double sum = process.heaps.empty() ? std::numeric_limits<double>::lowest() : 0;
  for (const RecordedHeap& heap : process.heaps) {
    if (has_framework && !heap.is_framework) continue;
    sum += order == RecordedOrder::growth
               ? heap.growth.value_or(0)
               : static_cast<double>((order == RecordedOrder::live ? heap.live : heap.reserved).count);
  }
  return sum;
}

/// The peak has a column only where there is room.
bool has_peak(int width) { return width >= 100; }

std::string title_of(const RecordedProcess& process) {
  return (process.rank.empty() ? "" : "rank " + process.rank + " ") + process.name;
}

class RecordedRows {
 public:
  RecordedRows(List& list, bool has_peak) : list_(list), has_peak_(has_peak) {}

  void add(const RecordedProcess& process, std::size_t item) {
    item_ = item;
    for (const RecordedHeap& heap : process.heaps) {
      const bool is_first = &heap == &process.heaps.front();
      std::vector<std::string> cells{text_of(heap.live), heap.reserved > 0_B ? text_of(heap.reserved) : "-"};
      if (has_peak_) cells.push_back(text_of(heap.peak));
      cells.insert(cells.end(), {heap.growth ? text_of_growth(*heap.growth) : "-", std::to_string(heap.device),
                                 is_first ? std::to_string(process.process) : "",
                                 (is_first ? title_of(process) + "  " : "") + heap.name});
      put(std::move(cells));
    }
    if (process.heaps.empty()) {
      const std::string why = !process.problem.empty() ? process.problem
                              : process.is_recording   ? "holds no device memory"
                                                       : "dormant";
      std::vector<std::string> cells(list_.columns.size());
      cells[cells.size() - 2] = std::to_string(process.process);
      cells.back() = title_of(process) + ": " + why;
      ListRow& row = put(std::move(cells));
      row.is_alarm = !process.problem.empty();
      row.is_faint = true;
    }
    if (process.lost > 0)
      remark(text_of(process.lost) + (process.lost == 1 ? " event" : " events") + " lost: figures may be too high",
             true);
    if (!process.categories.empty()) remark(process.categories, false);
    constexpr std::size_t most_leaks = 3;
    for (std::size_t i = 0; i < std::min(process.leaks.size(), most_leaks); ++i)
      remark(process.leaks[i], process.leaks[i].starts_with("leak"));
  }

 private:
  ListRow& put(std::vector<std::string> cells) {
    ListRow& row = list_.rows.emplace_back();
    row.cells = std::move(cells);
    row.item = item_;
    return row;
  }
  void remark(const std::string& text, bool is_alarm) {
    std::vector<std::string> cells(list_.columns.size());
    cells.back() = text;
    ListRow& row = put(std::move(cells));
    row.is_alarm = is_alarm;
    row.is_faint = true;
    row.indent = 2;
  }

  List& list_;
  bool has_peak_;
  std::size_t item_ = 0;
};

}  // namespace

std::optional<Recorded> parse_recorded(std::string_view document) try {
  const Json json = Json::parse(document);
  if (json.at("schema") != "memreel.top/1") return std::nullopt;
  Recorded recorded;
  for (const Json& row : json.at("processes")) recorded.push_back(process_of(row));
  return recorded;
} catch (const Json::exception&) {
  return std::nullopt;
}

std::optional<RecordedOrder> recorded_order(std::string_view name) {
  for (const auto& [known, order] : order_names)
    if (known == name) return order;
  return std::nullopt;
}

std::optional<RecordedOrder> recorded_order_of(char32_t key) {
  for (const auto& [known, order] : order_names)
    if (static_cast<char32_t>(known.front()) == key) return order;
  return std::nullopt;
}

std::vector<std::string> device_lines(const Recorded& recorded) {
  std::map<int, RecordedDevice> devices;  // processes sample at different moments: the maximum counts
  for (const RecordedProcess& process : recorded)
    for (const RecordedDevice& device : process.devices) {
      RecordedDevice& known = devices.try_emplace(device.device, device).first->second;
      if (device.used > known.used) known = device;
    }
  std::vector<std::string> lines;
  for (const auto& [number, device] : devices)
    lines.push_back("GPU " + std::to_string(number) + ": " + text_of(device.used) + " of " +
                    text_of(device.used + device.free) + " used");
  return lines;
}

List recorded_list(const Recorded& recorded, RecordedOrder order, int width) {
  List list;
  list.columns = {{"live", 10}, {"reserved", 10}};
  if (has_peak(width)) list.columns.push_back({"peak", 10});
  list.columns.insert(list.columns.end(), {{"growth/min", 10}, {"GPU", 3}, {"PID", 7}, {"who", 0, false, true}});
  list.empty = "No process of this machine is being recorded.";
  std::vector<std::size_t> sorted(recorded.size());
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::ranges::stable_sort(sorted, std::ranges::greater{}, [&](std::size_t i) { return weight(recorded[i], order); });
  RecordedRows rows(list, has_peak(width));
  for (const std::size_t i : sorted) rows.add(recorded[i], i);
  return list;
}

std::size_t column_of(RecordedOrder order, int width) {
  const std::size_t after_peak = has_peak(width) ? 1 : 0;
  const std::array<std::size_t, recorded_orders> columns{0, 1, 2 + after_peak, 4 + after_peak};
  return columns.at(static_cast<std::size_t>(order));
}

}  // namespace memreel::viewer::terminal
