// SPDX-License-Identifier: Apache-2.0
// Runs the code of others in a process of its own: whatever it does there is one line here.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "formats/model/result.h"

namespace memreel {

/// How far the process is: written there, read here.
struct OwnProgress {
  std::atomic<std::uint64_t> requests = 0;  // made so far, for messages
  std::atomic<std::uint64_t> calls = 0;     // that were answered
};

/// Calls `work` in a forked process and returns its result. What that process prints goes to standard error. Errors: it
/// was ended by a signal, ended itself, or answered no call for `patience`. Throws std::bad_alloc if it ran out of
/// memory. Any thread; `work` must take no lock that another thread may hold.
Result<std::string> in_own_process(const std::function<std::string(OwnProgress&)>& work,
                                   std::chrono::milliseconds patience);

}  // namespace memreel
