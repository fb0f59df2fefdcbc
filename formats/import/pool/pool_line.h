// One line of a pool log (pool_log.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace memreel::pool_log {

struct FrameText {
  std::string function, file;
  std::uint64_t line = 0;
};

/// The contents of an object. Unknown keys are in `others` if their value is a string, a number or a boolean.
struct Line {
  std::string op, name, metadata;
  std::optional<std::uint64_t> id, size, ptr, stream, thread, device, time;
  std::vector<FrameText> stack;
  std::vector<std::pair<std::string, std::string>> others;
};

/// Reads one line; reuses the strings of `into`. False: it is not a JSON object with these keys. Skips anything nested
/// deeper than a stack.
bool parse(std::string_view text, Line& into);

}  // namespace memreel::pool_log
