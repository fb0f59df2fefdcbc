// What the launcher must know about a program before starting it.
#pragma once

#include <filesystem>
#include <string>

#include "formats/model/result.h"

namespace memreel::record {

/// Why the agent can't be loaded into a program.
enum class Closed : std::uint8_t {
  no,           // it can
  is_static,    // statically linked, without a dynamic loader
  privileged,   // gains rights when it starts (setuid, setgid, capabilities): the loader ignores the environment
  other_class,  // for another CPU architecture, or 32-bit
};

struct Executable {
  std::filesystem::path path;  // with directory
  Closed closed = Closed::no;
};

/// Finds `name` as execvp() would: as a path if it contains a slash, else in the directories of `search` (the value of
/// PATH). A script counts as open; its interpreter is not checked. Errors: the file does not exist, is a directory, or
/// may not be executed.
Result<Executable> find_executable(const std::string& name, const std::string& search);

/// Explains to the user why a program is closed; empty if it is not.
std::string explanation_of(const Executable& executable);

}  // namespace memreel::record
