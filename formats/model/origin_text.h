// Names of streams and pools.
#pragma once

#include <cstdint>
#include <string>

#include "formats/model/tables.h"

namespace memreel {

/// "default", or the stream's handle in hexadecimal.
std::string stream_label(const Tables& tables, StreamId id);

/// "default", its name, or its key as PyTorch writes it: "(0, 1)".
std::string pool_label(const Tables& tables, PoolId id);

/// "0x7f2a00000200".
std::string hexadecimal(std::uint64_t value);

}  // namespace memreel
