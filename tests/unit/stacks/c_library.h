// SPDX-License-Identifier: Apache-2.0
// The C library that the program has loaded.
#pragma once

#include <dlfcn.h>

#include <cstdint>

namespace memreel::stacks::testing {

/// An address in its code, looked up in the library itself: otherwise a sanitizer's function of the same name would be
/// found first.
inline std::uintptr_t code_of_c_library() {
  return reinterpret_cast<std::uintptr_t>(dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "qsort"));
}

}  // namespace memreel::stacks::testing
