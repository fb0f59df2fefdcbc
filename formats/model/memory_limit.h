// How much memory a file may ask for: a small file must not take down the machine that reads it.
#pragma once

#include <string>

#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

/// What a file of that size may ask for when nobody allows another amount: `factor` times its size, but `least` at
/// least and a quarter of the machine's memory at most.
Bytes default_memory_limit(Bytes file_size, std::uint64_t factor, Bytes least);

/// The error for a file that asks for more. `what`: "decompresses to more than".
Error over_memory_limit(const std::string& where, const std::string& what, Bytes limit);

}  // namespace memreel
