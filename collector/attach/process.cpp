// SPDX-License-Identifier: Apache-2.0
#include "collector/attach/process.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "formats/model/files.h"

namespace memreel::attach {
namespace {

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc() && end.ptr == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// The directory's entries that are numbers, in order.
std::vector<pid_t> numbers_in(const std::string& directory) {
  std::vector<pid_t> numbers;
  std::error_code problem;
  std::filesystem::directory_iterator entry(directory, problem), end;
  for (; !problem && entry != end; entry.increment(problem))
    if (const auto number = number_in<pid_t>(entry->path().filename().string())) numbers.push_back(*number);
  std::ranges::sort(numbers);
  return numbers;
}

}  // namespace

std::optional<std::string> read_proc(pid_t process, std::string_view file) {
  Result<std::string> text = read_whole_file("/proc/" + std::to_string(process) + "/" + std::string(file));
  if (!text) return std::nullopt;
  return *std::move(text);
}

std::optional<std::uint64_t> start_time(pid_t process) {
  const auto stat = read_proc(process, "stat");
  // The name, in parentheses, may contain anything; the start time is the 20th word after it (proc(5)).
  const std::size_t name_end = stat ? stat->rfind(')') : std::string::npos;
  if (name_end == std::string::npos) return std::nullopt;
  std::string_view rest = std::string_view(*stat).substr(name_end + 1);
  for (int word = 0; word < 20; ++word) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(space + 1);
  }
  return number_in<std::uint64_t>(rest.substr(0, rest.find(' ')));
}

std::string command_name(pid_t process) {
  std::string name = read_proc(process, "comm").value_or("");
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

std::vector<pid_t> processes_named(std::string_view name) {
  constexpr std::size_t most = 3;
  std::vector<pid_t> found;
  for (const pid_t process : all_processes())
    if (command_name(process) == name) found.push_back(process);
  std::ranges::sort(found, std::greater());
  if (found.size() > most) found.resize(most);
  return found;
}

bool KnownProcess::has_ended() const {
  if (!start_ || start_time(number_) != start_) return true;
  // The main thread may end before the others: it stays a zombie until they have ended.
  return status_field(number_, "State").starts_with('Z') && threads_of(number_).size() <= 1;
}

std::string status_field(pid_t process, std::string_view name) {
  const std::string status = read_proc(process, "status").value_or("");
  const std::string line = "\n" + std::string(name) + ":\t";
  const std::size_t begin = status.find(line);
  if (begin == std::string::npos) return {};
  return status.substr(begin + line.size(), status.find('\n', begin + 1) - begin - line.size());
}

std::optional<std::uint64_t> number_in_own_namespace(pid_t process) {
  const std::string numbers = status_field(process, "NSpid");  // ours first, its own last
  if (numbers.empty()) return static_cast<std::uint64_t>(process);
  return number_in<std::uint64_t>(std::string_view(numbers).substr(numbers.rfind('\t') + 1));
}

std::vector<pid_t> all_processes() { return numbers_in("/proc"); }

std::vector<pid_t> threads_of(pid_t process) { return numbers_in("/proc/" + std::to_string(process) + "/task"); }

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
