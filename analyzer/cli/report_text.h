// How private pools are shown in every output format.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "analyzer/insight/private_pools.h"
#include "formats/model/tables.h"

namespace memreel::cli {

inline constexpr std::array<std::string_view, 7> pool_titles{"pool",     "captures", "reserved", "peak",
                                                             "reusable", "first",    "each more"};
/// The cells under the titles: what the pool holds at the end, its peak, what only it can reuse, and what its first
/// capture and each of the others (their median) added.
std::array<std::string, 7> pool_cells(const Tables& tables, const PrivatePool& pool);

/// What sharing the pool saves; empty if it has one use or saves nothing.
std::string sharing_words(const Tables& tables, const PrivatePool& pool);

}  // namespace memreel::cli
