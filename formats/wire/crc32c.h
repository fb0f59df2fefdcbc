// CRC-32C (Castagnoli, RFC 3720 appendix B.4): the checksum of every packet.
#pragma once

#include <cstdint>
#include <string_view>

namespace memreel::wire {

/// With the processor's CRC instruction where there is one (about 10 bytes a nanosecond), else by tables.
std::uint32_t crc32c(std::string_view bytes);

/// By tables, on any machine.
std::uint32_t crc32c_portable(std::string_view bytes);

}  // namespace memreel::wire
