// Names of C++ functions as people write them.
#pragma once

#include <string>

namespace memreel {

/// The name that a linker's name stands for; the linker's name when it stands for none, or for one of more than 16 KiB:
/// three hundred bytes can stand for gigabytes.
std::string demangled(const char* name);

}  // namespace memreel
