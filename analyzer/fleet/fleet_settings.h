// SPDX-License-Identifier: Apache-2.0
// One allocator setting for a whole job, proven by replay: ranks of a class make the same requests, so each class is
// replayed once. It takes three rounds, since a setting that suits one class may not suit another: each of the heaviest
// classes proposes its best settings, these classes replay all proposals, and the others those that helped.
#pragma once

#include <span>

#include "analyzer/fleet/fleet.h"
#include "formats/model/result.h"

namespace memreel {

inline constexpr std::size_t most_proposals = 4;  // of a class

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
  std::vector<SettingOutcome> outcomes;  // of each candidate, in order; of the first ones for other than the heaviest
  std::uint64_t allocations = 0, address_matches = 0;
  std::optional<std::uint32_t> witness;  // the other member, if one was verified
  std::uint64_t witness_allocations = 0, witness_matches = 0;
  std::string problem;  // why it was not replayed; empty: it was
  bool spared = false;  // it need not be: see Finals
};

struct CommonSetting {
  std::vector<std::string> candidates;
  std::size_t everywhere = 0;  // the first of them, which were replayed on all classes
  std::vector<ClassSettings> classes;
  std::optional<std::size_t> best;                     // of the candidates; none: the recorded setting is as good
  Bytes peak_before, peak_after;                       // the maximum over classes
  std::optional<Bytes> decider_before, decider_after;  // of the deciding rank; none: it was not replayed
  std::size_t ranks = 0, not_replayed = 0;             // judged ones; those of classes that were not replayed
  std::size_t spared = 0;                              // of the latter: those that need not be
  std::vector<std::size_t> worse;                      // indices into `classes` that reserve more with it
  Bytes peak_per_class;                                // the maximum if each class had its own best setting
  std::string why;                                     // in a sentence
};

/// A rank of the class whose addresses are verified besides those of the replayed one.
std::optional<std::uint32_t> witness_of(const RankClass& of);

/// The classes that propose: the heaviest, at most sixteen, with that of the deciding rank; indices into
/// Fleet::classes.
std::vector<std::uint32_t> proposing_classes(const Fleet& fleet);

/// Every distinct proposal, the best of each class first.
std::vector<std::string> union_of(std::span<const std::vector<std::string>> proposals);

/// What is left to replay once the proposing classes have replayed all candidates.
struct Finals {
  std::vector<std::string> settings;  // for the other classes: those that helped, the best first, at most four
  /// By class. Not replayed: no setting helps the heaviest classes, or this one leaves more of its device than they do
  /// with any finalist, even if it needed twice what it reserves.
  std::vector<bool> spared;
};

/// `replays`: of the proposing classes. If these are all, every candidate is a finalist, in the same order.
Finals finals_of(const Fleet& fleet, std::span<const std::string> candidates, std::span<const std::uint32_t> proposing,
                 std::span<const ClassSettings> replays);

/// Judges the replays of all classes, in order. `everywhere`: the number of candidates replayed on all of them.
CommonSetting choose_setting(const Fleet& fleet, std::vector<std::string> candidates, std::size_t everywhere,
                             std::vector<ClassSettings> classes);

}  // namespace memreel
