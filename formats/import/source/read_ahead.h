// Reading and decompressing beside whoever wants the bytes.
#pragma once

#include <memory>

#include "formats/import/source/byte_stream.h"

namespace memreel {

/// The bytes of `stream`, read on a thread of its own up to a mebibyte ahead. Errors come in their place in the
/// sequence. `stored_position` is that of what was read from here, not of what was read ahead.
std::unique_ptr<ByteStream> read_ahead(std::unique_ptr<ByteStream> stream);

}  // namespace memreel
