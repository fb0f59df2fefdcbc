// SPDX-License-Identifier: Apache-2.0
// Call frame information (.eh_frame): how to compute a caller's registers from its callee's.
//
// Sources of the formats: DWARF 5, section 6.4, and the Linux Standard Base Core 5.0, sections 10.5 and 10.6.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "collector/stacks/byte_view.h"
#include "collector/stacks/module_table.h"

namespace memreel::stacks {

/// DWARF register numbers of x86-64 (System V ABI, figure 3.36).
enum Register : std::uint8_t {
  rbx = 3,
  rbp = 6,
  rsp = 7,
  r12 = 12,
  r15 = 15,
  return_address = 16,
  register_count = 17
};

/// The register of a caller's address in the tables of this processor. Rows are only made of those of x86-64; what a
/// function's code is, the tables of both say alike.
#if defined(__aarch64__)
inline constexpr std::uint64_t return_column = 30;
#else
inline constexpr std::uint64_t return_column = return_address;
#endif

/// Where to find the caller's value of a register.
struct RegisterRule {
  enum class Kind : std::uint8_t {
    same,              // unchanged: the callee did not touch it, or there is no rule
    undefined,         // lost; for the return address: there is no caller
    saved,             // in memory, at CFA + number
    value,             // it is CFA + number
    other_register,    // in register `number`
    saved_expression,  // in memory, at the address that `expression` computes
    value_expression,  // it is what `expression` computes
  };
  Kind kind = Kind::same;
  std::int64_t number = 0;
  std::span<const std::byte> expression;
};

/// The rules at one instruction. The CFA (canonical frame address) is the stack pointer before the call.
struct FrameRow {
  /// For the CFA: `value` with `cfa_register` + number, or `value_expression`.
  RegisterRule cfa;
  std::uint64_t cfa_register = 0;
  std::array<RegisterRule, register_count> registers;
  bool signal_frame = false;  // a signal handler's return: what it returns to was interrupted, not calling
};

/// The unwinding tables of one module, as far as they are mapped.
struct CallFrames {
  MappedBytes header;  // .eh_frame_hdr
  MappedBytes frames;  // the loaded segment that contains .eh_frame
};

/// The row for the instruction at `address`. None if the tables don't cover it, use features that no x86-64 compiler
/// uses, or are corrupt: any bytes are safe.
std::optional<FrameRow> row_at(const CallFrames& tables, std::uintptr_t address);

/// The code described by the same table entry as the instruction at `address`: a function, or a separate part of one.
/// None under the same conditions.
std::optional<AddressRange> function_at(const CallFrames& tables, std::uintptr_t address);

}  // namespace memreel::stacks
