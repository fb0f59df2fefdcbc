// SPDX-License-Identifier: Apache-2.0
#include "formats/export/pickle_writer.h"

#include <bit>
#include <limits>
#include <ostream>

#include "formats/export/row.h"

namespace memreel {
namespace {

namespace op {
// Python's Lib/pickletools.py documents each one.
constexpr unsigned char proto = 0x80, stop = '.', mark = '(', empty_dict = '}', setitems = 'u', empty_list = ']',
                        appends = 'e', binint1 = 'K', binint2 = 'M', binint = 'J', long1 = 0x8A, binfloat = 'G',
                        newtrue = 0x88, newfalse = 0x89, short_binunicode = 0x8C, binunicode = 'X', tuple2 = 0x86,
                        memoize = 0x94, binget = 'h', long_binget = 'j';
}  // namespace op
constexpr std::size_t items_at_once = 1000;

}  // namespace

PickleWriter::PickleWriter(std::ostream& out) : out_(out) {
  opcode(op::proto);
  opcode(4);
}

void PickleWriter::opcode(unsigned char code) { out_.put(static_cast<char>(code)); }

void PickleWriter::little_endian(std::uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) out_.put(static_cast<char>(value >> (8 * i) & 0xFFU));
}

void PickleWriter::integer(std::uint64_t value) {
  if (value <= std::numeric_limits<std::int64_t>::max()) return integer(static_cast<std::int64_t>(value));
  opcode(op::long1);
  opcode(9);
  little_endian(value, 8);
  out_.put('\0');  // not negative
}

void PickleWriter::integer(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  if (value >= 0 && value < 0x100) {
    opcode(op::binint1);
    return little_endian(bits, 1);
  }
  if (value >= 0 && value < 0x10000) {
    opcode(op::binint2);
    return little_endian(bits, 2);
  }
  if (value >= std::numeric_limits<std::int32_t>::min() && value <= std::numeric_limits<std::int32_t>::max()) {
    opcode(op::binint);
    return little_endian(bits, 4);
  }
  opcode(op::long1);
  opcode(8);
  little_endian(bits, 8);
}

void PickleWriter::number(double value) {
  opcode(op::binfloat);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (unsigned i = 8; i-- > 0;) out_.put(static_cast<char>(bits >> (8 * i) & 0xFFU));  // most significant byte first
}

void PickleWriter::boolean(bool value) { opcode(value ? op::newtrue : op::newfalse); }

void PickleWriter::text(std::string_view text) {
  const auto known = texts_.find(std::string(text));
  if (known != texts_.end()) return recall(known->second);
  const std::string valid = utf8(text);
  if (valid.size() < 0x100) {
    opcode(op::short_binunicode);
    little_endian(valid.size(), 1);
  } else {
    opcode(op::binunicode);
    little_endian(valid.size(), 4);
  }
  out_ << valid;
  texts_.emplace(text, remember());
}

void PickleWriter::begin_dict() {
  opcode(op::empty_dict);
  opcode(op::mark);
}

void PickleWriter::end_dict() { opcode(op::setitems); }

void PickleWriter::begin_list() { opcode(op::empty_list); }

void PickleWriter::item(std::size_t i) {
  if (i % items_at_once != 0) return;
  if (i > 0) opcode(op::appends);
  opcode(op::mark);
}

void PickleWriter::end_list(std::size_t items) {
  if (items > 0) opcode(op::appends);
}

void PickleWriter::pair(std::uint64_t first, std::uint64_t second) {
  integer(first);
  integer(second);
  opcode(op::tuple2);
}

PickleWriter::Memo PickleWriter::remember() {
  opcode(op::memoize);
  return next_++;
}

void PickleWriter::recall(Memo memo) {
  opcode(memo < 0x100 ? op::binget : op::long_binget);
  little_endian(memo, memo < 0x100 ? 1 : 4);
}

void PickleWriter::finish() { opcode(op::stop); }

}  // namespace memreel
