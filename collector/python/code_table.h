// SPDX-License-Identifier: Apache-2.0
// Every code object seen on a stack, stored once, copied while it was alive.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "collector/interned/interned_bytes.h"
#include "collector/python/python_layout.h"

namespace memreel::python {

// The row of the code table for the code object at an address.

/// A grow-only map from the address of a code object to the row it was last found to have. Any thread, any time, no
/// locks. It does not notice that a code object died and another replaced it: its user must check the version.
class KnownCodes {
 public:
  struct Known {
    std::uint32_t number = 0;  // 0: unknown address
    std::uint32_t version = 0;
  };

  /// `slots` is a power of two. If the system refuses the memory, nothing is ever known.
  explicit KnownCodes(std::uint32_t slots = 1U << 16U);
  ~KnownCodes();
  KnownCodes(const KnownCodes&) = delete;
  KnownCodes& operator=(const KnownCodes&) = delete;

  Known find(const void* code) const {  // inline: called for every frame of every walk
    if (count_ == 0) return {};
    const auto address = std::bit_cast<std::uintptr_t>(code);
    std::uint32_t slot = home(address);
    for (std::uint32_t i = 0; i < neighbourhood; ++i, slot = (slot + 1) & (count_ - 1)) {
      const std::uintptr_t other = slots_[slot].address.load(std::memory_order_relaxed);
      if (other == address) return std::bit_cast<Known>(slots_[slot].known.load(std::memory_order_acquire));
      if (other == 0) break;
    }
    return {};
  }

  /// Replaces what was known about the address. Does nothing if that part of the map is full.
  void set(const void* code, Known known);

 private:
  struct Slot {
    std::atomic<std::uintptr_t> address;  // never changes once set
    std::atomic<std::uint64_t> known;
  };
  static constexpr std::uint32_t neighbourhood = 16;

  std::uint32_t home(std::uintptr_t address) const {
    return static_cast<std::uint32_t>(address * 0x9E3779B97F4A7C15 >> 40U) & (count_ - 1);  // 2^64 / golden ratio
  }

  Slot* slots_ = nullptr;
  std::uint32_t count_ = 0;
};

/// Any thread may look up and add at any time, without locks, system calls or allocation. Code objects that look the
/// same to the user (CodeView) share a number, so a program that repeatedly compiles the same text does not fill the
/// table.
class CodeTable {
 public:
  explicit CodeTable(std::uint32_t codes = 1U << 18U, std::size_t bytes = std::size_t{256} << 20U)
      : codes_(codes, bytes) {}

  /// From 1; 0 if there is no room, which is counted.
  std::uint32_t number_of(const CodeView& code);

  /// The code object with this number. The view is valid for the table's lifetime.
  CodeView operator[](std::uint32_t number) const;

  bool equal(std::uint32_t number, const CodeView& code) const;

  /// How many code objects did not fit.
  std::uint64_t refused() const { return codes_.refused(); }

 private:
  InternedBytes codes_;
};

// Whether another code object may have replaced a dead one at the same address, in interpreters whose code has no
// version: CPython 3.9 to 3.11.
//
// CPython frees an object through its type's `tp_dealloc`; for code, `PyCode_Type`'s (Objects/object.c: _Py_Dealloc).
// While code is watched, a function of ours is installed there, which counts and calls Python's. If no code object was
// freed, all are unchanged and need not be read again.

/// Watches the code objects of the interpreter with this PyCode_Type, until unwatch_code(). May be called repeatedly:
/// does nothing if they are already watched, if other data is at that place, or while another function is installed
/// there. Any thread; needs no GIL. Only for an interpreter whose layout has been verified.
void watch_code(const void* code_type);

/// Restores Python's function, unless another function was installed over ours and would miss it.
void unwatch_code();

/// As long as this value stays the same, no code object has died. 0: unknown, as Python does not call our function. Any
/// thread, any time.
std::uint32_t code_epoch();

}  // namespace memreel::python
