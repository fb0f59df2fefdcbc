#include "collector/attach/process_status.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <string_view>

namespace memreel::attach {
namespace {

constexpr std::size_t most_heaps = 256, longest_name = 128;  // so that it fits in a message

/// Removes the number at the start of a text, and the blank after it.
template <class Number>
bool take(std::string_view& text, Number& number) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  return true;
}

/// "DEVICE LEVEL LIVE PEAK RESERVED NAME"; the name may contain blanks.
std::string text_of(const HeapStatus& heap) {
  return std::to_string(heap.device) + ' ' + (heap.level == Level::driver ? '0' : '1') + ' ' +
         std::to_string(heap.live.count) + ' ' + std::to_string(heap.peak.count) + ' ' +
         std::to_string(heap.reserved.count) + ' ' + heap.name.substr(0, longest_name);
}

std::optional<HeapStatus> heap_of(std::string_view text) {
  HeapStatus heap;
  int level = 0;
  if (!take(text, heap.device) || !take(text, level) || !take(text, heap.live.count) || !take(text, heap.peak.count) ||
      !take(text, heap.reserved.count))
    return std::nullopt;
  heap.level = level == 0 ? Level::driver : Level::framework;
  heap.name = text.substr(0, longest_name);
  return heap;
}

/// "DEVICE USED FREE"
std::optional<DeviceStatus> device_of(std::string_view text) {
  DeviceStatus device;
  if (!take(text, device.device) || !take(text, device.used.count) || !take(text, device.free.count))
    return std::nullopt;
  return device;
}

}  // namespace

Message to_message(const ProcessStatus& status) {
  Message message{.word = "ok",
                  .fields = {{"recording", status.recording ? "1" : "0"},
                             {"trace", status.trace},
                             {"source", status.source},
                             {"rank", status.rank},
                             {"events", std::to_string(status.events)},
                             {"lost", std::to_string(status.lost)}}};
  for (const HeapStatus& heap : std::span(status.heaps).first(std::min(status.heaps.size(), most_heaps)))
    message.fields.emplace_back("heap", text_of(heap));
  for (const DeviceStatus& device : status.devices)
    message.fields.emplace_back("device", std::to_string(device.device) + ' ' + std::to_string(device.used.count) +
                                              ' ' + std::to_string(device.free.count));
  return message;
}

ProcessStatus process_status(const Message& answer) {
  ProcessStatus status{.recording = answer["recording"] == "1",
                       .trace = std::string(answer["trace"]),
                       .source = std::string(answer["source"]),
                       .rank = std::string(answer["rank"]),
                       .events = answer.number("events"),
                       .lost = answer.number("lost"),
                       .heaps = {},
                       .devices = {}};
  for (const auto& [name, value] : answer.fields) {
    if (name == "heap" && status.heaps.size() < most_heaps)
      if (auto heap = heap_of(value)) status.heaps.push_back(*std::move(heap));
    if (name == "device" && status.devices.size() < most_heaps)
      if (const auto device = device_of(value)) status.devices.push_back(*device);
  }
  return status;
}

}  // namespace memreel::attach
