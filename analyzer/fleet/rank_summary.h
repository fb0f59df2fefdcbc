// SPDX-License-Identifier: Apache-2.0
// The summary of one recording used to judge a job: a few tens of kilobytes, sufficient for everything except replays.
#pragma once

#include <map>
#include <tuple>

#include "analyzer/fleet/identity.h"
#include "analyzer/fleet/request_hash.h"
#include "formats/model/result.h"
#include "formats/model/trace.h"
#include "formats/wire/message.h"

namespace memreel {

/// How far a rank's metrics can be trusted. The numbers are part of the file format.
enum class RankStatus : std::uint8_t {
  ok = 0,
  overflowed = 1,  // events were lost or not understood, or the recording began late
  truncated = 2,   // the file ends before the recording does
  damaged = 3,     // parts of the file can't be read, or all of it
  hostile = 4,     // reading it exceeded the memory or time limit, or crashed
  duplicate = 5,   // another recording of the same rank is judged instead
  missing = 6,     // there is no recording
};

constexpr RankStatus highest(RankStatus) { return RankStatus::missing; }

/// "ok", "overflowed"...
std::string_view name_of(RankStatus status);
/// The same in a sentence: "incomplete", which may have other reasons than a ring that overflowed.
std::string_view words_of(RankStatus status);

struct CodeFrame {
  std::string function, file;
  std::uint32_t line = 0;

  friend bool operator==(const CodeFrame&, const CodeFrame&) = default;
};
template <>
struct wire::MembersOf<CodeFrame> {
  static constexpr std::tuple all{interned(1, &CodeFrame::function), interned(2, &CodeFrame::file),
                                  member(3, &CodeFrame::line)};
};

/// What one call stack holds. Equal code has equal ids on every rank.
struct RankSite {
  std::uint64_t id = 0;
  std::vector<CodeFrame> frames;  // innermost first; native frames only where no others are
  Bytes at_peak, at_end;          // live bytes; at the peak of live bytes
  std::uint64_t count_at_peak = 0;

  friend bool operator==(const RankSite&, const RankSite&) = default;
};
template <>
struct wire::MembersOf<RankSite> {
  static constexpr std::tuple all{fixed(1, &RankSite::id), interned(2, &RankSite::frames),
                                  member(3, &RankSite::at_peak), member(4, &RankSite::at_end),
                                  member(5, &RankSite::count_at_peak)};
};

struct RankLeak {
  std::string verdict;  // "leak", "suspected"
  Bytes bytes;
  std::uint64_t count = 0;
  double growth_bytes_per_step = 0;
  std::uint32_t steps = 0;  // number of steps judged
  std::uint64_t site = 0;
  std::vector<CodeFrame> frames;
  std::optional<std::int32_t> device;  // none in older summaries, which have those of the most used GPU

  friend bool operator==(const RankLeak&, const RankLeak&) = default;
};
template <>
struct wire::MembersOf<RankLeak> {
  static constexpr std::tuple all{member(1, &RankLeak::verdict),  member(2, &RankLeak::bytes),
                                  member(3, &RankLeak::count),    member(4, &RankLeak::growth_bytes_per_step),
                                  member(5, &RankLeak::steps),    fixed(7, &RankLeak::site),
                                  interned(8, &RankLeak::frames), member(9, &RankLeak::device)};
};

/// What a process used of one GPU. Limits apply to a device.
struct RankDevice {
  std::int32_t device = 0;
  Bytes peak_reserved;
  Bytes other, beside;            // see RankSummary
  std::optional<Bytes> capacity;  // likewise

  friend bool operator==(const RankDevice&, const RankDevice&) = default;
};
template <>
struct wire::MembersOf<RankDevice> {
  static constexpr std::tuple all{member(1, &RankDevice::device), member(2, &RankDevice::peak_reserved),
                                  member(3, &RankDevice::other), member(5, &RankDevice::beside),
                                  member(4, &RankDevice::capacity)};
};

struct RankSummary {
  static constexpr std::size_t timeline_columns = 256;
  static constexpr std::size_t most_sites = 100;  // each of the peak and of the end

  // The recording.
  std::string file;            // absolute
  std::string machine;         // whose disk has it (map.h); empty: all machines see the same
  std::uint64_t bytes = 0;     // of the file
  std::uint32_t checksum = 0;  // of the file's bytes
  RankStatus status = RankStatus::ok;
  std::string reason;  // why the status is not ok, or why there is nothing to judge, in a sentence
  std::string heap;    // the only one that is summarized; empty: what the program requested
  Identity identity;
  std::string source, producer;
  std::map<std::string, std::string> settings;  // of the allocator
  std::string policy;                           // that it ran with, all parameters given; empty: unknown
  std::vector<std::string> heaps;               // names of those that hold allocations, in order

