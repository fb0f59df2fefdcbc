#include "collector/stacks/expression.h"

namespace memreel::stacks {
namespace {

/// Operands on a small stack; underflow and overflow are remembered.
class Operands {
 public:
  void push(std::uint64_t value) {
    if (count_ == values_.size()) {
      failed_ = true;
      return;
    }
    values_.at(count_++) = value;
  }
  std::uint64_t pop() {
    if (count_ == 0) {
      failed_ = true;
      return 0;
    }
    return values_.at(--count_);
  }
  std::uint64_t pick(std::uint64_t depth) {
    if (depth >= count_) {
      failed_ = true;
      return 0;
    }
    return values_.at(count_ - 1 - depth);
  }
  bool failed() const { return failed_; }
  void fail() { failed_ = true; }

 private:
  std::array<std::uint64_t, 16> values_{};
  std::size_t count_ = 0;
  bool failed_ = false;
};

std::uint64_t shifted(std::uint8_t code, std::uint64_t value, std::uint64_t by) {
  if (by > 63) return code == 0x26 && static_cast<std::int64_t>(value) < 0 ? ~std::uint64_t{0} : 0;
  if (code == 0x24) return value << by;
  if (code == 0x25) return value >> by;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value) >> by);
}

bool compared(std::uint8_t code, std::int64_t a, std::int64_t b) {
  switch (code) {
    case 0x29:
      return a == b;
    case 0x2A:
      return a >= b;
    case 0x2B:
      return a > b;
    case 0x2C:
      return a <= b;
    case 0x2D:
      return a < b;
    default:
      return a != b;
  }
}

/// Operations on the top two operands; false for any other operation.
bool binary(std::uint8_t code, Operands& operands) {
  const bool comparison = code >= 0x29 && code <= 0x2E;
  const bool arithmetic =
      code == 0x1A || code == 0x1C || code == 0x1E || code == 0x21 || code == 0x22 || (code >= 0x24 && code <= 0x27);
  if (!comparison && !arithmetic) return false;
  const std::uint64_t b = operands.pop();
  const std::uint64_t a = operands.pop();
  if (comparison) {
    operands.push(compared(code, static_cast<std::int64_t>(a), static_cast<std::int64_t>(b)) ? 1 : 0);
    return true;
  }
  switch (code) {
    case 0x1A:
      operands.push(a & b);
      break;
    case 0x1C:
      operands.push(a - b);
      break;
    case 0x1E:
      operands.push(a * b);
      break;
    case 0x21:
      operands.push(a | b);
      break;
    case 0x22:
      operands.push(a + b);
      break;
    case 0x27:
      operands.push(a ^ b);
      break;
    default:
      operands.push(shifted(code, a, b));
      break;
  }
  return true;
}

/// Operations that only push a constant from the expression; false for any other operation.
bool constant(std::uint8_t code, ByteReader& reader, Operands& operands) {
  if (code >= 0x30 && code <= 0x4F) {  // lit0 ... lit31
    operands.push(code - 0x30U);
    return true;
  }
  switch (code) {
    case 0x08:
      operands.push(reader.fixed<std::uint8_t>());
      return true;
    case 0x09:
      operands.push(static_cast<std::uint64_t>(std::int64_t{reader.fixed<std::int8_t>()}));
      return true;
    case 0x0A:
      operands.push(reader.fixed<std::uint16_t>());
      return true;
    case 0x0B:
      operands.push(static_cast<std::uint64_t>(std::int64_t{reader.fixed<std::int16_t>()}));
      return true;
    case 0x0C:
      operands.push(reader.fixed<std::uint32_t>());
      return true;
    case 0x0D:
      operands.push(static_cast<std::uint64_t>(std::int64_t{reader.fixed<std::int32_t>()}));
      return true;
    case 0x0E:
    case 0x0F:
      operands.push(reader.fixed<std::uint64_t>());
      return true;
    case 0x10:
      operands.push(reader.uleb128());
      return true;
    case 0x11:
      operands.push(static_cast<std::uint64_t>(reader.sleb128()));
      return true;
    default:
      return false;
  }
}

void push_register(std::uint64_t reg, std::int64_t offset, const Registers& registers, Operands& operands) {
  const std::optional<std::uintptr_t> value = registers[reg];
  if (value)
    operands.push(*value + static_cast<std::uint64_t>(offset));
  else
    operands.fail();
}

void other(std::uint8_t code, ByteReader& reader, Operands& operands, StackMemory& memory) {
  switch (code) {
    case 0x06: {  // deref
      std::uintptr_t word = 0;
      if (!memory.read(operands.pop(), word)) operands.fail();
      operands.push(word);
      break;
    }
    case 0x12:  // dup
      operands.push(operands.pick(0));
      break;
    case 0x13:  // drop
      operands.pop();
      break;
    case 0x14:  // over
      operands.push(operands.pick(1));
      break;
    case 0x15:  // pick
      operands.push(operands.pick(reader.fixed<std::uint8_t>()));
      break;
    case 0x1F:  // neg
      operands.push(-operands.pop());
      break;
    case 0x20:  // not
      operands.push(~operands.pop());
      break;
    case 0x23:  // plus_uconst
      operands.push(operands.pop() + reader.uleb128());
      break;
    case 0x96:  // nop
      break;
    default:
      operands.fail();
      break;
  }
}

}  // namespace

std::optional<std::uintptr_t> evaluate(std::span<const std::byte> expression, const Registers& registers,
                                       StackMemory& memory, std::optional<std::uintptr_t> initial) {
  // The supported operations contain no loops, so the size of the expression bounds the work.
  if (expression.size() > 256) return std::nullopt;
  Operands operands;
  if (initial) operands.push(*initial);
  ByteReader reader({0, expression});
  while (!reader.done() && !operands.failed()) {
    const auto code = reader.fixed<std::uint8_t>();
    if (code >= 0x70 && code <= 0x8F)  // breg0 ... breg31
      push_register(code - 0x70U, reader.sleb128(), registers, operands);
    else if (code == 0x92) {  // bregx
      const std::uint64_t reg = reader.uleb128();
      push_register(reg, reader.sleb128(), registers, operands);
    } else if (!constant(code, reader, operands) && !binary(code, operands))
      other(code, reader, operands, memory);
  }
  const std::uint64_t result = operands.pop();
  if (operands.failed() || reader.failed()) return std::nullopt;
  return result;
}

}  // namespace memreel::stacks
