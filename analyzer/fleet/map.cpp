// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/map.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <map>
#include <memory>
#include <sstream>
#include <system_error>

#include "analyzer/fleet/inputs.h"
#include "formats/model/files.h"
#include "formats/model/flat_map.h"
#include "formats/model/quantity.h"
#include "formats/writer/trace_writer.h"

namespace memreel {

namespace fs = std::filesystem;

fs::path result_path(const fs::path& out, const fs::path& recording, const std::string& machine,
                     const std::string& extension) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char c : recording.native() + '\0' + machine) hash = mix_bits(hash ^ static_cast<unsigned char>(c));
  const std::string name = recording.filename().string();
  return out / (name.substr(0, 100) + "-" + hex_of(hash) + extension);
}

namespace {

namespace fs = std::filesystem;

RankSummary received(const ChildOutcome& outcome, const fs::path& recording, const MapOptions& options) {
  const auto without = [&](const std::string& reason) {
    RankSummary summary = unreadable(recording, options.pattern, reason);
    summary.heap = options.heap;
    return summary;
  };
  if (!outcome.failure.empty()) return without(outcome.failure);
  Result<RankSummary> summary = decode_rank(outcome.output, recording.string());
  return summary ? *std::move(summary) : without(summary.error().what);
}

Result<void> make_directory(const fs::path& out) {
  std::error_code problem;
  fs::create_directories(out, problem);
  if (!problem) return {};
  return Error{.what = problem.message(), .where = out.string(), .remedy = "name a directory that can be made: -o OUT"};
}

}  // namespace

fs::path result_path(const fs::path& out, const fs::path& recording) {
  return result_path(out, recording, machine_of(recording), std::string(rank_file_extension));
}

bool has_result(const fs::path& recording, const MapOptions& options) {
  const fs::path result = result_path(options.out, recording);
  std::error_code problem;
  const auto size = fs::file_size(recording, problem);
  if (problem) return false;
  const auto changed = fs::last_write_time(recording, problem);
  if (problem) return false;
  const auto made = fs::last_write_time(result, problem);
  if (problem || made < changed) return false;
  const Result<std::string> bytes = read_whole_file(result);
  if (!bytes) return false;
  const Result<RankSummary> summary = decode_rank(*bytes, result.string());
  const auto named = options.pattern.rank_of(recording);
  if (!summary || summary->heap != options.heap ||
      (options.pattern.is_given() && named && named != summary->identity.rank))
    return false;
  // What was read with too little memory or time may be read with more; what could not be opened has no size.
  return summary->bytes == size && summary->file == recording.string() && summary->status != RankStatus::hostile;
}

std::string judge_recording(const fs::path& recording, const MapOptions& options) {
  return encode_rank(summarize(recording, options.pattern, {}, options.heap));
}

Result<void> keep_outcome(const fs::path& recording, const ChildOutcome& outcome, const MapOptions& options) {
  return write_whole(result_path(options.out, recording), encode_rank(received(outcome, recording, options)));
}

