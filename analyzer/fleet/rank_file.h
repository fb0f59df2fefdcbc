// Rank summaries as files: formats/proto/memreel/rank.proto.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/fleet/rank_summary.h"
#include "formats/model/result.h"

namespace memreel {

inline constexpr std::string_view rank_file_extension = ".rank";

/// Equal summaries give equal bytes.
std::string encode_rank(const RankSummary& summary);

/// Errors: it is not a rank summary, or one of a newer version. `where`: the name used in errors.
Result<RankSummary> decode_rank(std::string_view bytes, const std::string& where);

}  // namespace memreel