  // Its contents.
  std::uint64_t events = 0, allocations = 0, failed_allocations = 0;
  Nanoseconds begin{}, end{};
  std::int32_t device = 0;
  bool has_memory = false;  // false: the recording has no such allocations, and the following members are meaningless
  Bytes peak_live, peak_allocated, peak_reserved, end_live, end_reserved;
  Nanoseconds peak_reserved_time{};    // since begin, to the resolution of the timeline
  Bytes other;                         // the most that the process held outside that heap
  Bytes beside;                        // most in use on the device beside the framework, by anything, as sampled
  std::optional<Bytes> capacity;       // of the device, or a limit implied by recorded failures
  std::optional<Bytes> least_free;     // on the device, as sampled; other processes may also use it
  std::optional<Bytes> first_failure;  // size of the first request that failed
  Nanoseconds first_failure_time{};    // since begin
  std::vector<RankDevice> devices;     // the process's other GPUs; the members above are of the most used one
  std::uint64_t lost_events = 0;

  RequestHash requests;
  std::vector<Bytes> reserved, allocated;  // the maximum in each of timeline_columns stretches of time
  std::vector<RankSite> sites;             // by id
  std::vector<RankLeak> leaks;             // largest first
  std::string leaks_not_judged;            // why some were not, as for LeakReport; empty: all were, or it is older

  friend bool operator==(const RankSummary&, const RankSummary&) = default;

  /// Whether there are metrics to judge.
  bool usable() const {
    return has_memory && (status == RankStatus::ok || status == RankStatus::overflowed ||
                          status == RankStatus::truncated || status == RankStatus::damaged);
  }
  /// Whether the process held memory, if only in other heaps than the one asked for.
  bool held_memory() const { return has_memory || !heaps.empty(); }
  /// Whether parts of the recording are missing.
  bool in_part() const { return status != RankStatus::ok; }
  /// Whether its peaks are only known roughly: frees may be among what was lost.
  bool lacks_frees() const { return lost_events > 0; }
  /// Whether its peaks are only known to be reached.
  bool at_least() const { return in_part() && !lacks_frees(); }
};
template <>
struct wire::MembersOf<RankSummary> {
  static constexpr std::tuple all{verbatim(2, &RankSummary::file),
                                  member(53, &RankSummary::machine),
                                  member(3, &RankSummary::bytes),
                                  fixed(4, &RankSummary::checksum),
                                  member(5, &RankSummary::status),
                                  member(6, &RankSummary::reason),
                                  inlined(&RankSummary::identity),
                                  member(15, &RankSummary::source),
                                  member(16, &RankSummary::producer),
                                  member(17, &RankSummary::settings),
                                  member(18, &RankSummary::policy),
                                  verbatim(54, &RankSummary::heap),
                                  member(55, &RankSummary::heaps),
                                  member(19, &RankSummary::has_memory),
                                  member(20, &RankSummary::events),
                                  member(21, &RankSummary::allocations),
                                  member(22, &RankSummary::failed_allocations),
                                  member(23, &RankSummary::begin),
                                  member(24, &RankSummary::end),
                                  member(25, &RankSummary::device),
                                  member(26, &RankSummary::peak_live),
                                  member(27, &RankSummary::peak_allocated),
                                  member(28, &RankSummary::peak_reserved),
                                  member(29, &RankSummary::end_live),
                                  member(30, &RankSummary::end_reserved),
                                  member(31, &RankSummary::peak_reserved_time),
                                  member(32, &RankSummary::other),
                                  member(51, &RankSummary::beside),
                                  member(33, &RankSummary::capacity),
                                  member(34, &RankSummary::least_free),
                                  member(35, &RankSummary::first_failure),
                                  member(47, &RankSummary::first_failure_time),
                                  member(48, &RankSummary::devices),
                                  member(36, &RankSummary::lost_events),
                                  inlined(&RankSummary::requests),
                                  member(41, &RankSummary::reserved),
                                  member(42, &RankSummary::allocated),
                                  member(45, &RankSummary::sites),
                                  member(46, &RankSummary::leaks),
                                  verbatim(57, &RankSummary::leaks_not_judged)};
};

/// Opens and summarizes one recording. Never fails: an unreadable one gives a summary with the corresponding status.
/// `heap`: only the heaps with this name, as if they had their devices for themselves; empty: what the program
/// requested.
RankSummary summarize(const std::filesystem::path& file, const RankPattern& pattern, Bytes memory_limit = {},
                      const std::string& heap = {});

/// The summary of a recording that could not be read safely.
RankSummary unreadable(const std::filesystem::path& file, const RankPattern& pattern, const std::string& reason);

/// The same for a trace in memory, without file, bytes and checksum.
RankSummary summarize(Trace trace, const std::filesystem::path& file, const RankPattern& pattern,
                      const std::string& heap = {});

// Rank summaries as files: a protobuf message by the lists above, with tables of texts and frames (rank_summary.cpp).

inline constexpr std::string_view rank_file_extension = ".rank";

/// Equal summaries give equal bytes.
std::string encode_rank(const RankSummary& summary);

/// Errors: it is not a rank summary, or one of a newer version. `where`: the name used in errors.
Result<RankSummary> decode_rank(std::string_view bytes, const std::string& where);

}  // namespace memreel
