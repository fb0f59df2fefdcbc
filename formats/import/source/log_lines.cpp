// SPDX-License-Identifier: Apache-2.0
#include "formats/import/source/log_lines.h"

namespace memreel {

Result<void> judge(const LineTally& tally, const std::string& where, const std::string& remedy) {
  if (tally.skipped > tally.records)
    return Error{.what = std::to_string(tally.skipped) + " of " + std::to_string(tally.lines) +
                         " lines are not records; the first is line " + std::to_string(tally.bad_line) + ": " +
                         tally.complaint,
                 .where = where,
                 .offset = tally.bad_offset,
                 .remedy = remedy};
  if (tally.records == 0)
    return Error{.what = "the log has no records",
                 .where = where,
                 .remedy = "log again, and flush the log before the program ends"};
  return {};
}

}  // namespace memreel
