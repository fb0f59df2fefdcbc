// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/map.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "analyzer/fleet/rank_summary.h"
#include "formats/model/files.h"
#include "formats/model/flat_map.h"
#include "formats/writer/trace_writer.h"

namespace memreel {
namespace {

namespace fs = std::filesystem;

std::string sixteen_digits(std::uint64_t number) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = text.size(); i-- > 0; number >>= 4U) text[i] = digits[number & 0xFU];
  return text;
}

}  // namespace

Result<void> write_whole(const fs::path& file, const std::string& bytes) {
  Result<std::unique_ptr<ByteSink>> sink = atomic_file_sink(file);
  if (!sink) return std::move(sink).error();
  if (Result<void> written = (*sink)->write(std::as_bytes(std::span(bytes))); !written) return written;
  return (*sink)->close();
}

fs::path result_path(const fs::path& out, const fs::path& recording, const std::string& extension) {
  std::uint64_t hash = 0xCBF29CE484222325;
  for (const char c : recording.native()) hash = mix_bits(hash ^ static_cast<unsigned char>(c));
  const std::string name = recording.filename().string();
  return out / (name.substr(0, 100) + "-" + sixteen_digits(hash) + extension);
}

namespace {

namespace fs = std::filesystem;

RankSummary received(const ChildOutcome& outcome, const fs::path& recording, const RankPattern& pattern) {
  if (!outcome.failure.empty()) return unreadable(recording, pattern, outcome.failure);
  Result<RankSummary> summary = decode_rank(outcome.output, recording.string());
  return summary ? *std::move(summary) : unreadable(recording, pattern, summary.error().what);
}

Result<void> make_directory(const fs::path& out) {
  std::error_code problem;
  fs::create_directories(out, problem);
  if (!problem) return {};
  return Error{.what = problem.message(), .where = out.string(), .remedy = "name a directory that can be made: -o OUT"};
}

}  // namespace

fs::path result_path(const fs::path& out, const fs::path& recording) {
  return result_path(out, recording, std::string(rank_file_extension));
}

bool has_result(const fs::path& out, const fs::path& recording) {
  const fs::path result = result_path(out, recording);
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
  // What was read with too little memory or time may be read with more.
  return summary && summary->bytes == size && summary->file == recording.string() &&
         summary->status != RankStatus::hostile;
}

std::string judge_recording(const fs::path& recording, const MapOptions& options) {
  return encode_rank(summarize(recording, options.pattern));
}

Result<void> keep_outcome(const fs::path& recording, const ChildOutcome& outcome, const MapOptions& options) {
  return write_whole(result_path(options.out, recording), encode_rank(received(outcome, recording, options.pattern)));
}

Result<MapOutcome> map_recordings(const std::vector<fs::path>& recordings, const MapOptions& options) {
  if (auto made = make_directory(options.out); !made) return std::move(made).error();
  MapOutcome outcome;
  std::vector<fs::path> todo;
  for (const fs::path& recording : recordings) {
    if (options.resume && has_result(options.out, recording))
      ++outcome.left;
    else
      todo.push_back(recording);
  }
  std::optional<Error> problem;
  in_child_processes(
      todo.size(), options.jobs, options.limits, [&](std::size_t i) { return judge_recording(todo[i], options); },
      [&](std::size_t i, const ChildOutcome& child) {
        if (auto written = keep_outcome(todo[i], child, options); !written && !problem)
          problem = std::move(written).error();
        ++outcome.done;
        if (options.on_progress) options.on_progress(outcome.done, todo.size());
      });
  if (problem) return *std::move(problem);
  return outcome;
}

Result<std::vector<RankSummary>> read_results(const fs::path& out) {
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
  for (const fs::path& file : files) {
    const Result<std::string> bytes = read_whole_file(file);
    if (!bytes) return bytes.error();
    Result<RankSummary> summary = decode_rank(*bytes, file.string());
    if (!summary) return std::move(summary).error();
    summaries.push_back(*std::move(summary));
  }
  return summaries;
}

std::vector<RankSummary> summarize_recordings(const std::vector<fs::path>& recordings, const MapOptions& options) {
  std::vector<RankSummary> summaries(recordings.size());
  std::uint64_t done = 0;
  in_child_processes(
      recordings.size(), options.jobs, options.limits,
      [&](std::size_t i) { return judge_recording(recordings[i], options); },
      [&](std::size_t i, const ChildOutcome& child) {
        summaries[i] = received(child, recordings[i], options.pattern);
        if (options.on_progress) options.on_progress(++done, recordings.size());
      });
  return summaries;
}

}  // namespace memreel
