// Damage that a checksum does not catch: recordings changed where their numbers and names are, and put together again.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>

namespace memreel::fuzz {

/// `recording` with something in it changed: numbers become those at which arithmetic breaks, lists lose and repeat
/// items. Traces (.reel) stay well-formed down to their checksums, JSON stays JSON, and a pickle a pickle. What is none
/// of these is returned as it is.
std::string mutated(std::span<const std::uint8_t> recording, std::mt19937& random);

}  // namespace memreel::fuzz
