#include "collector/record/bundle.h"

#include <filesystem>

#include "collector/record/child.h"
#include "collector/record/companion.h"

namespace memreel::record {

Result<void> bundle_symbols(std::span<const agent::JournalEntry> journal) {
  const std::filesystem::path memreel = sibling("memreel");
  for (const agent::JournalEntry& entry : journal) {
    if (entry.what != agent::JournalEntry::What::ended || entry.trace.empty()) continue;
    const auto ending =
        run_command({.program = memreel, .arguments = {"memreel", "symbols", "--quiet", entry.trace}, .variables = {}});
    if (!ending) return ending.error();
  }
  return {};
}

}  // namespace memreel::record
