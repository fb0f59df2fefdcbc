// C++ demangling.
#pragma once

#include <string>

namespace memreel {

/// The demangled name; the linker's name if it is not mangled, or if the result exceeds 16 KiB: three hundred bytes can
/// expand to gigabytes.
std::string demangled(const char* name);

}  // namespace memreel
