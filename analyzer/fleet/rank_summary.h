// What is kept of one recording to judge a job: a few ten kilobytes, from which everything but replays follows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/fleet/identity.h"
#include "analyzer/fleet/request_hash.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"

namespace memreel {

/// How far a rank's metrics can be trusted. The numbers are part of the file format (formats/proto/memreel/rank.proto).
enum class RankStatus : std::uint8_t {
  ok = 0,
  overflowed = 1,  // events were lost, or the recording began late
  truncated = 2,   // the file ends before the recording does
  damaged = 3,     // parts of the file can't be read, or all of it
  hostile = 4,     // reading it took more memory or time than it may, or crashed
  duplicate = 5,   // another recording of the same rank is judged instead
  missing = 6,     // there is no recording
};

/// "ok", "overflowed"...
std::string_view name_of(RankStatus status);

struct CodeFrame {
  std::string function, file;
  std::uint32_t line = 0;

  friend bool operator==(const CodeFrame&, const CodeFrame&) = default;
};

/// What one call stack holds. Equal code has equal ids on every rank.
struct RankSite {
  std::uint64_t id = 0;
  std::vector<CodeFrame> frames;  // innermost first; native frames only where no others are
  Bytes at_peak, at_end;          // live bytes; at the peak of live bytes
  std::uint64_t count_at_peak = 0;

  friend bool operator==(const RankSite&, const RankSite&) = default;
};

struct RankLeak {
  std::string verdict;  // "leak", "suspected"
  Bytes bytes;
  std::uint64_t count = 0;
  double growth_bytes_per_step = 0;
  std::uint32_t steps = 0;     // that it was judged over
  bool program_steps = false;  // false: intervals of equally many allocations stand for them
  std::uint64_t site = 0;
  std::vector<CodeFrame> frames;

  friend bool operator==(const RankLeak&, const RankLeak&) = default;
};

struct RankSummary {
  static constexpr std::size_t timeline_columns = 256;
  static constexpr std::size_t most_sites = 100;  // of the peak, and of the end

  // Where from.
  std::string file;            // absolute
  std::uint64_t bytes = 0;     // of the file
  std::uint32_t checksum = 0;  // of the file's bytes
  RankStatus status = RankStatus::ok;
  std::string reason;  // why it is not ok, in a sentence
  Identity identity;
  std::string source, producer;
  std::map<std::string, std::string> settings;  // of the allocator
  std::string policy;                           // that it ran with, in full; empty: not known

  // What happened.
  std::uint64_t events = 0, allocations = 0, failed_allocations = 0;
  Nanoseconds begin{}, end{};
  std::int32_t device = 0;
  bool has_memory = false;  // false: the recording holds no allocations, and what follows means nothing
  Bytes peak_live, peak_allocated, peak_reserved, end_live, end_reserved;
  Nanoseconds peak_reserved_time{};    // since begin, to a column of the timeline
  Bytes other;                         // most that the process had from the driver beside the framework
  std::optional<Bytes> capacity;       // of the device, or a limit that recorded failures imply
  std::optional<Bytes> least_free;     // on the device, as sampled; other processes may use it, too
  std::optional<Bytes> first_failure;  // size of the first request that failed
  std::uint64_t lost_events = 0;

  RequestHash requests;
  std::vector<Bytes> reserved, allocated;  // the most in each of timeline_columns stretches of time
  std::vector<RankSite> sites;             // by id
  std::vector<RankLeak> leaks;             // largest first

  friend bool operator==(const RankSummary&, const RankSummary&) = default;

  /// Whether there are metrics to judge.
  bool usable() const {
    return has_memory && (status == RankStatus::ok || status == RankStatus::overflowed ||
                          status == RankStatus::truncated || status == RankStatus::damaged);
  }
  /// "job 4711, rank 3": two recordings of the same are duplicates.
  std::string key() const;
};

/// Opens and judges one recording. Never fails: what can't be read is a summary with the status that says so.
/// `names`: for recordings that don't know their rank.
RankSummary summarize(const std::filesystem::path& file, const RankNames& names, Bytes memory_limit = {});

/// Of a recording that could not be read without harm.
RankSummary unreadable(const std::filesystem::path& file, const RankNames& names, const std::string& reason);

/// The same for a trace at hand, without file, bytes and checksum.
RankSummary summarize(Trace trace, const std::filesystem::path& file, const RankNames& names);

}  // namespace memreel
