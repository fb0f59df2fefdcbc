// SPDX-License-Identifier: Apache-2.0
// The search for a common setting, in rounds whose work is divided among processes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/fleet/child_processes.h"
#include "analyzer/fleet/fleet_settings.h"
#include "analyzer/fleet/inputs.h"
#include "analyzer/fleet/settings_work.h"

namespace memreel {

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
