// SPDX-License-Identifier: Apache-2.0
// The recorder's end of collector/include/memreel/memreel.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace memreel::annotate {

/// Calls every callback registered with memreel_on_attach(), so that each reports its current state again, after a
/// recording has begun in a running process; except those that registered since `began` with a recorder at hand: their
/// programs report by themselves. Holds no lock, and never runs on the writing thread: a callback takes the program's
/// locks, whose holders may wait for that thread.
void ask_for_state(std::chrono::steady_clock::time_point began);

/// Makes the recorder visible to annotations in modules that looked for it before it was loaded, and takes the
/// callbacks that wait there. Takes the dynamic loader's lock: never call it from a callback.
void introduce();

/// Receives the names that a program gives to its modules: a live object, and its name; empty: no name.
using ModuleNamer = void (*)(const void* module, std::string_view name);

/// Call before the program can name modules. Calling it again is harmless.
void name_modules_with(ModuleNamer give);

/// A unique number for a custom pool.
std::uint64_t next_pool();

}  // namespace memreel::annotate
