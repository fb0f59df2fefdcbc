// SPDX-License-Identifier: Apache-2.0
#include "viewer/terminal/recorded.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <limits>
#include <map>
#include <numeric>
#include <system_error>

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
                              : process.is_recording   ? "no device memory seen"
                                                       : "dormant";
      std::vector<std::string> cells(list_.columns.size());
      cells[cells.size() - 2] = std::to_string(process.process);
      cells.back() = title_of(process) + ": " + why;
      ListRow& row = put(std::move(cells));
      row.is_alarm = !process.problem.empty();
      row.is_faint = true;
    }
    if (process.lost > 0) remark(counted(process.lost, "event") + " lost: figures may be too high", true);
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

Result<std::unique_ptr<Feed>> Feed::open(std::vector<std::string> arguments, std::function<void()> wake) {
  std::error_code problem;
  const std::string program =
      (std::filesystem::read_symlink("/proc/self/exe", problem).parent_path() / "memreel-top").string();
  arguments.insert(arguments.begin(), {"memreel-top", "top", "--feed"});
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  std::array<int, 2> to{-1, -1}, from{-1, -1};
  if (::pipe2(to.data(), O_CLOEXEC) != 0 || ::pipe2(from.data(), O_CLOEXEC) != 0)
    return Error{.what = "can't make a pipe", .where = {}, .remedy = "close some files"};
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, to[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, from[1], STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  // A group of its own: the terminal's signals are meant for us, and we end it.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t process = 0;
  const int refused = ::posix_spawn(&process, program.c_str(), &files, &attributes, words.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&attributes);
  ::close(to[0]);
  ::close(from[1]);
  if (refused != 0) {
    ::close(to[1]);
    ::close(from[0]);
    return Error{.what = "can't start it: " + std::generic_category().message(refused),
                 .where = program,
                 .remedy = "reinstall memreel"};
  }
  auto feed = std::unique_ptr<Feed>(new Feed(process, to[1], from[0], std::move(wake)));
  return feed->latest() ? std::move(feed) : nullptr;
}

Feed::Feed(pid_t process, int input, int output, std::function<void()> wake)
    : process_(process), input_(input), output_(output), wake_(std::move(wake)) {
  std::string line;
  if (!read_line({}, line)) return;
  if (auto recorded = parse_recorded(line)) latest_ = std::make_shared<const Recorded>(*std::move(recorded));
  reader_ = std::jthread([this](const std::stop_token& stop) { read(stop); });
}

Feed::~Feed() {
  ::close(input_);  // which it takes for its end
  reader_.request_stop();
  if (reader_.joinable()) reader_.join();
  ::kill(process_, SIGTERM);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
  ::close(output_);
}

std::shared_ptr<const Recorded> Feed::latest() const {
  const std::lock_guard lock(mutex_);
  return latest_;
}

bool Feed::read_line(const std::stop_token& stop, std::string& line) {
  constexpr int patience_ms = 100;
  while (true) {
    if (const std::size_t end = unread_.find('\n'); end != std::string::npos) {
      line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return true;
    }
    pollfd file{.fd = output_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&file, 1, patience_ms);
    if (stop.stop_requested()) return false;
    if (ready <= 0) continue;
    std::array<char, 65536> bytes{};
    const ssize_t count = ::read(output_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    unread_.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

void Feed::read(const std::stop_token& stop) {
  std::string line;
  bool goes_on = true;
  while (goes_on) {
    goes_on = read_line(stop, line);
    auto recorded = goes_on ? parse_recorded(line) : std::nullopt;
    {
      const std::lock_guard lock(mutex_);
      if (recorded)
        latest_ = std::make_shared<const Recorded>(*std::move(recorded));
      else if (!goes_on)
        latest_.reset();
    }
    wake_();
  }
}

}  // namespace memreel::viewer::terminal
