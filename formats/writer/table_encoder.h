// Encodes table rows as Tables packets.
#pragma once

#include <string>

#include "formats/model/tables.h"
#include "formats/wire/row_counts.h"
#include "formats/wire/zstd.h"

namespace memreel {

/// Longer texts are cut: a row must fit in a packet.
inline constexpr std::size_t max_text_size = std::size_t{1} << 20U;

/// A packet with the rows after the first `sent` ones, as many as a packet should hold; adds them to `sent`. Call it
/// until `sent` equals row_counts(tables).
std::string encode_tables(const Tables& tables, wire::RowCounts& sent, wire::Compressor& compressor);

}  // namespace memreel