Result<MapOutcome> map_recordings(const std::vector<fs::path>& recordings, const MapOptions& options) {
  if (auto made = make_directory(options.out); !made) return std::move(made).error();
  std::vector<fs::path> all = recordings;
  all.insert(all.end(), options.of_others.begin(), options.of_others.end());
  const bool shares = !options.of_others.empty();
  const auto began = fs::file_time_type::clock::now();
  MapOutcome outcome;
  std::optional<Error> problem;
  std::map<std::size_t, Claim> claims;
  ChildPool pool(
      options.limits, [&](std::size_t i) { return judge_recording(all[i], options); },
      [&](std::size_t i, const ChildOutcome& child) {
        if (auto written = keep_outcome(all[i], child, options); !written && !problem)
          problem = std::move(written).error();
        claims.erase(i);
        ++outcome.done;
        if (i >= recordings.size()) ++outcome.of_others;
        if (options.on_progress) options.on_progress(outcome.done, recordings.size());
      },
      [&](std::size_t i) { return file_bytes(all[i]); });
  const auto is_new = [&](std::size_t i) {
    std::error_code failed;
    return fs::last_write_time(result_path(options.out, all[i]), failed) >= began && !failed;
  };
  /// Whether it is left to this process.
  const auto take = [&](std::size_t i) {
    const bool is_own = i < recordings.size();
    if ((options.resume || !is_own) && has_result(all[i], options)) {
      if (is_own) ++outcome.left;
      return false;
    }
    if (!shares) return true;
    std::optional<Claim> claim = Claim::take(result_path(options.out, all[i]) += ".claim", options.limits.time);
    if (!claim) return false;
    if (has_result(all[i], options) && (!is_own || is_new(i))) return false;  // by now
    claims.emplace(i, *std::move(claim));
    return true;
  };
  const unsigned jobs = options.jobs > 0 ? options.jobs : readers_at_once();
  for (std::size_t next = 0; next < all.size() || pool.size() > 0;) {
    for (; next < all.size() && pool.size() < jobs; ++next)
      if (take(next)) pool.start(next);
    if (pool.size() > 0) pool.wait(std::chrono::minutes(1));
  }
  if (problem) return *std::move(problem);
  return outcome;
}

namespace {

/// "the heap 'main'", "all heaps".
std::string text_of_heap(const std::string& heap) { return heap.empty() ? "all heaps" : "the heap '" + heap + "'"; }

Error of_another_heap(const std::string& made_of, const std::string& asked, const fs::path& result) {
  const std::string as_made = made_of.empty() ? "leave out --heap" : "give --heap " + made_of;
  return {.what = "was made of " + text_of_heap(made_of) + ", not of " + text_of_heap(asked),
          .where = result.string(),
          .remedy = as_made + ", or make it again with memreel fleet map" + (asked.empty() ? "" : " --heap " + asked)};
}

}  // namespace

Result<std::vector<RankSummary>> read_results(const fs::path& out, const std::string& heap) {
  std::error_code problem;
  std::vector<fs::path> files;
  for (auto at = fs::directory_iterator(out, problem); !problem && at != fs::directory_iterator();
       at.increment(problem))
    if (at->path().extension() == rank_file_extension) files.push_back(at->path());
  if (problem) return Error{.what = problem.message(), .where = out.string()};
  if (files.empty())
    return Error{.what = "holds no results",
                 .where = out.string(),
                 .remedy = "make them with memreel fleet map -o " + out.string() + " FILES"};
  std::ranges::sort(files);
  std::vector<RankSummary> summaries;
  summaries.reserve(files.size());
  for (const fs::path& file : files) {
    const Result<std::string> bytes = read_whole_file(file);
    if (!bytes) return bytes.error();
    Result<RankSummary> summary = decode_rank(*bytes, file.string());
    if (!summary) return std::move(summary).error();
    if (summary->heap != heap) return of_another_heap(summary->heap, heap, file);
    summaries.push_back(*std::move(summary));
  }
  return summaries;
}

std::vector<fs::path> deleted_recordings(std::span<const RankSummary> results) {
  std::vector<fs::path> deleted;
  for (const RankSummary& result : results) {
    const fs::path file(result.file);
    std::error_code problem;
    if (!fs::is_directory(file.parent_path(), problem) || fs::exists(fs::symlink_status(file, problem))) continue;
    if (result.machine.empty() || result.machine == machine_of(file.parent_path())) deleted.push_back(file);
  }
  return deleted;
}

std::vector<RankSummary> summarize_recordings(const std::vector<fs::path>& recordings, const MapOptions& options) {
  std::vector<RankSummary> summaries(recordings.size());
  std::uint64_t done = 0;
  in_child_processes(
      recordings.size(), options.jobs, options.limits,
      [&](std::size_t i) { return judge_recording(recordings[i], options); },
      [&](std::size_t i, const ChildOutcome& child) {
        summaries[i] = received(child, recordings[i], options);
        if (options.on_progress) options.on_progress(++done, recordings.size());
      },
      [&](std::size_t i) { return file_bytes(recordings[i]); });
  return summaries;
}

