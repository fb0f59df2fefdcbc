// The recording that comes with memreel: for its demonstration, and for the viewer's tour.
#pragma once

#include <filesystem>

namespace memreel {

/// Of an installed program the one in ../share/memreel/samples, else samples/traces of the source tree that the program
/// was built in; empty where there is neither.
std::filesystem::path sample_trace();

}  // namespace memreel
