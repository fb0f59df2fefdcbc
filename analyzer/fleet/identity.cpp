#include "analyzer/fleet/identity.h"

#include <re2/re2.h>

#include <charconv>
#include <utility>

#include "analyzer/report/markup.h"
#include "formats/model/launchers.h"

namespace memreel {
namespace {

constexpr std::size_t longest_name = 100;  // of a host or a job, in bytes: lines have no room for more

std::optional<std::uint32_t> number_of(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Names are bytes: file names need not be UTF-8.
RE2::Options name_options() {
  RE2::Options options;
  options.set_encoding(RE2::Options::EncodingLatin1);
  options.set_case_sensitive(false);
  options.set_log_errors(false);
  options.set_max_mem(1 << 20);
  return options;
}

/// The number in the first group of the leftmost match.
std::optional<std::uint32_t> match(const std::string& text, const RE2& pattern) {
  re2::StringPiece group;
  if (!RE2::PartialMatch(text, pattern, &group)) return std::nullopt;
  return number_of({group.data(), group.size()});
}

Error bad_pattern(std::string what, std::string remedy) {
  return {.what = "the pattern " + std::move(what), .where = "--rank-pattern", .remedy = std::move(remedy)};
}

std::string_view value_of(const Variables& environment, const char* name) {
  const auto found = name == nullptr ? environment.end() : environment.find(name);
  return found == environment.end() ? std::string_view{} : found->second;
}

/// memreel's own names: memreel-HOST-PID.reel, memreel-rank3-HOST-PID-dump-1.pickle.
void add_process(const std::filesystem::path& file, Identity& identity) {
  static const RE2 own("^memreel-(?:rank[0-9]+-)?(.+?)-([0-9]{1,7})(?:-dump-[0-9]+)?\\.", name_options());
  std::string host;
  std::uint64_t process = 0;
  if (identity.process != 0 || !RE2::PartialMatch(file.filename().string(), own, &host, &process)) return;
  identity.host = clipped(host, longest_name);
  identity.process = process;
}

/// What the innermost launcher set. One that started a single process says nothing about what that process started.
void add_place(const Variables& environment, Identity& identity) {
  const auto is_set = [&](const char* name) { return environment.contains(name); };
  for (const Launcher& launcher : launchers) {
    if (!may_have_started(launcher, is_set)) continue;
    const auto rank = number_of(value_of(environment, launcher.rank));
    const auto world = number_of(value_of(environment, launcher.world_size));
    if (!rank || *rank >= most_ranks || world == 1U) continue;
    identity.rank = rank;
    if (world && *world > *rank && *world <= most_ranks) identity.world_size = world;
    identity.local_rank = number_of(value_of(environment, launcher.local_rank));
    return;
  }
}

void add_job(const Variables& environment, Identity& identity) {
  const std::string_view array = value_of(environment, "SLURM_ARRAY_JOB_ID");
  identity.job = value_of(environment, "SLURM_JOB_ID");
  if (!array.empty())
    identity.job = std::string(array) + "_" + std::string(value_of(environment, "SLURM_ARRAY_TASK_ID"));
  // torchrun's default is "none".
  if (const auto run = value_of(environment, "TORCHELASTIC_RUN_ID"); identity.job.empty() && run != "none")
    identity.job = run;
  identity.job = clipped(identity.job, longest_name);
  for (const char* const restarts : {"SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT"})
    identity.attempt += number_of(value_of(environment, restarts)).value_or(0);
}

}  // namespace

Result<RankPattern> RankPattern::parse(const std::string& text) {
  if (text.size() > longest)
    return bad_pattern("is longer than " + std::to_string(longest) + " bytes", "use a shorter one");
  auto pattern = std::make_shared<const RE2>(text, name_options());
  if (!pattern->ok())
    return bad_pattern("is not valid: " + pattern->error(), "look-ahead and back references are not supported");
  if (pattern->NumberOfCapturingGroups() == 0)
    return bad_pattern("has no group", "put parentheses around the number: 'worker-([0-9]+)'");
  RankPattern parsed;
  parsed.pattern_ = std::move(pattern);
  return parsed;
}

std::optional<std::uint32_t> RankPattern::rank_of(const std::filesystem::path& file) const {
  return pattern_ ? match(file.string(), *pattern_) : std::nullopt;
}

Identity identify(const Header& header, const std::filesystem::path& file, const RankPattern& pattern) {
  Identity identity{.host = clipped(header.host, longest_name), .process = header.process, .start = header.start};
  add_place(header.environment, identity);
  add_job(header.environment, identity);
  add_process(file, identity);
  identity.visible_devices = clipped(std::string(value_of(header.environment, "CUDA_VISIBLE_DEVICES")), longest_name);
  if (const auto named = pattern.rank_of(file)) {
    if (named != identity.rank) identity.world_size = identity.local_rank = std::nullopt;  // of another numbering
    identity.rank = named;
  }
  identity.coordinates = coordinates_in(file.string());
  return identity;
}

}  // namespace memreel
