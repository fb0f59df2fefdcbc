// Which nn.Module a frame is a call of: type and identity of `self`, and the name that the program gave it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "collector/interned/interned_bytes.h"
#include "collector/python/code_view.h"
#include "collector/python/known_codes.h"
#include "collector/python/layout.h"

namespace memreel::python {

/// Whether all calls of modules go through this code: nn.Module._wrapped_call_impl, in every PyTorch since 2.1
/// (torch/nn/modules/module.py). `self` is its first argument there, and in no cell.
bool is_module_call(const CodeView& code);

/// Calls of one code object, told apart by the object that is called. Any thread, any time, without locks or
/// allocation, except where noted.
///
/// An object is known by its address and its type. A program that drops a module and makes another one of the same type
/// at the same address has both under one number, unless it says so: name() with an empty name. Where their frames are
/// the same in all else, a thread may not notice another type either (FrameChain).
class Instances {
 public:
  /// What a number stands for.
  struct Instance {
    std::uint32_t code = 0;     // number of the code object
    std::uintptr_t object = 0;  // address of the module
    std::string type;           // its class, without the Python module: "GPT2Block"
    std::string name;           // "transformer.h.3.mlp"; empty: it had none when it was first called
  };

  /// Whether a code number of a FrameKey is one of number_of()'s.
  static bool is_instance(std::uint32_t number) { return (number & bit) != 0; }

  /// Whether what is in the place of `self` can be read as an object. The first one of a process is read with care, and
  /// stands for all others: what is where it should be once is there always.
  bool are_readable(const void* self, const Layout& layout) {
    const Readable known = readable_.load(std::memory_order_relaxed);
    return known == Readable::unknown ? try_to_read(self, layout) : known == Readable::yes;
  }

  /// The number of calls of `code`, below 2^30, on `self`, a live object, once are_readable(): below 2^31. When there
  /// is no room for another one, or its type has no name, `code`.
  std::uint32_t number_of(std::uint32_t code, const void* self, const Layout& layout);

  /// Allocates.
  Instance operator[](std::uint32_t number) const;

  /// Changes with every name(): frames that were read before may be shown otherwise now.
  std::uint32_t epoch() const { return epoch_.load(std::memory_order_relaxed); }

  /// From now on the live object is shown under this name; empty: under none. Texts longer than 1 KiB are cut.
  void name(const void* object, std::string_view name, const Layout& layout);

 private:
  enum class Readable : std::uint8_t { unknown, no, yes };
  static constexpr std::uint32_t bit = 1U << 30U;

  bool try_to_read(const void* self, const Layout& layout);
  std::uint32_t add(std::uint32_t code, const void* self, const Layout& layout);

  std::atomic<std::uint32_t> epoch_ = 0;
  std::atomic<Readable> readable_ = Readable::unknown;
  KnownCodes known_{1U << 18U};  // rows by object; the version is made of its type
  KnownCodes names_{1U << 18U};  // texts by object
  InternedBytes rows_{1U << 18U, std::size_t{32} << 20U};
  InternedBytes texts_{1U << 18U, std::size_t{32} << 20U};
};

}  // namespace memreel::python
