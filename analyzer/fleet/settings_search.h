// SPDX-License-Identifier: Apache-2.0
// The search for a common setting, in rounds whose work is divided among processes.
#pragma once

#include <filesystem>
#include <functional>

#include "analyzer/fleet/child_processes.h"
#include "analyzer/fleet/fleet_settings.h"
#include "analyzer/fleet/inputs.h"
#include "formats/model/units.h"

namespace memreel {

// The work of the search for a common setting: one class at a time, by any process that can read its recording. Results
// are texts, which are stored for whoever asks next.

/// A class's files: the one to replay, and the one whose addresses are also verified, if there is one. `limit`: what
/// the allocator may reserve of a given capacity, the rest being in use beside it.
struct ReplayTask {
  std::string file, witness;
  std::string machine;  // whose disk has them (map.h); empty: all machines see the same
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

struct SettingOptions {
  std::optional<Bytes> capacity;  // of each device; default: as recorded
  std::filesystem::path out;      // where replays are kept for reuse; empty: nowhere
  ChildLimits limits;
  unsigned jobs = 0;  // 0: one per core
};

/// Does each work; the results are in their order, and empty where there is none. `last`: the search needs no more of
/// them than the answer does.
using SettingRound = std::function<std::vector<std::string>(const std::vector<SettingWork>& works, bool last)>;

/// Runs the whole search.
CommonSetting find_common_setting(const Fleet& fleet, const SettingOptions& options, const SettingRound& round);

/// The same in child processes of this one.
CommonSetting find_common_setting(const Fleet& fleet, const SettingOptions& options);

struct SharedWork {
  std::size_t done = 0, others = 0;  // classes of the last round: done here; by others, or before
};

/// Does a part of the search. Any number of processes, on any machines that see options.out and some of the recordings,
/// may do so at the same time or one after the other: each takes what no other has in hand. The first rounds wait for
/// the others, the last one does not. `shard`: where in the list to begin, so that they do not all ask for the same.
SharedWork share_common_setting(const Fleet& fleet, const SettingOptions& options, const Shard& shard);

}  // namespace memreel
