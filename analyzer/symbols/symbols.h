// From a place in a module to the functions and source lines that it was compiled from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/model/tables.h"

namespace memreel {

struct SymbolOptions {
  std::filesystem::path sysroot;  // directory that holds the recorded machine's files; empty: this machine is that one
  bool debuginfod = false;        // ask the servers in DEBUGINFOD_URLS for what is not found
  std::vector<std::string> skip_frames;  // left out once they have their names (insight/skip_frames.h)
};

/// A function that was running at a place: several when calls were inlined there.
struct SourceFrame {
  std::string function;  // demangled
  std::string file;      // empty when only the symbol table is known
  std::uint32_t line = 0;

  friend bool operator==(const SourceFrame&, const SourceFrame&) = default;
};

/// Whether this build can look into modules: it was built with elfutils' libdw.
bool can_read_symbols();

/// A recorded module, and what this machine knows of it.
///
/// Its file is looked for under the sysroot and by its recorded path, its debug information in the file itself, in
/// lib/debug/.build-id of both and where the file's .gnu_debuglink leads. A file is used only when its build-id is the
/// recorded one; without build-ids its size has to agree. Where there is no debug information the symbol table serves.
class ModuleSymbols {
 public:
  ModuleSymbols(std::string_view path, const Module& module, const SymbolOptions& options);
  ModuleSymbols(ModuleSymbols&&) noexcept;
  ModuleSymbols& operator=(ModuleSymbols&&) noexcept;
  ~ModuleSymbols();

  /// The functions at `offset` bytes from the module's base, innermost first. Empty when nothing is known.
  std::vector<SourceFrame> at(std::uint64_t offset);

  enum class Found : std::uint8_t { file, nothing, another_build };
  Found found() const;
  /// Of `another_build`: what was found instead, e.g. "/usr/lib/libx.so has build-id 12ab34...".
  const std::string& mismatch() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// How far names could be found.
struct SymbolFindings {
  std::uint64_t native_frames = 0;  // distinct places that had no name
  std::uint64_t named = 0;          // of those, how many have one now
  /// One sentence for each reason why others have none, e.g. "libx.so: ...".
  std::vector<std::string> problems;
};

enum class Unnamed : std::uint8_t {
  module_and_offset,  // frames without a name get "libx.so+0x1234" for one
  left_alone,         // they keep none
};

/// Gives the native frames of `tables` their functions, files and lines. Inlined calls become frames of their own,
/// which moves stacks: the result's first member says for every stack of before which one it is now. Each distinct
/// frame is looked up once; tables without native frames are left as they are.
std::pair<std::vector<StackId>, SymbolFindings> name_frames(
    Tables& tables, const SymbolOptions& options, Unnamed unnamed,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& on_progress = {});

}  // namespace memreel
