#include "collector/python/code_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace memreel::python {

struct CodeTable::Row {
  std::uint64_t hash;
  std::int32_t first_line;
  std::uint32_t file_bytes, name_bytes, lines_bytes;
  std::uint8_t file_width, name_width;

  const std::byte* texts() const { return static_cast<const std::byte*>(static_cast<const void*>(this + 1)); }
  CodeView view() const {
    const std::byte* const file = texts();
    const std::byte* const name = file + file_bytes;
    return {{{file, file_bytes}, file_width},
            {{name, name_bytes}, name_width},
            {name + name_bytes, lines_bytes},
            first_line};
  }
};

namespace {

std::uint64_t hash_of(std::span<const std::byte> bytes, std::uint64_t hash) {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;
  while (!bytes.empty()) {
    std::uint64_t word = bytes.size();
    const std::size_t n = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), n);
    hash = (std::rotl(hash, 27) ^ word) * odd;
    hash ^= hash >> 32U;
    bytes = bytes.subspan(n);
  }
  return hash;
}

std::uint64_t hash_of(const CodeView& code) {
  std::uint64_t hash = static_cast<std::uint32_t>(code.first_line);
  for (const auto part : {code.file.bytes, code.name.bytes, code.lines}) hash = hash_of(part, hash + part.size());
  return hash;
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

bool equal(const CodeView& a, const CodeView& b) {
  return a.first_line == b.first_line && a.file.width == b.file.width && a.name.width == b.name.width &&
         equal(a.file.bytes, b.file.bytes) && equal(a.name.bytes, b.name.bytes) && equal(a.lines, b.lines);
}

}  // namespace

CodeTable::CodeTable(std::uint32_t rows, std::size_t text_bytes) {
  const std::size_t slots = std::bit_ceil(2 * std::size_t{rows});
  const std::size_t row_bytes = (std::size_t{rows} + 1) * sizeof(rows_[0]);
  const std::size_t slot_bytes = slots * sizeof(slots_[0]);
  const std::size_t size = row_bytes + slot_bytes + text_bytes;
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  memory_ = static_cast<std::byte*>(memory);
  memory_size_ = size;
  // Zero bytes are atomics of value zero.
  rows_ = static_cast<std::atomic<const Row*>*>(memory);
  slots_ = static_cast<std::atomic<std::uint32_t>*>(static_cast<void*>(memory_ + row_bytes));
  texts_ = memory_ + row_bytes + slot_bytes;
  capacity_ = rows;
  slot_mask_ = static_cast<std::uint32_t>(slots - 1);
  text_capacity_ = text_bytes;
}

CodeTable::~CodeTable() {
  if (memory_ != nullptr) munmap(memory_, memory_size_);
}

std::uint32_t CodeTable::number_of(const CodeView& code) {
  if (capacity_ > 0) {
    const std::uint64_t hash = hash_of(code);
    std::uint32_t mine =
        0;  // the row that this call added; without use when another thread was faster with an equal one
    for (std::uint32_t slot = static_cast<std::uint32_t>(hash) & slot_mask_;; slot = (slot + 1) & slot_mask_) {
      std::uint32_t number = slots_[slot].load(std::memory_order_acquire);
      if (number == 0) {
        if (mine == 0) mine = add(code, hash);
        if (mine == 0) break;
        if (slots_[slot].compare_exchange_strong(number, mine, std::memory_order_acq_rel)) return mine;
      }
      const Row* const row = rows_[number].load(std::memory_order_acquire);
      if (row->hash == hash && python::equal(row->view(), code)) return number;
    }
  }
  refused_.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

/// The number of a new row; 0 when there is no room for it.
std::uint32_t CodeTable::add(const CodeView& code, std::uint64_t hash) {
  const std::size_t texts = code.file.bytes.size() + code.name.bytes.size() + code.lines.size();
  const std::size_t size = (sizeof(Row) + texts + alignof(Row) - 1) / alignof(Row) * alignof(Row);
  if (rows_used_.load(std::memory_order_relaxed) >= capacity_) return 0;
  const std::size_t begin = text_used_.fetch_add(size, std::memory_order_relaxed);
  if (begin + size > text_capacity_) {
    text_used_.fetch_sub(size, std::memory_order_relaxed);
    return 0;
  }
  const std::uint32_t number = rows_used_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number > capacity_) {
    rows_used_.fetch_sub(1, std::memory_order_relaxed);
    return 0;
  }
  const auto bytes = [](std::span<const std::byte> span) { return static_cast<std::uint32_t>(span.size()); };
  const Row* const row = new (texts_ + begin) Row{hash,
                                                  code.first_line,
                                                  bytes(code.file.bytes),
                                                  bytes(code.name.bytes),
                                                  bytes(code.lines),
                                                  code.file.width,
                                                  code.name.width};
  std::byte* to = texts_ + begin + sizeof(Row);
  for (const auto part : {code.file.bytes, code.name.bytes, code.lines}) to = std::copy(part.begin(), part.end(), to);
  rows_[number].store(row, std::memory_order_release);
  return number;
}

CodeView CodeTable::operator[](std::uint32_t number) const {
  return rows_[number].load(std::memory_order_acquire)->view();
}

bool CodeTable::equal(std::uint32_t number, const CodeView& code) const { return python::equal((*this)[number], code); }

}  // namespace memreel::python
