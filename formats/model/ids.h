// SPDX-License-Identifier: Apache-2.0
// Dense identifiers. Each refers to a row of one table of the trace (formats/model/tables.h); kinds can't be mixed.
#pragma once

#include <cstdint>

namespace memreel {

// Row 0 of every table means "none" or "the default one" and always exists.
enum class StringId : std::uint32_t { none = 0 };
enum class ModuleId : std::uint32_t { none = 0 };
enum class FrameId : std::uint32_t { none = 0 };
enum class StackId : std::uint32_t { none = 0 };
enum class HeapId : std::uint32_t { none = 0 };
enum class PoolId : std::uint32_t { default_pool = 0 };
enum class StreamId : std::uint32_t { default_stream = 0 };
enum class ThreadId : std::uint32_t { unknown = 0 };
enum class OriginId : std::uint32_t { none = 0 };
enum class MarkId : std::uint32_t { none = 0 };
enum class SettingsId : std::uint32_t { none = 0 };

/// The ordinal of an `alloc` event in its trace, counted from 0. Dense: usable as an index.
enum class AllocationId : std::uint32_t { none = 0xFFFF'FFFF };

/// The row of an id.
template <class Id>
constexpr std::uint32_t index(Id id) {
  return static_cast<std::uint32_t>(id);
}

}  // namespace memreel
