// The sample recording shipped with memreel: for its demonstration, and for the viewer's tour.
#pragma once

#include <filesystem>

namespace memreel {

/// In an installation ../share/memreel/samples, else samples/traces in the source tree that the program was built in;
/// empty if neither exists.
std::filesystem::path sample_trace();

}  // namespace memreel
