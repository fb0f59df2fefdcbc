// SPDX-License-Identifier: Apache-2.0
// A stand-in for libc10.so: PyTorch's side of the reports.
// NOLINTBEGIN: PyTorch's names
#include <cstddef>
#include <cstdint>

namespace c10 {

struct Device {
  std::int8_t type, index;
};

struct Seen {
  int reports = 0, failures = 0;
  std::int64_t change = 0;
};

Seen& seen() {
  static Seen seen;
  return seen;
}

void reportMemoryUsageToProfiler(void* /*address*/, std::int64_t change, std::size_t /*allocated*/,
                                 std::size_t /*reserved*/, Device /*device*/) {
  ++seen().reports;
  seen().change += change;
}
void reportOutOfMemoryToProfiler(std::int64_t /*size*/, std::size_t /*allocated*/, std::size_t /*reserved*/,
                                 Device /*device*/) {
  ++seen().failures;
}

}  // namespace c10

extern "C" int fake_c10_reports() { return c10::seen().reports; }
extern "C" int fake_c10_failures() { return c10::seen().failures; }
extern "C" std::int64_t fake_c10_change() { return c10::seen().change; }
// NOLINTEND
