// SPDX-License-Identifier: Apache-2.0
// Maps positions in a module to functions and source lines.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "formats/model/result.h"
#include "formats/model/tables.h"

namespace memreel {

struct SymbolOptions {
  std::filesystem::path sysroot;         // directory with the recorded machine's files; empty: it is this machine
  bool debuginfod = false;               // query the servers in DEBUGINFOD_URLS for what is not found
  std::vector<std::string> skip_frames;  // removed once frames have names (insight/suppressions.h)
  bool all_frames = false;               // also those that is_hidden() (formats/model/frame_kind.h)
};

/// A function active at an address; there are several if calls were inlined there.
struct SourceFrame {
  std::string function;  // demangled
  std::string file;      // empty if only the symbol table is available
  std::uint32_t line = 0;

  friend bool operator==(const SourceFrame&, const SourceFrame&) = default;
};

/// Whether this build can read modules: it was built with elfutils' libdw.
bool can_read_symbols();

/// A recorded module, and what this machine has of it.
///
/// Its file is searched under the sysroot and at its recorded path; its debug information in the file itself, in
/// lib/debug/.build-id of both, and via the file's .gnu_debuglink. A file is used only if its build ID matches the
/// recorded one; without build IDs, its size must match. Without debug information, the symbol table is used.
class ModuleSymbols {
 public:
  ModuleSymbols(std::string_view path, const Module& module, const SymbolOptions& options);
  ModuleSymbols(ModuleSymbols&&) noexcept;
  ModuleSymbols& operator=(ModuleSymbols&&) noexcept;
  ~ModuleSymbols();

  /// The functions at `offset` bytes from the module's base, innermost first. Empty if nothing is known.
  std::vector<SourceFrame> at(std::uint64_t offset);

  enum class Found : std::uint8_t { file, nothing, another_build };
  Found found() const;
  /// For `another_build`: what was found instead, e.g. "/usr/lib/libx.so has build-id 12ab34...".
  const std::string& mismatch() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// How many names were found.
struct SymbolFindings {
  std::uint64_t native_frames = 0;  // distinct addresses without a name
  std::uint64_t named = 0;          // of those, how many are named now
  /// One sentence per reason why others remain unnamed, e.g. "libx.so: ...".
  std::vector<std::string> problems;
};

enum class Unnamed : std::uint8_t {
  module_and_offset,  // unnamed frames are named like "libx.so+0x1234"
  left_alone,         // they remain unnamed
};

/// Adds functions, files and lines to the native frames of `tables`. Inlined calls become separate frames, which
/// changes stack ids: the first member of the result maps each old stack to its new id. Each distinct frame is looked
/// up once; tables without native frames stay unchanged.
std::pair<std::vector<StackId>, SymbolFindings> name_frames(
    Tables& tables, const SymbolOptions& options, Unnamed unnamed,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& on_progress = {});

// A trace that contains the names of its native frames.

/// Writes `trace` to `output`, which may be the same file, with functions, files and lines in its frames, so that it
/// can be read where the recorded modules are missing. `output` is replaced once it is complete. Memory: the trace's
/// tables and one block. Errors: the trace can't be read or is damaged (what is known of the damage would be lost), or
/// `output` can't be written.
Result<SymbolFindings> bundle_symbols(
    const std::filesystem::path& trace, const std::filesystem::path& output, const SymbolOptions& options,
    const std::function<void(std::uint64_t done, std::uint64_t total)>& on_progress = {});

}  // namespace memreel