namespace {

namespace fs = std::filesystem;

std::string this_machine() {
  // Differs between machines with equal names, and not between the containers of one.
  const auto boot = read_whole_file("/proc/sys/kernel/random/boot_id");
  if (boot && !boot->empty()) return boot->substr(0, boot->find('\n'));
  std::string name(256, '\0');
  if (::gethostname(name.data(), name.size() - 1) != 0) return "?";
  return name.substr(0, name.find('\0'));
}

bool is_abandoned(const fs::path& claim, std::chrono::seconds patience) {
  struct stat status {};
  if (::stat(claim.c_str(), &status) != 0) return true;  // just done
  constexpr std::int64_t for_clocks_that_differ = 60;
  if (::time(nullptr) - status.st_mtime > patience.count() + for_clocks_that_differ) return true;
  const auto text = read_whole_file(claim);
  if (!text) return false;
  std::istringstream fields(*text);
  pid_t process = 0;
  std::string names, machine, own_names;
  // A process's number is known only among those that see the same numbers.
  std::error_code problem;
  own_names = fs::read_symlink("/proc/self/ns/pid", problem).string();
  return fields >> process >> names >> machine && machine == this_machine() && names == own_names &&
         ::kill(process, 0) != 0 && errno == ESRCH;
}

/// Makes the file, with its owner's name in it. Sets errno if it can't: EEXIST if another process has.
bool make_claim(const fs::path& file) {
  std::error_code problem;
  const std::string owner = std::to_string(::getpid()) + " " + fs::read_symlink("/proc/self/ns/pid", problem).string() +
                            " " + this_machine() + "\n";
  // Where the file system can, others see the file only with the name: a process may be killed at any time.
  const fs::path folder = file.has_parent_path() ? file.parent_path() : ".";
  if (const int unnamed = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644); unnamed >= 0) {
    const bool written = ::write(unnamed, owner.data(), owner.size()) == static_cast<ssize_t>(owner.size());
    const std::string path = "/proc/self/fd/" + std::to_string(unnamed);
    const bool linked = written && ::linkat(AT_FDCWD, path.c_str(), AT_FDCWD, file.c_str(), AT_SYMLINK_FOLLOW) == 0;
    const int error = errno;
    ::close(unnamed);
    errno = error;
    if (linked || (written && error == EEXIST)) return linked;
  }
  const int opened = ::open(file.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (opened < 0) return false;
  // Without its owner's name, it is abandoned once it is old.
  [[maybe_unused]] const ssize_t written = ::write(opened, owner.data(), owner.size());
  ::close(opened);
  return true;
}

}  // namespace

bool is_network_file_system(std::uint64_t type) {
  // linux/magic.h, and the sources of those that are not part of Linux.
  constexpr std::array<std::uint64_t, 14> of_networks{
      0x6969,                              // NFS
      0x517B,     0xFF534D42, 0xFE534D42,  // SMB
      0x5346414F, 0x6B414653,              // AFS
      0x0BD00BD0,                          // Lustre
      0x47504653,                          // GPFS, Spectrum Scale
      0x00C36400,                          // Ceph
      0x19830326,                          // BeeGFS
      0x01021997,                          // 9P
      0x01161970,                          // GFS2
      0x7461636F,                          // OCFS2
      0xAAD7AAEA,                          // PanFS
  };
  return std::ranges::find(of_networks, type & 0xFFFFFFFF) != of_networks.end();
}

std::string machine_of(const fs::path& file) {
  struct statfs status {};
  if (::statfs(file.c_str(), &status) == 0 && is_network_file_system(static_cast<std::uint64_t>(status.f_type)))
    return {};
  static const std::string machine = this_machine();
  return machine;
}

std::optional<Claim> Claim::take(const fs::path& file, std::chrono::seconds patience) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (make_claim(file)) return Claim(file);
    if (errno != EEXIST) return Claim({});
    if (!is_abandoned(file, patience)) return std::nullopt;
    ::unlink(file.c_str());
  }
  return std::nullopt;
}

Claim::~Claim() {
  if (!file_.empty()) ::unlink(file_.c_str());
}

}  // namespace memreel
