// The recorder's end of collector/include/memreel/memreel.h.
#pragma once

#include <cstdint>

namespace memreel::annotate {

/// Asks everybody who registered for it (memreel_on_attach) to say again what there is. By the writing thread, after a
/// recording has begun in a process that was running.
void ask_for_state();

/// Shows this library to annotations in modules that looked for a recorder before it came. It takes the dynamic
/// loader's lock: never from a callback.
void introduce();

/// A number for a pool of the program's own, which no other has.
std::uint64_t next_pool();

}  // namespace memreel::annotate
