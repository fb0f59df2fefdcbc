// The file through which recorded processes tell the launcher what became of them: each appends a line when it begins
// a trace and one when it ends it. A "began" without its "ended" is a process that was killed, or that still runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/model/result.h"

namespace memreel::agent {

struct JournalEntry {
  enum class What : std::uint8_t {
    began,    // recording began; `text` is the backend: "cupti" or "interpose"
    ended,    // recording ended; `text` says why when it was not the program's end
    refused,  // nothing is recorded in this process; `text` says why
  };

  What what = What::began;
  std::uint64_t process = 0;
  std::string trace;          // absolute path; empty when there is none
  std::uint64_t events = 0;   // ended: how many it has
  std::uint64_t lost = 0;     // ended: how many it lacks
  std::uint64_t cost_ns = 0;  // ended: time that the program's threads spent recording, estimated
  std::uint64_t own_ns = 0;   // ended: processor time of the library's own threads
  std::string text;

  friend bool operator==(const JournalEntry&, const JournalEntry&) = default;
};

/// One line with its newline. Newlines and tabs inside the texts become spaces.
std::string to_line(const JournalEntry& entry);

/// None for a line that is not one of to_line()'s, e.g. cut off. `line` is without its newline.
std::optional<JournalEntry> parse_journal_line(std::string_view line);

/// Appends to `journal` in one write, so that lines of several processes never mix. An empty name: does nothing.
Result<void> append_to_journal(const std::string& journal, const JournalEntry& entry);

}  // namespace memreel::agent
