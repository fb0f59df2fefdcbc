// SPDX-License-Identifier: Apache-2.0
#include "collector/python/code_table.h"

#include <sys/mman.h>

#include <cstring>

namespace memreel::python {

KnownCodes::KnownCodes(std::uint32_t slots) {
  void* const memory =
      mmap(nullptr, slots * sizeof(Slot), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  slots_ = static_cast<Slot*>(memory);  // zeroed memory holds atomics with value 0
  count_ = slots;
}

KnownCodes::~KnownCodes() {
  if (slots_ != nullptr) munmap(slots_, count_ * sizeof(Slot));
}

void KnownCodes::set(const void* code, Known known) {
  if (count_ == 0) return;
  const auto address = std::bit_cast<std::uintptr_t>(code);
  std::uint32_t slot = home(address);
  for (std::uint32_t i = 0; i < neighbourhood; ++i, slot = (slot + 1) & (count_ - 1)) {
    std::uintptr_t other = slots_[slot].address.load(std::memory_order_relaxed);
    if (other == 0 && slots_[slot].address.compare_exchange_strong(other, address, std::memory_order_relaxed))
      other = address;
    if (other == address)
      return slots_[slot].known.store(std::bit_cast<std::uint64_t>(known), std::memory_order_release);
  }
}

namespace {

/// The header before the texts of a code object. No padding: it is compared as bytes.
struct Head {
  std::int32_t first_line;
  std::uint32_t file_bytes, name_bytes;
  std::uint16_t file_width, name_width;
};
static_assert(sizeof(Head) == 16);

Head head_of(const CodeView& code) {
  return {code.first_line, static_cast<std::uint32_t>(code.file.bytes.size()),
          static_cast<std::uint32_t>(code.name.bytes.size()), code.file.width, code.name.width};
}

}  // namespace

std::uint32_t CodeTable::number_of(const CodeView& code) {
  const Head head = head_of(code);
  return codes_.number_of({std::as_bytes(std::span(&head, 1)), code.file.bytes, code.name.bytes, code.lines});
}

bool CodeTable::equal(std::uint32_t number, const CodeView& code) const {
  const Head head = head_of(code);
  return codes_.equal(number, {std::as_bytes(std::span(&head, 1)), code.file.bytes, code.name.bytes, code.lines});
}

CodeView CodeTable::operator[](std::uint32_t number) const {
  const std::span bytes = codes_[number];
  Head head{};
  std::memcpy(&head, bytes.data(), sizeof head);
  const auto texts = bytes.subspan(sizeof head);
  const auto after_file = texts.subspan(head.file_bytes);
  return {{texts.first(head.file_bytes), static_cast<std::uint8_t>(head.file_width)},
          {after_file.first(head.name_bytes), static_cast<std::uint8_t>(head.name_width)},
          after_file.subspan(head.name_bytes),
          head.first_line};
}

namespace {

using Free = void (*)(void* code);

// PyTypeObject of 64-bit builds, since 3.0: PyObject_VAR_HEAD, tp_name, tp_basicsize, tp_itemsize, tp_dealloc.
constexpr std::size_t name_offset = 24, free_offset = 48;

// Globals, since Python passes no context. What is known about deaths depends only on the slot's content: others change
// it too, and some restore what they found without checking what is there now.
std::atomic<std::uint32_t> deaths = 0;
std::atomic<std::atomic<Free>*> slot = nullptr;  // of the type; never changes once set
std::atomic<Free> pythons = nullptr;             // the slot's initial content

void count_and_free(void* code) {
  deaths.fetch_add(1, std::memory_order_release);  // before another object can reuse its memory
  pythons.load(std::memory_order_relaxed)(code);
  deaths.fetch_add(1, std::memory_order_release);  // 3.11.0 still shows the frame of code that dies (gh-99729)
}

bool is_type_of_code(const void* type) {
  const auto* const name = Direct().read<const char*>(type, name_offset);
  return name != nullptr && std::strcmp(name, "code") == 0;
}

}  // namespace

void watch_code(const void* code_type) {
  if (!is_type_of_code(code_type)) return;
  std::atomic<Free>* place = slot.load(std::memory_order_relaxed);
  if (place == nullptr) {
    auto* const type = static_cast<std::byte*>(const_cast<void*>(code_type));  // NOLINT(*-const-cast)
    place = reinterpret_cast<std::atomic<Free>*>(type + free_offset);          // Python reads it in one go
    Free none = nullptr;  // otherwise another thread was first, and the slot may already hold ours
    pythons.compare_exchange_strong(none, place->load(std::memory_order_acquire), std::memory_order_acq_rel);
    slot.store(place, std::memory_order_release);
  }
  // Only over Python's own function: any other one may lead to ours.
  Free before = pythons.load(std::memory_order_relaxed);
  if (place->load(std::memory_order_relaxed) != before) return;
  deaths.fetch_add(1, std::memory_order_release);  // for those that were not counted
  place->compare_exchange_strong(before, count_and_free, std::memory_order_acq_rel);
}

void unwatch_code() {
  Free ours = count_and_free;
  if (std::atomic<Free>* const place = slot.load(std::memory_order_acquire); place != nullptr)
    place->compare_exchange_strong(ours, pythons.load(std::memory_order_relaxed), std::memory_order_acq_rel);
}

std::uint32_t code_epoch() {
  const std::atomic<Free>* const place = slot.load(std::memory_order_acquire);
  const bool is_watched = place != nullptr && place->load(std::memory_order_acquire) == count_and_free;
  return is_watched ? deaths.load(std::memory_order_acquire) : 0;
}

}  // namespace memreel::python
