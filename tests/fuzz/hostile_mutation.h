// SPDX-License-Identifier: Apache-2.0
// Damage that checksums do not catch: recordings with changed numbers and names, reassembled.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>

namespace memreel::fuzz {

/// A mutated `recording`: numbers become those at which arithmetic breaks; lists lose and repeat items. Traces (.reel)
/// stay well-formed down to their checksums, JSON stays JSON, a pickle a pickle, a profile of XLA a protobuf message,
/// and a database of SQLite one; of anything else, a line changes.
std::string mutated(std::span<const std::uint8_t> recording, std::mt19937& random);

}  // namespace memreel::fuzz
