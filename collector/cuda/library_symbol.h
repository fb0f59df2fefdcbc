// A function of a library that was opened at run time.
#pragma once

#include "collector/cuda/real_driver.h"

namespace memreel::cuda {

/// Sets `function` to what `library` exports as `name`, or to null. What stands before it of ours is not found.
template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(RealDriver::dlsym(library, name));
}

}  // namespace memreel::cuda
