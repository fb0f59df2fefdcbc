// SPDX-License-Identifier: Apache-2.0
// One result for all ranks of a job: which rank decides whether it fits, which ranks are equal, which stand out, which
// leak.
#pragma once

#include "analyzer/fleet/identity.h"
#include "analyzer/fleet/rank_summary.h"
#include "formats/model/result.h"

namespace memreel {

/// A recording, or a rank without one.
struct FleetRow {
  RankSummary summary;
  std::uint32_t rank = 0;
  bool rank_assumed = false;           // the rank is unknown: it got a free number
  std::optional<std::uint32_t> klass;  // index into Fleet::classes, if judged
  std::optional<std::int64_t>
      headroom;                       // bytes on its tightest GPU, at most that if at_least(); negative: it did not fit
  Bytes beside;                       // what headroom counts as in use beside the framework
  std::int32_t tightest = 0;          // that GPU; the most used one if headroom is unknown
  std::vector<std::uint32_t> shares;  // ranks that use that GPU at the same time

  bool in_part() const { return summary.in_part(); }
  bool at_least() const { return summary.at_least(); }
  /// What stands before its peaks: "at least ", "about ", or nothing.
  std::string_view bound() const { return at_least() ? "at least " : in_part() ? "about " : ""; }
  bool judged() const { return klass.has_value(); }
};

/// Of the GPU on which the rank has least headroom.
struct TightestUse {
  Bytes reserved;                 // at its peak
  std::optional<Bytes> capacity;  // unless unknown
};
TightestUse on_tightest(const FleetRow& row);

/// Ranks that make the same requests.
struct RankClass {
  std::vector<std::uint32_t> rows;  // indices into Fleet::rows, ascending
  Bytes peak_reserved;              // their maximum
  std::uint32_t heaviest = 0;       // the first of these rows with that peak: replayed for all
  /// The class it nearly equals, if it deviates from a larger one.
  std::optional<std::uint32_t> deviates_from;
  double similarity = 0;  // to that class, 0 to 1
};

struct Decision {
  std::uint32_t row = 0;
  std::string why;
  std::vector<std::uint32_t> next;    // the next ten, in the same order
  std::vector<std::uint32_t> failed;  // rows with refused requests, the earliest first
  std::vector<std::uint32_t> near;    // other rows that used 95 % of their device or more
  std::vector<std::uint32_t> unsure;  // other rows that are known in part only: they may need more
  /// The rank that fails first, and why, if any fails or will.
  std::optional<std::uint32_t> fails_first;
  std::string fails_why;
};

struct AxisImbalance {
  std::string axis;
  double max_over_mean = 0;      // between the groups, of the total; 0 to 1
  double share_of_variance = 0;  // between the groups, of all; 0 to 1
  std::vector<Bytes> means;      // of peak reserved, by coordinate
};

/// The imbalance of peak reserved bytes.
struct Imbalance {
  Bytes max, mean, median, p99;
  double max_over_mean = 0;
  std::vector<AxisImbalance> axes;  // of the mesh, if known
};

struct SiteDelta {
  std::vector<CodeFrame> frames;
  Bytes here, there;  // live at the respective peaks
};

/// A rank that differs from nearly equal ones.
struct Outlier {
  std::uint32_t row = 0;
  std::uint32_t neighbour = 0;  // row of the median rank it is compared with
  std::int64_t bytes = 0;       // peak reserved bytes above the median
  std::string why;
  std::vector<SiteDelta> sites;  // largest difference first; at most five
};

struct FleetLeak {
  std::uint32_t row = 0;
  RankLeak leak;
};

/// What a call stack holds over all ranks, each at its peak.
struct FleetSite {
  std::uint64_t id = 0;
  std::vector<CodeFrame> frames;
  Bytes sum, max;
  std::uint32_t max_row = 0;
  std::uint32_t ranks = 0;
};

struct FleetOptions {
  std::optional<std::uint32_t> world_size;
  std::optional<Mesh> mesh;
  std::optional<Bytes> capacity;  // of each device, overriding the recorded one: nobody else uses it
  RankPattern pattern;            // for ranks in names; overrides what recordings state
  std::string job;                // only this one; empty: all
  std::string heap;               // the only one judged, as if it had its device for itself; empty: the program's
};

struct Fleet {
  std::string job;   // of the scheduler, or what its files have in common; empty: the only one
  std::string heap;  // the only one judged; empty: what each program requested
  std::uint32_t world_size = 0;
  std::vector<std::uint32_t> missing;  // ranks without a usable recording
  std::vector<FleetRow> rows;          // by rank; for each rank, the judged one first
  std::vector<std::string> launchers;  // files of processes with neither a rank nor memory
  std::vector<RankClass> classes;      // by their first rank
  std::optional<Decision> decides;     // none: nothing can be judged
  Imbalance imbalance;
  std::vector<Outlier> outliers;
  std::vector<FleetLeak> leaks;       // largest first
  std::vector<FleetSite> sites;       // largest sum first; the largest 100
  std::vector<FleetSite> some_ranks;  // held by only some ranks; the largest 100

