// How much memory a file may claim: a small file must not take down the machine that reads it.
#pragma once

#include <string>

#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

/// The default limit for a file of this size: `factor` times its size, but at least `least` and at most a quarter of
/// the machine's memory.
Bytes default_memory_limit(Bytes file_size, std::uint64_t factor, Bytes least);

/// The error for a file that exceeds it. `what`: "decompresses to more than".
Error over_memory_limit(const std::string& where, const std::string& what, Bytes limit);

}  // namespace memreel
