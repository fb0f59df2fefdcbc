// One line of a log from RMM's logging_resource_adaptor.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "formats/import/source/log_lines.h"
#include "formats/model/units.h"

namespace memreel::rmm {

enum class Action : std::uint8_t { allocate, free, allocate_failure };

struct LogRecord {
  std::uint64_t thread = 0;  // 0: not in the log
  Nanoseconds time_of_day{};
  Action action = Action::allocate;
  Address pointer;
  Bytes size;
  std::uint64_t stream = 0;
};

/// `THREAD,HH:MM:SS.ffffff,ACTION,POINTER,SIZE,STREAM`; in the first half of 2020 without the thread and with a colon
/// before the microseconds. Pointers and streams are hexadecimal, `(nil)` is 0; streams without 0x are read as decimal
/// if possible, as they once were. Numbers have at most 19 decimal or 16 hexadecimal digits.
LineComplaint parse(std::string_view line, LogRecord& record);

/// Whether a line is a header.
bool is_header(std::string_view line);

}  // namespace memreel::rmm
