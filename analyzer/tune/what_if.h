// SPDX-License-Identifier: Apache-2.0
// The same program with other calls of empty_cache, or none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/engine/policy_spec.h"
#include "analyzer/engine/prepared.h"
#include "formats/model/result.h"

namespace memreel {

/// A question about what the program might have done differently.
struct WhatIf {
  enum class Kind : std::uint8_t {
    empty_cache_at_steps,   // after every `every`-th step
    empty_cache_at_events,  // after every `every` operations
    empty_cache_at_oom,     // before a request fails, which is then retried
    no_empty_cache,         // without the program's own calls
    policy,                 // with another allocator
  };
  Kind kind = Kind::empty_cache_at_steps;
  std::uint64_t every = 1;
  PolicySpec policy;
  std::string text;  // as given
};

/// "empty_cache@step", "empty_cache@every:10" (steps), "empty_cache@every:5000events", "empty_cache@oom",
/// "no-empty_cache", or a policy. Errors: anything else.
Result<WhatIf> parse_what_if(std::string_view text);

/// `heap` with a call of empty_cache before each of `rows`, ascending; a row may be heap.count(), the end.
Prepared with_empty_cache(const Prepared& heap, std::span<const std::uint32_t> rows);

/// `heap` without the program's calls of empty_cache.
Prepared without_empty_cache(const Prepared& heap);

/// Rows before which a question of kind empty_cache_at_steps or _at_events inserts a call. Empty if the heap has fewer
/// steps or operations.
std::vector<std::uint32_t> rows_of_calls(const Prepared& heap, const WhatIf& question);

/// The number of the program's calls of empty_cache.
std::size_t empty_cache_calls(const Prepared& heap);

}  // namespace memreel
