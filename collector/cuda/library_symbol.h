// A function of a library that was opened at run time.
#pragma once

#include <dlfcn.h>

namespace memreel::cuda {

/// Sets `function` to what `library` exports as `name`, or to null.
template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace memreel::cuda
