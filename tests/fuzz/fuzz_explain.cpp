// SPDX-License-Identifier: Apache-2.0
// Any log may be explained: the answer is one of plain lines, whatever the pieces in which the log arrives.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "analyzer/analysis/explain/answer.h"
#include "analyzer/analysis/explain/log_scan.h"

namespace memreel::explain {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

/// What is said of a log that arrives in pieces of so many bytes.
std::string explained(std::string_view log, std::size_t piece) {
  LogScan scan;
  for (; !log.empty(); log.remove_prefix(std::min(piece, log.size()))) scan.take(log.substr(0, piece));
  const Findings findings = scan.finish();
  std::string text;
  for (const Failure& failure : findings.failures) text += text_of(failure, "log", false);
  return text;
}

}  // namespace
}  // namespace memreel::explain

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace memreel::explain;
  if (size == 0) return 0;
  const std::string_view log(reinterpret_cast<const char*>(data), size);
  const std::string text = explained(log, log.size());
  for (const char c : text) require(c == '\n' || static_cast<unsigned char>(c) >= ' ');
  const std::size_t piece = 1 + data[size / 2];
  require(explained(log, piece) == text);
  return 0;
}
