// SPDX-License-Identifier: Apache-2.0
// The work of the search for a common setting: one class at a time, by any process that can read its recording. Results
// are texts, which are stored for whoever asks next.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/fleet/fleet_settings.h"
#include "formats/model/units.h"

namespace memreel {

/// A class's files: the one to replay, and the one whose addresses are also verified, if there is one. `limit`: what
/// the allocator may reserve of a given capacity, the rest being in use beside it.
struct ReplayTask {
  std::string file, witness;
  std::string machine;  // whose disk has them (claim.h); empty: all machines see the same
  std::optional<Bytes> limit;
  std::string heap;  // the only one that is replayed; empty: what the program requested
};

struct SettingWork {
  ReplayTask task;
  bool proposes = false;                // at most four settings, best first: read_proposals()
  std::vector<std::string> candidates;  // else replays the recorded setting and these: read_replays()
  bool verifies = true;                 // and compares addresses
};

/// Whether this process can: the recordings are here.
bool is_readable(const ReplayTask& task);

/// Where its result is stored.
std::filesystem::path work_path(const SettingWork& work, const std::filesystem::path& out);

/// Its result, if some process has stored it in `out` since the recording was made.
std::optional<std::string> known_result(const SettingWork& work, const std::filesystem::path& out);

/// Its result: the known one, or a new one, which is stored in `out` (empty: nowhere). Runs untrusted files through the
/// importers: call it in a child process.
std::string do_work(const SettingWork& work, const std::filesystem::path& out);

/// None if the recording can't be read, or its allocator has no settings to search.
std::vector<std::string> read_proposals(const std::string& text);
/// Sets a problem if the text is no result of replays.
ClassSettings read_replays(const std::string& text);
/// The text of a class that was not replayed.
std::string no_replays(const std::string& why);

}  // namespace memreel
