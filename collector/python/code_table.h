// Every code object that was seen on a stack, each once, copied while it was alive.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collector/interned/interned_bytes.h"
#include "collector/python/code_view.h"

namespace memreel::python {

/// Any thread may ask and add at any time, without locks, system calls or allocation. Code objects that show the user
/// the same (CodeView) have one number, so a program that compiles the same text again and again fills no table.
class CodeTable {
 public:
  explicit CodeTable(std::uint32_t codes = 1U << 18U, std::size_t bytes = std::size_t{256} << 20U)
      : codes_(codes, bytes) {}

  /// 1 and up; 0 when there is no room for it, which is counted.
  std::uint32_t number_of(const CodeView& code);

  /// What a number stands for. The view is valid as long as the table.
  CodeView operator[](std::uint32_t number) const;

  bool equal(std::uint32_t number, const CodeView& code) const;

  /// How many code objects found no room.
  std::uint64_t refused() const { return codes_.refused(); }

 private:
  InternedBytes codes_;
};

}  // namespace memreel::python
