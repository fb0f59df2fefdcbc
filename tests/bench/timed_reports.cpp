// SPDX-License-Identifier: Apache-2.0
// The program under test in modules_cost.py: reports tensors as PyTorch's allocator does, through the dynamic linker,
// and measures the time of each report.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

// As PyTorch declares them; the names and types make the symbol. NOLINTBEGIN(readability-identifier-naming)
namespace c10 {

struct Device {
  std::int8_t type, index;
};
void reportMemoryUsageToProfiler(void* address, std::int64_t change, std::size_t allocated, std::size_t reserved,
                                 Device device);

}  // namespace c10
// NOLINTEND(readability-identifier-naming)

namespace {

using Time = std::chrono::steady_clock;
using Nanoseconds = std::chrono::duration<double, std::nano>;

std::vector<double> measured;                              // NOLINT: one thread's
std::vector<unsigned char> others(std::size_t{8} << 20U);  // NOLINT: what stands for the program's other memory

/// Reads that many cache lines, different ones each time until all have been read.
void work(std::size_t lines) {
  constexpr std::size_t step = 7 * 64;
  static std::size_t at = 0;
  unsigned sum = 0;
  for (std::size_t i = 0; i < lines; ++i) sum += others[at = (at + step) % others.size()];
  asm volatile("" : : "r"(sum));  // NOLINT(hicpp-no-assembler): the reads are done
}

template <class Call>
double time_of(Call call) {
  const auto begin = Time::now();
  call();
  return Nanoseconds(Time::now() - begin).count();
}

/// Uses the fastest 95 of 100: the others were interrupted.
double mean_of(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  times.resize(times.size() * 95 / 100);
  double sum = 0;
  for (const double time : times) sum += time;
  return sum / static_cast<double>(times.size());
}

}  // namespace

/// That many allocation/free pairs, each after the program's own work.
extern "C" void report_pairs(int pairs, std::size_t lines) {
  void* const address = &measured;
  for (int i = 0; i < pairs; ++i)
    for (const std::int64_t change : {512, -512}) {
      work(lines);
      measured.push_back(time_of([&] { c10::reportMemoryUsageToProfiler(address, change, 512, 1U << 20U, {1, 0}); }));
    }
}

/// Prints the ns per report, minus the clock's own cost. The first third is not counted.
extern "C" void print_cost() {
  const std::vector<double> warm(measured.begin() + static_cast<std::ptrdiff_t>(measured.size() / 3), measured.end());
  std::vector<double> nothing(10'000);
  for (double& time : nothing) time = time_of([] {});
  std::printf("%.1f\n", mean_of(warm) - mean_of(nothing));
}
