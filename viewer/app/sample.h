// The trace that the tour shows when nobody has opened one.
#pragma once

#include <filesystem>

namespace memreel::viewer {

/// Of an installed program the one in ../share/memreel/samples, else samples/traces of the source tree that the program
/// was built in; empty where there is neither.
std::filesystem::path sample_trace();

}  // namespace memreel::viewer
