#include "analyzer/fleet/shard.h"

#include <charconv>

#include "formats/model/launchers.h"

namespace memreel {
namespace {

constexpr std::uint32_t most_shards = 1U << 20U;

std::optional<std::uint32_t> number_in(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Result<Shard> shard_from(const std::string& index, const std::string& count, const char* index_name,
                         const char* count_name) {
  const auto i = number_in(index), n = number_in(count);
  if (i && n && *i < *n && *n <= most_shards) return Shard{.index = *i, .count = *n, .from = index_name};
  return Error{.what = std::string(index_name) + "=" + index + " and " + count_name + "=" + count +
                       " do not name a part such as 0 of 8",
               .remedy = "name the part: --shard 0/8"};
}

/// Slurm numbers an array from SLURM_ARRAY_TASK_MIN.
Result<std::optional<Shard>> array_of(const Environment& environment) {
  const auto id = environment("SLURM_ARRAY_TASK_ID"), count = environment("SLURM_ARRAY_TASK_COUNT");
  if (!id || !count) return std::optional<Shard>{};
  const auto first = number_in(environment("SLURM_ARRAY_TASK_MIN").value_or("0"));
  const auto step = number_in(environment("SLURM_ARRAY_TASK_STEP").value_or("1"));
  const auto at = number_in(*id);
  const bool fine = first && step && at && *step > 0 && *at >= *first;
  Result<Shard> shard = shard_from(fine ? std::to_string((*at - *first) / *step) : *id, *count, "SLURM_ARRAY_TASK_ID",
                                   "SLURM_ARRAY_TASK_COUNT");
  if (!shard) return std::move(shard).error();
  return std::optional(*std::move(shard));
}

/// The shard of a launcher's process, if there are several.
Result<std::optional<Shard>> process_of(const Environment& environment) {
  for (const Launcher& launcher : launchers) {
    if (launcher.world_size == nullptr || !may_have_started(launcher, environment)) continue;
    const auto index = environment(launcher.rank), count = environment(launcher.world_size);
    if (!index || !count) continue;
    Result<Shard> shard = shard_from(*index, *count, launcher.rank, launcher.world_size);
    if (!shard) return std::move(shard).error();
    if (shard->count > 1) return std::optional(*std::move(shard));
  }
  return std::optional<Shard>{};
}

}  // namespace

Result<Shard> parse_shard(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto index = number_in(text.substr(0, slash));
  const auto count = slash == std::string_view::npos ? std::nullopt : number_in(text.substr(slash + 1));
  if (index && count && *index < *count && *count <= most_shards)
    return Shard{.index = *index, .count = *count, .from = "--shard"};
  return Error{.what = "'" + std::string(text) + "' is not a part such as 0/8",
               .where = "--shard",
               .remedy = "0/8 is the first of eight parts, 7/8 the last"};
}

Result<Shard> shard_of(const Environment& environment) {
  const Result<std::optional<Shard>> array = array_of(environment), process = process_of(environment);
  if (!array) return array.error();
  if (!process) return process.error();
  if (*array && *process) {
    const std::uint64_t count = std::uint64_t{(*array)->count} * (*process)->count;
    if (count > most_shards) return Error{.what = "more than a million parts of a job"};
    return Shard{.index = (*array)->index * (*process)->count + (*process)->index,
                 .count = static_cast<std::uint32_t>(count),
                 .from = (*array)->from + ", " + (*process)->from};
  }
  if (*array) return **array;
  if (*process) return **process;
  return Shard{};
}

}  // namespace memreel
