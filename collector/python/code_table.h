// Every code object that was seen on a stack, each once, copied while it was alive.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collector/python/code_view.h"

namespace memreel::python {

/// Any thread may ask and add at any time, without locks, system calls or allocation. Code objects that show the user
/// the same (CodeView) are one row, so a program that compiles the same text again and again fills no table.
class CodeTable {
 public:
  /// Takes address space for that many rows and bytes of texts, of which pages are used as the table fills. When the
  /// system refuses, the table is full from the beginning.
  explicit CodeTable(std::uint32_t rows = 1U << 18U, std::size_t text_bytes = std::size_t{256} << 20U);
  ~CodeTable();
  CodeTable(const CodeTable&) = delete;
  CodeTable& operator=(const CodeTable&) = delete;

  /// The number of the row that is equal to `code`: 1 and up; 0 when there is no room for it, which is counted.
  std::uint32_t number_of(const CodeView& code);

  /// The row of a number that number_of() returned. The view is valid as long as the table.
  CodeView operator[](std::uint32_t number) const;

  bool equal(std::uint32_t number, const CodeView& code) const;

  /// How many code objects found no room.
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  struct Row;
  std::uint32_t add(const CodeView& code, std::uint64_t hash);

  std::byte* memory_ = nullptr;
  std::size_t memory_size_ = 0;
  std::atomic<const Row*>* rows_ = nullptr;      // by number; the first is not used
  std::atomic<std::uint32_t>* slots_ = nullptr;  // hash table of numbers, open addressing; 0: empty
  std::byte* texts_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t slot_mask_ = 0;
  std::size_t text_capacity_ = 0;
  alignas(64) std::atomic<std::uint32_t> rows_used_ = 0;
  std::atomic<std::size_t> text_used_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;
};

}  // namespace memreel::python
