// SPDX-License-Identifier: Apache-2.0
// Strong types for the quantities in a trace and the rows of its tables.
//
// Bytes and Address are both 64-bit numbers and are mixed in every allocator; giving them different types turns
// "added an address to an address" into a compile error. They cost nothing at run time.
#pragma once

#include <algorithm>
#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>

namespace memreel {

/// An amount of memory.
struct Bytes {
  std::uint64_t count = 0;

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  constexpr Bytes& operator+=(Bytes other) {
    count += other.count;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    count -= other.count;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
  friend constexpr Bytes operator*(Bytes a, std::uint64_t n) { return {a.count * n}; }
  friend constexpr std::uint64_t operator/(Bytes a, Bytes b) { return a.count / b.count; }
};

/// A place in a device's (or a process's) address space.
struct Address {
  std::uint64_t value = 0;

  friend constexpr auto operator<=>(Address, Address) = default;
  friend constexpr Address operator+(Address a, Bytes b) { return {a.value + b.count}; }
  friend constexpr Address operator-(Address a, Bytes b) { return {a.value - b.count}; }
  friend constexpr Bytes operator-(Address a, Address b) { return {a.value - b.value}; }
};

/// Time of an event: nanoseconds since the Unix epoch, or since an arbitrary start if the header says so.
using Nanoseconds = std::chrono::nanoseconds;

constexpr Bytes operator""_B(unsigned long long n) { return {n}; }
constexpr Bytes operator""_KiB(unsigned long long n) { return {n << 10U}; }
constexpr Bytes operator""_MiB(unsigned long long n) { return {n << 20U}; }
constexpr Bytes operator""_GiB(unsigned long long n) { return {n << 30U}; }

/// `size` rounded up to a multiple of `unit`; `unit` is a power of two. Saturates at the largest multiple.
constexpr Bytes round_up(Bytes size, Bytes unit) {
  const std::uint64_t mask = unit.count - 1;
  if (size.count > ~mask) return {~mask};
  return {(size.count + mask) & ~mask};
}

// Sums of sizes from untrusted files.

/// Saturating: neither wraps around nor falls below zero, but stays at the largest number, or at zero.
class TotalBytes {
 public:
  constexpr TotalBytes() = default;
  constexpr explicit TotalBytes(Bytes bytes) : bytes_(bytes) {}

  constexpr Bytes bytes() const { return bytes_; }
  constexpr TotalBytes& operator+=(Bytes more) {
    constexpr Bytes most{std::numeric_limits<std::uint64_t>::max()};
    bytes_ += std::min(more, most - bytes_);
    return *this;
  }
  constexpr TotalBytes& operator-=(Bytes less) {
    bytes_ -= std::min(less, bytes_);
    return *this;
  }

  friend constexpr TotalBytes operator+(TotalBytes total, Bytes more) { return total += more; }

 private:
  Bytes bytes_;
};

// Dense identifiers. Each refers to a row of one table of the trace (formats/model/tables.h); kinds can't be mixed.

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
