// SPDX-License-Identifier: Apache-2.0
// Replays traces of growing length with `memreel replay --stream` in a 1 GiB address space, and all but the longest
// also from memory without a limit. A streamed replay's memory does not grow with the trace.
//
//     bench_stream [MILLIONS OF EVENTS] [POLICY]      default: 100, fit.best
//
// The trace takes two to three bytes per event in the folder for temporary files.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "formats/writer/trace_writer.h"
#include "tests/bench/synthetic.h"

namespace memreel {
namespace {

constexpr std::size_t live_at_once = 5000;
constexpr Bytes most_addresses = 1_GiB;

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

/// Random sizes and lifetimes. Memory use is the live allocations, regardless of the number of events.
Result<void> write_trace(const std::filesystem::path& path, std::uint64_t events) {
  std::filesystem::remove(path);
  Result<std::unique_ptr<LiveFile>> sink = live_file_sink(path);
  if (!sink) return std::move(sink).error();
  TraceWriter writer(*std::move(sink), {.producer = "synthetic", .source = "synthetic"},
                     {.encode_in_background = true});
  const HeapId heap = writer.intern(Heap{.name = writer.intern("pool"), .level = Level::framework});
  const OriginId origin = writer.intern(Origin{.heap = heap});
  synthetic::Random random(1);
  Nanoseconds time{};
  struct Live {
    AllocationId allocation = AllocationId::none;
    Address address;
    Bytes size;
  };
  std::vector<Live> live;
  constexpr Bytes most = 16_MiB;
  const auto append = [&](EventKind kind, const Live& on) {
    time += std::chrono::microseconds(1 + random.below(20));
    return writer.append({.kind = kind,
                          .origin = origin,
                          .allocation = on.allocation,
                          .time = time,
                          .address = on.address,
                          .size = on.size});
  };
  for (std::uint64_t i = 0; i < events;) {
    if (live.size() < live_at_once) {
      // Disjoint addresses: only the replay decides placement.
      const std::uint64_t place = live.size() * most.count;
      live.push_back({.address = Address{0x7F00'0000'0000 + place}, .size = {random.log_uniform(1, most.count)}});
      live.back().allocation = append(EventKind::alloc, live.back());
      ++i;
    } else {
      Live& replaced = live[random.below(live.size())];
      append(EventKind::free_requested, replaced);
      append(EventKind::free_completed, replaced);
      replaced.size = {random.log_uniform(1, most.count)};
      replaced.allocation = append(EventKind::alloc, replaced);
      i += 3;
    }
  }
  return writer.finish();
}

struct Cost {
  double seconds = 0;     // processor seconds, which stay meaningful on a busy machine
  double peak_bytes = 0;  // resident
};

/// Runs `memreel replay`, limited to `addresses` bytes of address space if given.
std::optional<Cost> replay(const std::filesystem::path& trace, const std::string& policy, bool streamed,
                           std::optional<Bytes> addresses) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    if (addresses) {
      const rlimit limit{addresses->count, addresses->count};
      if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(3);
    }
    if (std::freopen("/dev/null", "w", stdout) == nullptr) ::_exit(3);
    ::execl(MEMREEL_PROGRAM, "memreel", "replay", trace.c_str(), "--policy", policy.c_str(), "--json",
            streamed ? "--stream" : nullptr, nullptr);
    ::_exit(127);
  }
  int status = 0;
  rusage usage{};
  if (child < 0 || ::wait4(child, &status, 0, &usage) != child || status != 0) return std::nullopt;
  return Cost{.seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime),
              .peak_bytes = static_cast<double>(usage.ru_maxrss) * 1024};
}

int run(std::uint64_t most_events, const std::string& policy) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("bench_stream." + std::to_string(::getpid()) + ".reel");
  std::printf("%s, %zu live\n%14s %10s %10s %12s %14s\n", policy.c_str(), live_at_once, "events", "file MiB", "",
              "peak MiB", "M events/s");
  bool all_done = true;
  for (const std::uint64_t events : {most_events / 100, most_events / 10, most_events}) {
    if (const Result<void> written = write_trace(path, events); !written) {
      std::fprintf(stderr, "%s\n", written.error().what.c_str());
      return 1;
    }
    const double mega = 1e-6 * static_cast<double>(events);
    std::printf("%14lu %10.1f\n", static_cast<unsigned long>(events),
                static_cast<double>(std::filesystem::file_size(path)) / (1 << 20));
    const auto report = [&](const char* how, const std::optional<Cost>& cost) {
      all_done = all_done && cost;
      if (cost)
        std::printf("%14s %10s %10s %12.1f %14.1f\n", "", "", how, cost->peak_bytes / (1 << 20), mega / cost->seconds);
      else
        std::printf("%14s %10s %10s %12s\n", "", "", how, "failed");
    };
    report("streamed", replay(path, policy, true, most_addresses));
    if (events < most_events) report("loaded", replay(path, policy, false, std::nullopt));
    std::fflush(stdout);
  }
  std::filesystem::remove(path);
  return all_done ? 0 : 1;
}

}  // namespace
}  // namespace memreel

int main(int argc, char** argv) {
  const double millions = argc > 1 ? std::atof(argv[1]) : 100;
  if (!(millions >= 1)) {
    std::fprintf(stderr, "usage: bench_stream [MILLIONS OF EVENTS] [POLICY]\n");
    return 2;
  }
  return memreel::run(static_cast<std::uint64_t>(millions * 1e6), argc > 2 ? argv[2] : "fit.best");
}
