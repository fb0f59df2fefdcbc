// A function in a library opened at run time.
#pragma once

#include "collector/cuda/real_driver.h"

namespace memreel::cuda {

/// Sets `function` to what `library` itself exports as `name`, or to null. Our symbols that precede it are skipped.
template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(RealDriver::dlsym(library, name));
}

}  // namespace memreel::cuda
