// Files by build ID from the servers in DEBUGINFOD_URLS.
#pragma once

#include <filesystem>
#include <string>

namespace memreel {

/// Whether servers can be queried: libdebuginfod is installed. It is loaded on first use, and only if requested.
bool can_ask_servers();

/// The path of a build's debug information in libdebuginfod's cache; empty if no server has it.
std::filesystem::path debug_file_from_servers(const std::string& build_id);

}  // namespace memreel
