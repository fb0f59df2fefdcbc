#include "collector/python/code_table.h"

#include <cstring>

namespace memreel::python {
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

}  // namespace memreel::python
