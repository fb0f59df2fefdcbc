// Locates packets by the footer of a complete trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "formats/model/result.h"
#include "formats/reader/packet_decoder.h"
#include "formats/reader/trace_reader.h"

namespace memreel {

/// A complete trace inside a file, as its footer describes it.
struct FooterSpan {
  FooterMessage footer;  // its packets are contiguous from `begin` to `footer_offset`
  std::uint64_t begin = 0;
  std::uint64_t footer_offset = 0;
};

/// The trace that ends at `end`. None if it is incomplete, or its footer is damaged or inconsistent.
Result<std::optional<FooterSpan>> read_footer(ByteFile& file, std::uint64_t end);

}  // namespace memreel
