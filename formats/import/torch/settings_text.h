// Values of allocator settings as text.
#pragma once

#include <optional>
#include <string>

#include "formats/import/source/value_arena.h"

namespace memreel::torch {

/// As Python prints it (True, 0.6, -1, None), but texts without quotes, and dicts and lists as "[key:value,...]" and
/// "[value,...]". None if it is nested more than three levels deep or longer than 4 KiB, as no setting is.
std::optional<std::string> settings_text(const ValueArena& arena, Value value);

}  // namespace memreel::torch
