#include "formats/import/xplane/vocabulary.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace memreel::xplane {

Stat stat_of(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, Stat>, 13> names{{
      {"allocator_name", Stat::allocator_name},
      {"addr", Stat::address},
      {"requested_bytes", Stat::requested_bytes},
      {"allocation_bytes", Stat::allocation_bytes},
      {"bytes_allocated", Stat::bytes_allocated},
      {"bytes_available", Stat::bytes_available},
      {"fragmentation", Stat::fragmentation},
      {"tf_op", Stat::operation},
      {"region_type", Stat::region_type},
      {"data_type", Stat::data_type},
      {"shape", Stat::shape},
      {"step_num", Stat::step_number},
      {"profile_start_time", Stat::profile_start_time},
  }};
  const auto found = std::ranges::find(names, name, &std::pair<std::string_view, Stat>::first);
  return found == names.end() ? Stat::other : found->second;
}

Kind kind_of(std::string_view name) {
  if (name == "MemoryAllocation") return Kind::allocation;
  if (name == "MemoryDeallocation") return Kind::deallocation;
  if (name == "AllocatorRetry::AllocateRaw") return Kind::retry;  // a request failed and waits for memory to be freed
  return Kind::other;
}

Frame frame_of(std::string_view name, TraceWriter& writer) {
  const std::size_t blank = name.find(' ');
  const std::size_t colon = name.rfind(':', blank);
  if (name.starts_with('$') && blank != std::string_view::npos && colon < blank) {
    std::uint32_t line = 0;
    const char* const end = name.data() + blank;
    if (std::from_chars(name.data() + colon + 1, end, line).ptr == end && line > 0)
      return {.function = writer.intern(name.substr(blank + 1)),
              .file = writer.intern(name.substr(1, colon - 1)),
              .line = line};
  }
  return {.function = writer.intern(name)};
}

}  // namespace memreel::xplane
