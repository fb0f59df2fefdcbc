// SPDX-License-Identifier: Apache-2.0
// The file through which recorded processes report to the launcher: each appends a line when it begins a trace and one
// when it ends it. A "began" without an "ended" means the process was killed or is still running.
#pragma once

#include "formats/model/result.h"

namespace memreel::agent {

struct JournalEntry {
  enum class What : std::uint8_t {
    began,    // recording began; `text` is the backend: "cupti" or "interpose"
    ended,    // recording ended; `text` is the reason if it was not program exit
    refused,  // nothing is recorded in this process; `text` is the reason
  };

  What what = What::began;
  std::uint64_t process = 0;
  std::string trace;          // absolute path; empty if there is none
  std::uint64_t events = 0;   // ended: events in the trace
  std::uint64_t lost = 0;     // ended: events missing from it
  std::uint64_t cost_ns = 0;  // ended: estimated time that the program's threads spent recording
  std::uint64_t own_ns = 0;   // ended: CPU time of the agent's own threads
  std::string text;

  friend bool operator==(const JournalEntry&, const JournalEntry&) = default;
};

/// One line including its newline. Newlines and tabs inside the texts become spaces.
std::string to_line(const JournalEntry& entry);

/// None if the line did not come from to_line(), e.g. because it is truncated. `line` excludes its newline.
std::optional<JournalEntry> parse_journal_line(std::string_view line);

/// Appends to `journal` in one write, so that lines of different processes never mix. Does nothing if the name is
/// empty.
Result<void> append_to_journal(const std::string& journal, const JournalEntry& entry);

}  // namespace memreel::agent
