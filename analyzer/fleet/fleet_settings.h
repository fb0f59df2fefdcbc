// SPDX-License-Identifier: Apache-2.0
// One allocator setting for a whole job, proven by replay: ranks of a class make the same requests, so each class is
// replayed once. It takes two rounds, since a setting that suits one class may not suit another: each of the heaviest
// classes proposes its best settings, then all classes replay all proposals.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyzer/fleet/child_processes.h"
#include "analyzer/fleet/fleet.h"
#include "formats/model/result.h"

namespace memreel {

/// The effect of one setting on one rank.
struct SettingOutcome {
  std::string setting;  // as in PYTORCH_CUDA_ALLOC_CONF; for the first outcome, what the rank ran with
  Bytes peak_reserved;
  Bytes peak_most;  // that it may be if the recording began late (beginning.h): a limit must hold this
  std::uint64_t failed_allocations = 0;
  std::uint64_t driver_calls = 0;
  double driver_seconds = 0;

  friend bool operator==(const SettingOutcome&, const SettingOutcome&) = default;
};

/// The replays of a class's first rank, and whether replaying the recorded setting reproduces every address of this
/// rank and of another.
struct ClassSettings {
  std::uint32_t klass = 0;  // index into Fleet::classes
  std::uint32_t row = 0;    // the replayed rank
  SettingOutcome recorded;
  std::vector<SettingOutcome> outcomes;  // of each candidate, in order
  std::uint64_t allocations = 0, address_matches = 0;
  std::optional<std::uint32_t> witness;  // the other member, if there is one
  std::uint64_t witness_allocations = 0, witness_matches = 0;
  std::string problem;  // why it could not be replayed; empty: it was
};

struct CommonSetting {
  std::vector<std::string> candidates;
  std::vector<ClassSettings> classes;
  std::optional<std::size_t> best;                     // of the candidates; none: the recorded setting is as good
  Bytes peak_before, peak_after;                       // the maximum over classes
  std::optional<Bytes> decider_before, decider_after;  // of the deciding rank; none: it was not replayed
  std::size_t ranks = 0, not_replayed = 0;             // judged ones; those of classes that were not replayed
  std::vector<std::size_t> worse;                      // indices into `classes` that reserve more with it
  Bytes peak_per_class;                                // the maximum if each class had its own best setting
  std::string why;                                     // in a sentence
};

struct SettingOptions {
  std::optional<Bytes> capacity;  // of each device; default: as recorded
  std::filesystem::path out;      // where replays are kept for reuse; empty: nowhere
  ChildLimits limits;
  unsigned jobs = 0;  // 0: one per core
};

/// A class's files: the one to replay, and the one whose addresses are also verified, if there is one. `limit`: what
/// the allocator may reserve of a given capacity, the rest being in use beside it.
struct ReplayTask {
  std::string file, witness;
  std::optional<Bytes> limit;
};

/// A rank's proposals: at most four settings, best first; none if it can't be read, or its allocator has no settings to
/// search. As text, see read_proposals(). Reuses results in options.out.
std::string propose_settings(const ReplayTask& task, const SettingOptions& options);

/// Replays the recorded setting and `candidates`. As text, see read_replays(). Also reuses results.
std::string replay_settings(const ReplayTask& task, std::span<const std::string> candidates,
                            const SettingOptions& options);

std::vector<std::string> read_proposals(const std::string& text);
/// Sets a problem if the text does not come from replay_settings().
ClassSettings read_replays(const std::string& text);

/// The classes that propose: the heaviest, at most sixteen; indices into Fleet::classes.
std::vector<std::uint32_t> proposing_classes(const Fleet& fleet);

ReplayTask replay_task(const Fleet& fleet, const RankClass& of, const SettingOptions& options);

/// Every distinct proposal, the best of each class first.
std::vector<std::string> union_of(std::span<const std::vector<std::string>> proposals);

/// Judges the replays of all classes, in order.
CommonSetting choose_setting(const Fleet& fleet, std::vector<std::string> candidates,
                             std::vector<ClassSettings> classes);

/// Runs the whole search, each file in a child process.
CommonSetting find_common_setting(const Fleet& fleet, const SettingOptions& options);

}  // namespace memreel
