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

/// Recognised by the three formats' magic numbers.
Compression compression_of(std::span<const std::byte> beginning);

/// The decompressed content of `stored`, which errors call `name`. Memory: one buffer plus the decoder's own, at most
/// 256 MiB. `compression` is not none. Reading fails beyond `most` bytes.
std::unique_ptr<ByteStream> decompress(Compression compression, std::unique_ptr<ByteStream> stored, std::string name,
                                       Bytes most);

}  // namespace memreel
