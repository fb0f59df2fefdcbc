// SPDX-License-Identifier: Apache-2.0
#include "collector/stacks/unwind.h"

#include <algorithm>
#include <cstring>

namespace memreel::stacks {
namespace {

/// A number that another module at the same place is unlikely to have: two libraries of the same size rarely have their
/// first functions at the same places.
std::uint64_t identity_of(const CodeModule& place) {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;
  std::array<std::uint64_t, 8> first_bytes{};
  const std::span<const std::byte> header = place.tables.header.bytes;
  std::memcpy(first_bytes.data(), header.data(), std::min(header.size(), sizeof first_bytes));
  std::uint64_t identity = place.module.end;
  for (const std::uint64_t bytes : first_bytes) identity = (identity ^ identity >> 32U ^ bytes) * odd;
  return identity;
}

}  // namespace

void Unwinder::forget() {
  seen_modules_.forget();
  generation_.fetch_add(1, std::memory_order_relaxed);
  rules_.clear();
}

/// Finds a rule in its module's tables, and caches it.
UnwindRule Unwinder::learn(std::uintptr_t return_address) {
  // A return address may lie after its function's last byte if the call never returns.
  const std::uintptr_t address = return_address - 1;
  const std::optional<CodeModule> place = code_.find(address);
  // Nothing is cached about code outside modules: JIT compilers replace it at will.
  if (!place) return UnwindRule(UnwindRule::Kind::unknown);
  if (seen_modules_.is_new(place->module.begin, identity_of(*place))) {
    // It may have replaced another module.
    generation_.fetch_add(1, std::memory_order_relaxed);
    rules_.clear();
  }
  const std::optional<FrameRow> row = row_at(place->tables, address);
  const UnwindRule rule = row ? UnwindRule::of(*row, address) : UnwindRule(UnwindRule::Kind::unknown);
  rules_.put(return_address, rule);
  return rule;
}

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

namespace {

using RowKind = RegisterRule::Kind;

// Where Linux's signal frame (struct ucontext, relative to the handler's CFA) holds the interrupted registers.
constexpr std::int64_t signal_rbp = 120, signal_rsp = 160, signal_rip = 168;

enum class Form : std::uint8_t { address, word_at_address };

/// N, if the expression is "register + N", or "the word at register + N".
std::optional<std::int64_t> offset_from(std::span<const std::byte> expression, Register reg, Form form) {
  ByteReader reader({0, expression});
  if (reader.fixed<std::uint8_t>() != 0x70 + reg) return std::nullopt;
  const std::int64_t offset = reader.sleb128();
  if (form == Form::word_at_address && reader.fixed<std::uint8_t>() != 0x06) return std::nullopt;
  if (reader.failed() || !reader.done()) return std::nullopt;
  return offset;
}

bool is_signal_frame(const FrameRow& row) {
  const auto saved_at = [&](Register reg, std::int64_t offset) {
    const RegisterRule& rule = row.registers.at(reg);
    return rule.kind == RowKind::saved_expression && offset_from(rule.expression, rsp, Form::address) == offset;
  };
  return row.signal_frame && row.cfa.kind == RowKind::value_expression &&
         offset_from(row.cfa.expression, rsp, Form::word_at_address) == signal_rsp &&
         saved_at(return_address, signal_rip) && saved_at(rbp, signal_rbp);
}

/// N, if the expression is rsp + N at this particular address: PLT entries are described that way.
std::optional<std::int64_t> offset_at(std::span<const std::byte> expression, std::uintptr_t address) {
  const auto value_with = [&](std::uintptr_t stack_pointer) {
    Registers registers;
    registers.set(rsp, stack_pointer);
    registers.set(return_address, address);
    StackMemory nothing({.low = 1, .high = 2}, 1);
    return evaluate(expression, registers, nothing);
  };
  constexpr std::uintptr_t low = 0x1000'0000, high = 0x7FFF'2345'6780;
  // An expression that reads memory has no value here, as there is no memory to read.
  const std::optional<std::uintptr_t> a = value_with(low), b = value_with(high);
  if (!a || !b || *a - low != *b - high) return std::nullopt;
  return static_cast<std::int64_t>(*a - low);
}

}  // namespace

std::optional<UnwindRule> UnwindRule::packed(Kind kind, std::int64_t offset, std::int64_t frame_pointer_below) {
  if (offset < 0 || offset >= 0x8000L * 8 || offset % 8 != 0) return std::nullopt;
  if (frame_pointer_below < 0 || frame_pointer_below >= 0x1000L * 8 || frame_pointer_below % 8 != 0)
    return std::nullopt;
  return from_bits(static_cast<std::uint32_t>(kind) | static_cast<std::uint32_t>(offset / 8) << 3U |
                   static_cast<std::uint32_t>(frame_pointer_below / 8) << 18U);
}

UnwindRule UnwindRule::of(const FrameRow& row, std::uintptr_t address) {
  const UnwindRule full(Kind::full);
  const RegisterRule& caller = row.registers[return_address];
  if (caller.kind == RowKind::undefined) return UnwindRule(Kind::outermost);
  if (is_signal_frame(row)) return UnwindRule(Kind::signal);
  if (row.signal_frame || row.registers[rsp].kind != RowKind::same) return full;
  if (caller.kind != RowKind::saved || caller.number != -8) return full;

  const RegisterRule& base = row.registers[rbp];
  if (row.cfa.kind == RowKind::value_expression) {
    const std::optional<std::int64_t> word = offset_from(row.cfa.expression, rbp, Form::word_at_address);
    if (word) {
      const bool at_itself =
          base.kind == RowKind::saved_expression && offset_from(base.expression, rbp, Form::address) == std::int64_t{0};
      return at_itself && *word < 0 ? packed(Kind::realigned, -*word, 0).value_or(full) : full;
    }
    const std::optional<std::int64_t> offset = offset_at(row.cfa.expression, address);
    return offset && base.kind == RowKind::same ? packed(Kind::stack_pointer, *offset, 0).value_or(full) : full;
  }
  if (row.cfa.kind != RowKind::value || (row.cfa_register != rsp && row.cfa_register != rbp)) return full;
  const Kind kind = row.cfa_register == rsp ? Kind::stack_pointer : Kind::frame_pointer;
  if (base.kind == RowKind::same) return packed(kind, row.cfa.number, 0).value_or(full);
  // Below the return address, otherwise it is not a saved register.
  if (base.kind != RowKind::saved || base.number > -16) return full;
  return packed(kind, row.cfa.number, -base.number).value_or(full);
}

}  // namespace memreel::stacks
