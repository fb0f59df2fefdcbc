// What the launcher must know of a program before it starts it.
#pragma once

#include <filesystem>
#include <string>

#include "formats/model/result.h"

namespace memreel::record {

/// Why a library can't enter a program.
enum class Closed : std::uint8_t {
  no,           // it can
  is_static,    // there is no dynamic loader in it
  privileged,   // it gains rights when it starts (setuid, setgid, capabilities): the loader ignores the environment
  other_class,  // a program of another processor, or of 32 bits
};

struct Executable {
  std::filesystem::path path;  // with directory
  Closed closed = Closed::no;
};

/// Finds `name` as execvp() would: by itself when it has a slash in it, else in the directories of `search` (the value
/// of PATH). A script is as open as its interpreter, which is not looked at. Errors: there is no such file, it is a
/// directory, it may not be executed.
Result<Executable> find_executable(const std::string& name, const std::string& search);

/// A sentence for the user about a program that is closed; empty when it is not.
std::string explanation_of(const Executable& executable);

}  // namespace memreel::record
