// Files by build-id from the servers that DEBUGINFOD_URLS names.
#pragma once

#include <filesystem>
#include <string>

namespace memreel {

/// Whether servers can be asked: libdebuginfod is installed. It is loaded when first needed, and never unasked.
bool can_ask_servers();

/// Where the debug information of a build was put by libdebuginfod, in its cache; empty when no server has it.
std::filesystem::path debug_file_from_servers(const std::string& build_id);

}  // namespace memreel
