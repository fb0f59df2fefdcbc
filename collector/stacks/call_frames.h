// SPDX-License-Identifier: Apache-2.0
// Call frame information (.eh_frame): where it is for a code address, and how to compute a caller's registers from its
// callee's by it.
//
// Sources of the formats: DWARF 5, section 6.4, and the Linux Standard Base Core 5.0, sections 10.5 and 10.6.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "collector/stacks/module_table.h"

namespace memreel::stacks {

// Bounds-checked reading of mapped memory.

/// Bytes and the address they are mapped at: where they actually are, except in tests.
struct MappedBytes {
  std::uintptr_t address = 0;
  std::span<const std::byte> bytes;

  bool contains(std::uintptr_t a) const { return a - address < bytes.size(); }
  /// From `a`, which must be inside, to the end.
  MappedBytes from(std::uintptr_t a) const { return {a, bytes.subspan(a - address)}; }
};

/// Reads values sequentially. Reading past the end returns zero and is remembered.
class ByteReader {
 public:
  explicit ByteReader(MappedBytes bytes) : bytes_(bytes) {}

  bool failed() const { return failed_; }
  bool done() const { return failed_ || position_ == bytes_.bytes.size(); }
  /// The address of the next value.
  std::uintptr_t address() const { return bytes_.address + position_; }

  template <class T>
  T fixed() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::span<const std::byte> source = take(sizeof(T));
    if (!source.empty()) std::memcpy(&value, source.data(), sizeof(T));
    return value;
  }

  std::uint64_t uleb128() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      const auto byte = fixed<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7FU} << shift;
      if ((byte & 0x80U) == 0) return value;
    }
    failed_ = true;
    return 0;
  }

  std::int64_t sleb128() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      const auto byte = fixed<std::uint8_t>();
      if (shift < 64) value |= std::uint64_t{byte & 0x7FU} << shift;
      if ((byte & 0x80U) != 0) continue;
      if ((byte & 0x40U) != 0 && shift + 7 < 64) value |= ~std::uint64_t{0} << (shift + 7);
      return static_cast<std::int64_t>(value);
    }
    failed_ = true;
    return 0;
  }

  /// The next `size` bytes; empty if there are fewer.
  std::span<const std::byte> take(std::uint64_t size) {
    if (size > bytes_.bytes.size() - position_) {
      failed_ = true;
      position_ = bytes_.bytes.size();
      return {};
    }
    const std::span<const std::byte> taken = bytes_.bytes.subspan(position_, size);
    position_ += size;
    return taken;
  }

 private:
  MappedBytes bytes_;
  std::size_t position_ = 0;
  bool failed_ = false;
};

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

// Finds the unwinding tables for a code address.

// Finds all the code of a function.

/// The ranges of a function's code: `function`, the range of its symbol, followed by the cold parts that a compiler or
/// linker placed elsewhere (such as GCC's -freorder-blocks-and-partition and BOLT) and for which stripped files have no
/// symbol. Such a part is recognised by `function`'s jumps: code jumps to the start of another function, but into the
/// middle only of its own. `tables` are those of `function`'s module, mapped and readable; without
/// tables, `function` alone.
std::vector<AddressRange> parts_of(AddressRange function, const CallFrames& tables);

struct CodeModule {
  AddressRange module;
  CallFrames tables;
};

/// Any thread may query it, without locks. With glibc 2.35 or newer the loader itself answers lock-free; older ones can
/// only be queried under the loader's lock, so answers come from a copy made by refresh().
class CodeMap {
 public:
  enum class Source : std::uint8_t { loader, copy };

  /// `source`: for tests; by default the loader if it can answer.
  explicit CodeMap(Source source = Source::loader);

  /// For code in a module that has tables.
  std::optional<CodeModule> find(std::uintptr_t address) const;

  /// Updates the copy, if one is needed. One thread at a time; may wait for the loader.
  void refresh();

 private:
  struct LoaderAnswer;
  using FindObject = int (*)(void*, LoaderAnswer*);
  struct Range {
    std::atomic<std::uintptr_t> begin, end;
  };

  AddressRange module_in_copy(std::uintptr_t address) const;

  FindObject find_object_ = nullptr;
  // A seqlock: written under an odd version; readers check the version before and after. Modules that don't fit have no
  // tables.
  std::array<Range, 2048> copy_{};
  std::atomic<std::uint32_t> copy_size_ = 0;
  std::atomic<std::uint32_t> version_ = 0;
};

}  // namespace memreel::stacks
