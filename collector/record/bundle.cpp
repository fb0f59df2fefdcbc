#include "collector/record/bundle.h"

#include <filesystem>
#include <system_error>

#include "collector/record/child.h"

namespace memreel::record {

Result<void> bundle_symbols(std::span<const agent::JournalEntry> journal) {
  std::error_code problem;
  const std::filesystem::path memreel =
      std::filesystem::read_symlink("/proc/self/exe", problem).parent_path() / "memreel";
  for (const agent::JournalEntry& entry : journal) {
    if (entry.what != agent::JournalEntry::What::ended || entry.trace.empty()) continue;
    const auto ending =
        run_command({.program = memreel, .arguments = {"memreel", "symbols", "--quiet", entry.trace}, .variables = {}});
    if (!ending) return ending.error();
  }
  return {};
}

}  // namespace memreel::record
