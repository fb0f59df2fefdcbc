// Reads and decompresses on a separate thread.
#pragma once

#include <memory>

#include "formats/import/source/byte_stream.h"

namespace memreel {

/// The bytes of `stream`, read on its own thread up to a mebibyte ahead. Errors appear at their position in the
/// sequence. `stored_position` counts what was consumed here, not what was read ahead.
std::unique_ptr<ByteStream> read_ahead(std::unique_ptr<ByteStream> stream);

}  // namespace memreel
