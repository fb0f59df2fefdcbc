// Every code object seen on a stack, stored once, copied while it was alive.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collector/interned/interned_bytes.h"
#include "collector/python/code_view.h"

namespace memreel::python {

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

}  // namespace memreel::python
