// The C library as the program has it loaded.
#pragma once

#include <dlfcn.h>

#include <cstdint>

namespace memreel::stacks::testing {

/// A place in its code. Asked of the library itself: a sanitizer's function of the same name would be found first.
inline std::uintptr_t code_of_c_library() {
  return reinterpret_cast<std::uintptr_t>(dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "qsort"));
}

}  // namespace memreel::stacks::testing
