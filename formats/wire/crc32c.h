// CRC-32C (Castagnoli, RFC 3720 appendix B.4): the checksum of every packet.
#pragma once

#include <cstdint>
#include <string_view>

namespace memreel::wire {

/// Uses the processor's CRC instruction if available (about 10 bytes per nanosecond), else tables.
std::uint32_t crc32c(std::string_view bytes);

/// Uses tables, on any machine.
std::uint32_t crc32c_portable(std::string_view bytes);

}  // namespace memreel::wire
