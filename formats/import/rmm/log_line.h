// One line of a log that RMM's logging_resource_adaptor wrote.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "formats/import/source/log_lines.h"
#include "formats/model/units.h"

namespace memreel::rmm {

enum class Action : std::uint8_t { allocate, free, allocate_failure };

struct LogRecord {
  std::uint64_t thread = 0;  // 0: the log does not say
  Nanoseconds time_of_day{};
  Action action = Action::allocate;
  Address pointer;
  Bytes size;
  std::uint64_t stream = 0;
};

/// `THREAD,HH:MM:SS.ffffff,ACTION,POINTER,SIZE,STREAM`; in the first half of 2020 without the thread and with a
/// colon before the microseconds. Pointers and streams are hexadecimal, `(nil)` is 0; streams without 0x are decimal if
/// they can be, as they were once. Numbers have at most 19 decimal or 16 hexadecimal digits.
LineComplaint parse(std::string_view line, LogRecord& record);

/// Whether a line is one of the headers.
bool is_header(std::string_view line);

}  // namespace memreel::rmm
