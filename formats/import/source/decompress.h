// xz, gzip and zstd as streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "formats/import/source/byte_stream.h"

namespace memreel {

enum class Compression : std::uint8_t { none, xz, gzip, zstd };

/// Told by the magic numbers of the three formats.
Compression compression_of(std::span<const std::byte> beginning);

/// The decompressed content of `stored`, which is known to errors as `name`. Memory: one buffer and what the format's
/// decoder needs, at most 256 MiB. `compression` is not none.
/// Reading fails once there are more than `most` bytes.
std::unique_ptr<ByteStream> decompress(Compression compression, std::unique_ptr<ByteStream> stored, std::string name,
                                       Bytes most);

}  // namespace memreel
