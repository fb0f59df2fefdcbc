// A line of a pool's log (pool_log.h).
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

/// What an object says. Keys that are not known are in `others` if they hold a text, a number or a truth value.
struct Line {
  std::string op, name, metadata;
  std::optional<std::uint64_t> id, size, ptr, stream, thread, device, time;
  std::vector<FrameText> stack;
  std::vector<std::pair<std::string, std::string>> others;
};

/// Reads one line; the texts of `into` are reused. False: it is no JSON object with these keys. What is nested deeper
/// than a stack is passed over.
bool parse(std::string_view text, Line& into);

}  // namespace memreel::pool_log
