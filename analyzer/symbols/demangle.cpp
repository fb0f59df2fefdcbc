#include "analyzer/symbols/demangle.h"

#include <cxxabi.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string_view>

// The function behind abi::__cxa_demangle(): it delivers the name in pieces, while the latter builds all of it. Only
// the static libstdc++ has it.
extern "C" int __gcclibcxx_demangle_callback(const char* mangled,  // NOLINT(bugprone-reserved-identifier)
                                             void (*take)(const char* piece, std::size_t size, void* into), void* into);

namespace memreel {
namespace {

#ifndef MEMREEL_WHOLE_DEMANGLER

constexpr std::size_t longest = std::size_t{16} << 10U;

struct TooLong {};

/// Stops the demangler, which owns nothing, by throwing an exception.
void take(const char* piece, std::size_t size, void* into) {
  auto& name = *static_cast<std::string*>(into);
  if (size > longest - name.size()) throw TooLong{};
  name.append(piece, size);
}

std::string demangled_or_empty(const char* name) {
  std::string text;
  try {
    if (__gcclibcxx_demangle_callback(name, take, &text) != 0) text.clear();
  } catch (const TooLong&) {
    text.clear();
  }
  return text;
}

#else

std::string demangled_or_empty(const char* name) {
  constexpr std::size_t harmless = 128;
  if (std::string_view(name).size() > harmless) return {};
  int status = 0;
  // NOLINTNEXTLINE(cppcoreguidelines-no-malloc): the library's own allocation
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 && text != nullptr ? text.get() : "";
}

#endif

}  // namespace

std::string demangled(const char* name) {
  std::string text = demangled_or_empty(name);
  return text.empty() ? name : text;
}

}  // namespace memreel
