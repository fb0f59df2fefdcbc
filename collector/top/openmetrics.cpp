// SPDX-License-Identifier: Apache-2.0
#include "collector/top/scrape_server.h"

#include <array>
#include <charconv>
#include <initializer_list>

#include "memreel/version.h"

namespace memreel::top {
namespace {

using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

/// Writes families, whose samples must stay together.
class Exposition {
 public:
  /// `unit`: empty if the name has none.
  void family(std::string_view name, std::string_view type, std::string_view unit, std::string_view help) {
    name_ = name;
    text_ += "# TYPE " + name_ + " " + std::string(type) + "\n";
    if (!unit.empty()) text_ += "# UNIT " + name_ + " " + std::string(unit) + "\n";
    text_ += "# HELP " + name_ + " " + std::string(help) + "\n";
    suffix_ = type == "counter" ? "_total" : type == "info" ? "_info" : "";
  }

  void sample(Labels labels, double value) { add(labels, number_text(value)); }
  void sample(Labels labels, std::uint64_t value) { add(labels, std::to_string(value)); }

  std::string finish() && { return std::move(text_) + "# EOF\n"; }

 private:
  void add(Labels labels, const std::string& value) {
    text_ += name_ + suffix_;
    char before = '{';
    for (const auto& [name, content] : labels) {
      text_ += before + std::string(name) + "=\"" + escaped(content) + "\"";
      before = ',';
    }
    text_ += (labels.size() > 0 ? "} " : " ") + value + "\n";
  }

  static std::string escaped(std::string_view content) {
    std::string text;
    for (const char letter : content) {
      if (letter == '\\' || letter == '"') text += '\\';
      letter == '\n' ? text += "\\n" : text += letter;
    }
    return text;
  }

  /// Independent of the locale.
  static std::string number_text(double value) {
    std::array<char, 64> digits{};
    const auto [end, problem] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    return {digits.data(), end};
  }

  std::string text_, name_, suffix_;
};

/// Distinguishes one process's series from another's.
struct Identity {
  explicit Identity(const WatchedProcess& of)
      : rank(of.status.rank), process(std::to_string(of.process)), name(of.name) {}
  std::string rank, process, name;
};

std::string_view name_of(Level level) { return level == Level::driver ? "driver" : "framework"; }

constexpr auto every_heap = [](const WatchedHeap&) { return true; };

void add_heaps(Exposition& out, std::span<const WatchedProcess> processes, auto value, auto is_known) {
  for (const WatchedProcess& process : processes) {
    const Identity of(process);
    for (const WatchedHeap& heap : process.heaps)
      if (is_known(heap))
        out.sample({{"rank", of.rank},
                    {"pid", of.process},
                    {"process", of.name},
                    {"device", std::to_string(heap.status.device)},
                    {"heap", heap.status.name},
                    {"level", name_of(heap.status.level)}},
                   value(heap));
  }
}

void add_devices(Exposition& out, std::span<const WatchedProcess> processes, auto value) {
  constexpr std::uint64_t mib = 1ULL << 20U;
  for (const WatchedProcess& process : processes) {
    const Identity of(process);
    for (const attach::DeviceStatus& device : process.status.devices)
      out.sample(
          {{"rank", of.rank}, {"pid", of.process}, {"process", of.name}, {"device", std::to_string(device.device)}},
          value(device).count / mib);
  }
}

void add_processes(Exposition& out, std::span<const WatchedProcess> processes, auto value) {
  for (const WatchedProcess& process : processes) {
    const Identity of(process);
    out.sample({{"rank", of.rank}, {"pid", of.process}, {"process", of.name}}, value(process));
  }
}

void add_findings(Exposition& out, std::span<const WatchedProcess> processes) {
  out.family("memreel_category_bytes", "gauge", "bytes", "Live bytes by category, as of the latest analysis.");
  for (const WatchedProcess& process : processes) {
    if (!process.findings) continue;
    const Identity of(process);
    for (const attach::CategoryUse& use : process.findings->categories)
      if (use.device >= 0)
        out.sample({{"rank", of.rank},
                    {"pid", of.process},
                    {"process", of.name},
                    {"device", std::to_string(use.device)},
                    {"heap", use.heap},
                    {"category", use.category}},
                   use.bytes.count);
  }
  const auto add_leaks = [&](auto value) {
    for (const WatchedProcess& process : processes) {
      if (!process.findings) continue;
      const Identity of(process);
      for (const std::string_view verdict : {"leak", "suspected"}) {
        decltype(value(attach::LeakSoFar{})) sum{};
        for (const attach::LeakSoFar& leak : process.findings->leaks)
          if (leak.verdict == verdict) sum += value(leak);
        out.sample({{"rank", of.rank}, {"pid", of.process}, {"process", of.name}, {"verdict", verdict}}, sum);
      }
    }
  };
  out.family("memreel_leaked_bytes", "gauge", "bytes", "Live bytes from leaking stacks, as of the latest analysis.");
  add_leaks([](const attach::LeakSoFar& leak) { return leak.bytes.count; });
  out.family("memreel_leak_growth_per_step_bytes", "gauge", "bytes", "Growth of leaked bytes per step.");
  add_leaks([](const attach::LeakSoFar& leak) { return leak.growth_per_step; });
}

}  // namespace

std::string openmetrics(std::span<const WatchedProcess> processes) {
  Exposition out;
  out.family("memreel_build", "info", "", "The version of memreel.");
  out.sample({{"version", version}}, std::uint64_t{1});
  out.family("memreel_recorded_processes", "gauge", "", "Processes being recorded.");
  std::uint64_t recorded = 0;
  for (const WatchedProcess& process : processes) recorded += process.status.recording ? 1 : 0;
  out.sample({}, recorded);
  out.family("memreel_up", "gauge", "", "1 if the process answers, else 0.");
  add_processes(out, processes, [](const WatchedProcess& of) { return std::uint64_t{of.problem.empty() ? 1U : 0U}; });
  out.family("memreel_events", "counter", "", "Events recorded.");
  add_processes(out, processes, [](const WatchedProcess& of) { return of.status.events; });
  out.family("memreel_lost_events", "counter", "", "Events that could not be recorded.");
  add_processes(out, processes, [](const WatchedProcess& of) { return of.status.lost; });
  out.family("memreel_heap_live_bytes", "gauge", "bytes", "Bytes requested and not yet freed.");
  add_heaps(
      out, processes, [](const WatchedHeap& heap) { return heap.status.live.count; }, every_heap);
  out.family("memreel_heap_peak_bytes", "gauge", "bytes", "Peak live bytes since recording began.");
  add_heaps(
      out, processes, [](const WatchedHeap& heap) { return heap.status.peak.count; }, every_heap);
  out.family("memreel_heap_reserved_bytes", "gauge", "bytes", "Bytes that the pool has reserved from the driver.");
  // What a heap reserves is not known of all.
  add_heaps(
      out, processes, [](const WatchedHeap& heap) { return heap.status.reserved.count; },
      [](const WatchedHeap& heap) {
        return heap.status.reserved > 0_B || (heap.status.level == Level::framework && heap.status.live == 0_B);
      });
  add_findings(out, processes);
  out.family("DCGM_FI_DEV_FB_USED", "gauge", "", "Framebuffer memory used (in MiB).");
  add_devices(out, processes, [](const attach::DeviceStatus& device) { return device.used; });
  out.family("DCGM_FI_DEV_FB_FREE", "gauge", "", "Framebuffer memory free (in MiB).");
  add_devices(out, processes, [](const attach::DeviceStatus& device) { return device.free; });
  return std::move(out).finish();
}

}  // namespace memreel::top
