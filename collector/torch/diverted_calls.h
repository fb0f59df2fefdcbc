// SPDX-License-Identifier: Apache-2.0
// PyTorch's reports in a program that memreel attached to. A preloaded library precedes libc10 in symbol lookup; one
// loaded later must change resolved symbols: the GOT slots in libc10_cuda through which it calls the two functions of
// reporters.h. They are restored when the recording ends.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace memreel::torch {

// Whether all of PyTorch's reports were recorded.

/// Compares a running sum of the recorded sizes with the allocator's own count of its allocated bytes.
class Checksum {
 public:
  /// For one device, in order: `change` is the event's size, negative for a free; `total` is the allocator's allocated
  /// bytes after it. False if events are missing before this one. The first event sets the initial value.
  bool agrees(std::int64_t change, std::uint64_t total) {
    const bool same = !begun_ || total_ + static_cast<std::uint64_t>(change) == total;
    if (!begun_) before_ = total - static_cast<std::uint64_t>(change);
    begun_ = true;
    total_ = total;
    return same;
  }

  /// Bytes allocated before the first event.
  std::uint64_t before() const { return before_; }

 private:
  bool begun_ = false;
  std::uint64_t total_ = 0, before_ = 0;
};

// Non-exported functions of a loaded library, from its file's .symtab if that was not stripped.

struct LocalSymbol {
  std::string name;  // mangled
  std::uintptr_t address = 0;
  std::size_t size = 0;  // bytes
};

/// The symbols of `library` whose names begin with one of `beginnings`. Empty if its file can't be read, is not a
/// 64-bit ELF file, or was stripped. Reads the file, not the loaded library.
std::vector<LocalSymbol> local_symbols(const link_map& library, const std::vector<std::string_view>& beginnings);

/// Makes libc10_cuda call our functions, if it is loaded and does not already. May be called repeatedly, by one thread
/// at a time; takes the dynamic loader's lock. Does nothing if the slots can't be found.
void divert_calls();

/// Restores the original slots.
void restore_calls();

}  // namespace memreel::torch
