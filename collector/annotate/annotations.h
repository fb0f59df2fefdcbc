// The recorder's end of collector/include/memreel/memreel.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace memreel::annotate {

/// Asks everybody who registered for it (memreel_on_attach) to say again what there is. By the writing thread, after a
/// recording has begun in a process that was running.
void ask_for_state();

/// Shows this library to annotations in modules that looked for a recorder before it came. It takes the dynamic
/// loader's lock: never from a callback.
void introduce();

/// Who keeps the names that a program gives to its modules: a live object, and its name; empty: none.
using ModuleNamer = void (*)(const void* module, std::string_view name);

/// To be called before the program may give names; again does no harm.
void name_modules_with(ModuleNamer give);

/// A number for a pool of the program's own, which no other has.
std::uint64_t next_pool();

}  // namespace memreel::annotate