  std::size_t judged() const;
  /// Whether those of any rank are.
  bool leaks_are_judged() const;
  /// Whether every rank has a completely read recording.
  bool complete() const;
};

/// One job. `summaries`: in any order; repetitions are harmless. Errors: the world is smaller than a rank, or differs
/// in size from the mesh or from what a recording says.
Result<Fleet> assemble_fleet(std::vector<RankSummary> summaries, const FleetOptions& options);

/// Every job that the recordings are of, that with most ranks first, then the latest. Errors: as above; there is no
/// such job as in the options.
Result<std::vector<Fleet>> assemble_jobs(std::vector<RankSummary> summaries, const FleetOptions& options);

/// Formats ranks as "0-3, 5".
std::string text_of_ranks(const std::vector<std::uint32_t>& ranks);

// The answer about a job in sentences, for everything that shows it.

/// Who ran out of memory, how many ranks are there, which are missing or known in part, how many classes.
std::string headline_of(const Fleet& fleet);

/// "rank 6 (pp 1, node100, GPU 6): least headroom...". Empty: nothing can be judged.
std::string decision_of(const Fleet& fleet);

/// "rank 6 first: out of memory...". Empty: none fails.
std::string first_failure_of(const Fleet& fleet);

/// "leaks of ranks 0-3, not judged: the recording shows no loop of steps", for each reason.
std::vector<std::string> unjudged_leaks_of(const Fleet& fleet);

/// The ranks of rows, ascending.
std::vector<std::uint32_t> ranks_of(const Fleet& fleet, const std::vector<std::uint32_t>& rows);

/// At most `most` bytes, with an ellipsis; characters stay whole.
std::string shortened(std::string text, std::size_t most);

/// "rank 5", "ranks 0-3, 5": their numbers take at most `most` bytes.
std::string ranks_text(const std::vector<std::uint32_t>& ranks, std::size_t most = std::string::npos);

}  // namespace memreel

// The parts of assemble_fleet(), each of which fills in its own members.

namespace memreel {

inline bool ran_at_once(const RankSummary& a, const RankSummary& b) { return a.begin < b.end && b.begin < a.end; }

/// Whether two recordings of one rank are of two processes that held memory at the same time: ranks of two jobs, or
/// workers of one task.
bool are_two_processes(const RankSummary& a, const RankSummary& b);

}  // namespace memreel

namespace memreel::fleet_parts {

/// Rows and their places on the mesh must be set before this is called, classes and headroom before the others.
void find_classes(Fleet& fleet);
void find_decision(Fleet& fleet);
void find_imbalance(Fleet& fleet);
void find_outliers(Fleet& fleet);
void find_leaks_and_sites(Fleet& fleet);

/// A rank's place among those that differ in more than their data: "pp1 tp0". Empty: no mesh.
std::string stage_of(const FleetRow& row);

}  // namespace memreel::fleet_parts
