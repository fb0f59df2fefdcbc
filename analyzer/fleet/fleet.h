// One answer for all ranks of a job: who decides whether it fits, which ranks do the same, who stands out, who leaks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/fleet/mesh.h"
#include "analyzer/fleet/rank_summary.h"
#include "formats/model/result.h"

namespace memreel {

/// A recording, or a rank that has none.
struct FleetRow {
  RankSummary summary;
  std::uint32_t rank = 0;
  bool rank_assumed = false;             // nothing says which rank it is: it got a free number
  std::optional<std::uint32_t> klass;    // row of Fleet::classes, of those that are judged
  std::optional<std::int64_t> headroom;  // bytes; negative: it did not fit

  bool judged() const { return klass.has_value(); }
};

/// Ranks that make the same requests.
struct RankClass {
  std::vector<std::uint32_t> rows;  // of Fleet::rows, ascending
  Bytes peak_reserved;              // the most of them
  /// The class that it does nearly the same as, where it is a deviation from a larger one.
  std::optional<std::uint32_t> deviates_from;
  double similarity = 0;  // to that, 0 to 1
};

struct Decision {
  std::uint32_t row = 0;
  std::string why;
  std::vector<std::uint32_t> next;  // the next ten, in the same order
  /// Which fails first, and of what, where one fails or will.
  std::optional<std::uint32_t> fails_first;
  std::string fails_why;
};

struct AxisImbalance {
  std::string axis;
  double max_over_mean = 0;      // of the groups' means
  double share_of_variance = 0;  // between the groups, of all; 0 to 1
  std::vector<Bytes> means;      // of peak reserved, by coordinate
};

/// Of peak reserved bytes.
struct Imbalance {
  Bytes max, mean, median, p99;
  double max_over_mean = 0;
  std::vector<AxisImbalance> axes;  // of the mesh, when it is known
};

struct SiteDelta {
  std::vector<CodeFrame> frames;
  Bytes here, there;  // live at each one's peak
};

/// A rank that differs from those that do nearly the same.
struct Outlier {
  std::uint32_t row = 0;
  std::uint32_t neighbour = 0;  // row of the median rank that it is compared with
  std::int64_t bytes = 0;       // of peak reserved, more than the median
  std::string why;
  std::vector<SiteDelta> sites;  // most different first; at most five
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
  std::optional<Bytes> capacity;  // of each device, instead of the recorded one
};

struct Fleet {
  std::uint32_t world_size = 0;
  std::vector<std::uint32_t> missing;  // ranks without a recording that can be judged
  std::vector<FleetRow> rows;          // by rank; of one rank, the one that is judged first
  std::vector<std::string> launchers;  // files of processes that have neither a rank nor memory
  std::vector<RankClass> classes;      // by their first rank
  std::optional<Decision> decides;     // none: nothing can be judged
  Imbalance imbalance;
  std::vector<Outlier> outliers;
  std::vector<FleetLeak> leaks;       // largest first
  std::vector<FleetSite> sites;       // largest sum first; the largest 100
  std::vector<FleetSite> some_ranks;  // what only some ranks hold; the largest 100

  std::size_t judged() const;
  /// Whether every rank has a recording that was read whole.
  bool complete() const;
};

/// `summaries`: in any order, repetitions do no harm. Errors: the world is smaller than a rank, or not as large as the
/// mesh.
Result<Fleet> assemble_fleet(std::vector<RankSummary> summaries, const FleetOptions& options);

/// "0-3, 5": ranks as people write them.
std::string text_of_ranks(const std::vector<std::uint32_t>& ranks);

}  // namespace memreel
