#include "collector/stacks/unwind_rule.h"

#include "collector/stacks/expression.h"

namespace memreel::stacks {
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
