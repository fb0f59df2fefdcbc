// One setting of the allocator for a whole job, proven by replay: ranks of a class make the same requests, so each
// class is replayed once. In two rounds, since a setting that suits one class may not suit another: each of the
// heaviest classes proposes what is best for it, then all classes replay all proposals.
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

/// What one setting does with one rank.
struct SettingOutcome {
  std::string setting;  // as in PYTORCH_CUDA_ALLOC_CONF; of the first, what the rank ran with
  Bytes peak_reserved;
  std::uint64_t failed_allocations = 0;
  std::uint64_t driver_calls = 0;
  double driver_seconds = 0;

  friend bool operator==(const SettingOutcome&, const SettingOutcome&) = default;
};

/// A class's replays: its first rank's, and whether the replay of what was recorded repeats every address of this rank
/// and of one more.
struct ClassSettings {
  std::uint32_t klass = 0;  // of Fleet::classes
  std::uint32_t row = 0;    // that was replayed
  SettingOutcome recorded;
  std::vector<SettingOutcome> outcomes;  // of each candidate, in their order
  std::uint64_t allocations = 0, address_matches = 0;
  std::optional<std::uint32_t> witness;  // the other member, when there is one
  std::uint64_t witness_allocations = 0, witness_matches = 0;
  std::string problem;  // why it could not be replayed; empty: it could
};

struct CommonSetting {
  std::vector<std::string> candidates;
  std::vector<ClassSettings> classes;
  std::optional<std::size_t> best;      // of the candidates; none: what was recorded is as good
  Bytes peak_before, peak_after;        // the most of any class
  Bytes decider_before, decider_after;  // of the deciding rank
  std::vector<std::size_t> worse;       // of `classes`: they reserve more with it
  Bytes peak_per_class;                 // the most when each class had the setting that is best for it
  std::string why;                      // in a sentence
};

struct SettingOptions {
  std::optional<Bytes> capacity;  // of each device; else as recorded
  std::filesystem::path out;      // where replays are kept for the next time; empty: nowhere
  ChildLimits limits;
  unsigned jobs = 0;  // 0: one per core
};

/// A class's files: the one that is replayed, and the one whose addresses are verified as well, if there is one.
struct ReplayTask {
  std::string file, witness;
};

/// What a rank proposes: at most four settings, best first; none when it can't be read, or its allocator has no
/// settings to search. As text, see read_proposals(). What options.out has of it is not done again.
std::string propose_settings(const std::string& file, const SettingOptions& options);

/// Replays what was recorded and `candidates`. As text, see read_replays(). Likewise.
std::string replay_settings(const ReplayTask& task, std::span<const std::string> candidates,
                            const SettingOptions& options);

std::vector<std::string> read_proposals(const std::string& text);
/// A problem where the text is none of replay_settings().
ClassSettings read_replays(const std::string& text);

/// The classes that propose: the heaviest, at most sixteen; rows of Fleet::classes.
std::vector<std::uint32_t> proposing_classes(const Fleet& fleet);

ReplayTask replay_task(const Fleet& fleet, const RankClass& of);

/// Every proposal once, the best of each class first.
std::vector<std::string> union_of(std::span<const std::vector<std::string>> proposals);

/// Judges the replays of all classes, in their order.
CommonSetting choose_setting(const Fleet& fleet, std::vector<std::string> candidates,
                             std::vector<ClassSettings> classes);

/// All of it, each file in a child process.
CommonSetting find_common_setting(const Fleet& fleet, const SettingOptions& options);

}  // namespace memreel
