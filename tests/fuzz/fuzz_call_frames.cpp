// SPDX-License-Identifier: Apache-2.0
// Feeds arbitrary bytes to the reader of unwinding tables, as if a library contained them. It must not crash, hang or
// read out of bounds.
//
// The first byte of an input selects the kind of the rest: tables as in a file, preceded by the size of their header
// and the address to look up; or a single description, for which a valid header is made.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "collector/stacks/call_frames.h"
#include "collector/stacks/unwind.h"

namespace memreel::stacks {
namespace {

constexpr std::uintptr_t base = 0x10'0000;

void read(const CallFrames& tables, std::uintptr_t address) {
  const std::optional<FrameRow> row = row_at(tables, address);
  if (!row) return;
  UnwindRule::of(*row, address);
  // This function's own stack, so that expressions have memory to read.
  std::array<std::uintptr_t, 64> stack{};
  const auto low = reinterpret_cast<std::uintptr_t>(stack.data());
  StackMemory memory({.low = low, .high = low + sizeof stack}, low);
  Registers registers;
  for (std::uint64_t reg = 0; reg < register_count; ++reg) registers.set(reg, low + 8 * reg);
  evaluate(row->cfa.expression, registers, memory);
  for (const RegisterRule& rule : row->registers) evaluate(rule.expression, registers, memory, low + 64);
}

void run(std::span<const std::uint8_t> input) {
  if (input.size() < 5) return;
  // A separate allocation, so that out-of-bounds reads are detected.
  const std::uintptr_t offset = input[1] | static_cast<std::uintptr_t>(input[2]) << 8U;
  const std::size_t header_size = input[3] | static_cast<std::size_t>(input[4]) << 8U;
  const std::span<const std::uint8_t> rest = input.subspan(5);
  if (input[0] % 2 == 0) {
    const std::size_t cut = std::min(header_size, rest.size());
    const std::vector<std::uint8_t> header(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(cut));
    const std::vector<std::uint8_t> frames(rest.begin() + static_cast<std::ptrdiff_t>(cut), rest.end());
    read({.header = {base, std::as_bytes(std::span(header))}, .frames = {base + cut, std::as_bytes(std::span(frames))}},
         base + offset);
    return;
  }
  struct Header {
    std::array<std::uint8_t, 4> encodings{1, 0x1B, 0x03, 0x3B};
    std::int32_t frames = 0;
    std::uint32_t count = 1;
    std::int32_t code = 0, description = 0;
  };
  const Header header{.description = static_cast<std::int32_t>(sizeof(Header) + header_size)};
  const std::vector<std::uint8_t> frames(rest.begin(), rest.end());
  read({.header = {base, std::as_bytes(std::span(&header, 1))},
        .frames = {base + sizeof(Header), std::as_bytes(std::span(frames))}},
       base + offset);
}

}  // namespace
}  // namespace memreel::stacks

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  memreel::stacks::run({data, size});
  return 0;
}
