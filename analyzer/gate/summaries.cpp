#include "analyzer/gate/summaries.h"

#include <algorithm>

#include "analyzer/report/markdown_text.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

/// Escapes text for an XML attribute or element. XML cannot represent most control characters.
std::string xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7F ? '?' : c;
        break;
    }
  }
  return out;
}

std::string title_of(const Check& check) {
  return check.name + (check.policy.empty() ? "" : " " + check.policy) +
         (check.device < 0 ? " host memory" : " device " + std::to_string(check.device));
}

std::uint64_t failures_in(std::span<const Check> checks) {
  return static_cast<std::uint64_t>(std::ranges::count_if(checks, [](const Check& check) { return !check.passed(); }));
}

}  // namespace

std::string junit_of(std::span<const Check> checks, std::string_view subject) {
  const std::string counts = " tests=\"" + std::to_string(checks.size()) + "\" failures=\"" +
                             std::to_string(failures_in(checks)) + "\" errors=\"0\" skipped=\"0\"";
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"memreel check\"" + counts +
                    ">\n  <testsuite name=\"" + xml(subject) + "\"" + counts + ">\n";
  for (const Check& check : checks) {
    out += "    <testcase classname=\"memreel\" name=\"" + xml(title_of(check)) + "\"";
    if (check.passed()) {
      out += "/>\n";
    } else {
      out += ">\n      <failure type=\"" + xml(check.name) + "\" message=\"" + xml(check.reason) + "\">" +
             xml(check.reason) + "</failure>\n    </testcase>\n";
    }
  }
  return out + "  </testsuite>\n</testsuites>\n";
}

std::string markdown_of(std::span<const Check> checks, std::string_view subject) {
  const std::uint64_t failures = failures_in(checks);
  std::string out = "### memreel: ";
  out += failures == 0 ? "GPU memory is within its limits" : "GPU memory exceeds its limits";
  out += "\n\n" + markdown_escaped(subject) + ": " + text_of(std::uint64_t{checks.size()}) + " checks, " +
         text_of(failures) + " failed\n\n| | check | policy | device | value | limit |\n|---|---|---|---|---:|---:|\n";
  for (const Check& check : checks) {
    out += std::string("| ") + (check.passed() ? "✅" : "❌") + " | " + markdown_escaped(check.name) + " | " +
           markdown_escaped(check.policy) + " | " + (check.device < 0 ? "host" : std::to_string(check.device)) + " | " +
           text_of(check.value) + " | " + text_of(check.limit) + " |\n";
  }
  if (failures != 0) out += "\n";
  for (const Check& check : checks)
    if (!check.passed()) out += "- " + markdown_escaped(check.reason) + "\n";
  return out;
}

}  // namespace memreel
