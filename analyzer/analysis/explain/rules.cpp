// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/explain/failure.h"

#include <algorithm>
#include <cmath>

#include "formats/model/quantity.h"

namespace memreel::explain {
namespace {

constexpr std::uint64_t one_gib = std::uint64_t{1} << 30U;

/// No machine has a pebibyte of device memory: a size beyond that was computed wrongly.
constexpr std::uint64_t nonsense = std::uint64_t{1} << 50U;
/// Without the capacity: what all but a few cards lack. A request above it is larger than an A100 or H100.
constexpr std::uint64_t larger_than_most_cards = 80 * one_gib;
/// Below this share of what is reserved, unused memory is what any allocator needs for rounding and unsplit remainders:
/// calling 1 % fragmentation would send people after a setting that can't help.
constexpr double least_cached_share = 0.05;
/// A context with its libraries takes up to about half a GiB, a desktop more; only beyond both it is somebody else.
constexpr double least_others_share = 0.2;
/// Figures that are equal may differ by this factor as they are printed.
constexpr double rounding = 1.01;
constexpr std::uint64_t least_others = one_gib;

double ratio(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}
std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return a - std::min(a, b); }

void conclude(Failure& failure, Kind kind, std::string because) {
  failure.kind = kind;
  failure.because = std::move(because);
}

/// Figures are rounded to two decimals.
bool is_enough(std::uint64_t free, std::uint64_t needed) { return free >= needed + needed / 200; }

void add_derived(Figures& figures) {
  if (!figures[Field::needed]) figures[Field::needed] = figures[Field::requested];
  if (figures[Field::used] && figures[Field::capacity] && !figures[Field::free])
    figures[Field::free] = minus(*figures[Field::capacity], *figures[Field::used]);
  const std::uint64_t pools = figures[Field::pools].value_or(0);
  if (!figures[Field::reserved] && figures[Field::live] && figures[Field::cached])
    figures[Field::reserved] = *figures[Field::live] + *figures[Field::cached] + pools;
  if (!figures[Field::cached] && figures[Field::live] && figures[Field::reserved])
    figures[Field::cached] = minus(*figures[Field::reserved], *figures[Field::live]);
  const auto held = figures[Field::in_use]     ? figures[Field::in_use]
                    : figures[Field::reserved] ? figures[Field::reserved]
                                               : figures[Field::live];
  // Listed processes need not be all of them: what is neither free nor this process's is others'.
  if (figures[Field::capacity] && figures[Field::free] && held)
    figures[Field::others] = std::max(figures[Field::others].value_or(0),
                                      minus(minus(*figures[Field::capacity], *figures[Field::free]), *held));
}

bool contradicts_itself(Failure& failure) {
  const Figures& figures = failure.figures;
  const auto capacity = figures[Field::capacity];
  for (const Field field : {Field::free, Field::live, Field::cached, Field::reserved, Field::capacity, Field::in_use})
    if (figures[field].value_or(0) >= nonsense) {
      conclude(failure, Kind::contradictory,
               "no machine has " + in_words(*figures[field]) + " of " + std::string(name_of(field)) + " memory");
      return true;
    }
  if (!capacity) return false;
  if (figures[Field::free] && ratio(*figures[Field::free], *capacity) > rounding) {
    conclude(failure, Kind::contradictory,
             in_words(*figures[Field::free]) + " free of " + in_words(*capacity) + ": the driver's figures disagree");
    return true;
  }
  const std::uint64_t reserved = figures[Field::reserved].value_or(figures[Field::live].value_or(0));
  if (ratio(reserved, *capacity) <= rounding && ratio(reserved + figures[Field::free].value_or(0), *capacity) > 1.05) {
    conclude(failure, Kind::contradictory,
             in_words(reserved) + " held and " + in_words(figures[Field::free].value_or(0)) + " free of " +
                 in_words(*capacity));
    return true;
  }
  return false;
}

/// A limit of the program itself that binds before the device does.
bool is_own_limit(Failure& failure) {
  const Figures& figures = failure.figures;
  const auto needed = figures[Field::needed], limit = figures[Field::limit], capacity = figures[Field::capacity];
  const auto held = figures[Field::reserved] ? figures[Field::reserved] : figures[Field::live];
  if (!needed) return false;
  if (limit && *limit < nonsense && !(capacity && *limit >= *capacity)) {
    const std::uint64_t left = minus(*limit, held.value_or(0));
    if (left < *needed + *needed / 100 && left <= figures[Field::free].value_or(left)) {
      conclude(failure, Kind::own_limit,
               "the program may take " + in_words(*limit) + (held ? " and holds " + in_words(*held) : "") +
                   (figures[Field::free] ? "; the device had " + in_words(*figures[Field::free]) + " free" : ""));
      failure.shortfall = minus(*needed, left);
      return true;
    }
  }
  // Releases that don't print it: a fraction is nearly always a multiple of 5 %.
  if (!limit && capacity && held && figures[Field::free] && is_enough(*figures[Field::free], *needed) &&
      *figures[Field::free] > *capacity / 20) {
    const double step = 0.05 * static_cast<double>(*capacity);
    const double below = std::floor(static_cast<double>(*held + *needed) / step) * step;
    // A large request exceeds some multiple of 5 % by chance.
    if (static_cast<double>(*held) <= below && below >= step && static_cast<double>(*needed) < step / 4) {
      conclude(failure, Kind::own_limit,
               "the device had enough, but what is held and the request exceed " +
                   text_of_share(below / static_cast<double>(*capacity)) + " of it: a memory fraction, it seems");
      failure.shortfall = *held + *needed - static_cast<std::uint64_t>(below);
      return true;
    }
  }
  return false;
}

/// Who holds what is not live: the larger part decides if several would do.
void judge_what_is_missing(Failure& failure) {
  Figures& figures = failure.figures;
  const std::uint64_t needed = *figures[Field::needed], free = *figures[Field::free];
  const std::uint64_t cached = figures[Field::cached].value_or(0), others = figures[Field::others].value_or(0);
  const std::uint64_t pools = figures[Field::pools].value_or(0);
  const auto capacity = figures[Field::capacity], reserved = figures[Field::reserved];
  if (capacity && reserved && ratio(*reserved, *capacity) > rounding)
    return conclude(failure, Kind::lack,
                    in_words(*reserved) + " are reserved on a device of " + in_words(*capacity) +
                        ": the driver has already moved memory to the host");
  const bool pools_would_do = pools > 0 && free + cached < needed && free + cached + pools >= needed;
  if (pools_would_do)
    return conclude(failure, Kind::private_pool,
                    in_words(pools) + " that the text counts as allocated are cached in private pools");
  const bool cache_would_do =
      free + cached >= needed && cached > 0 && (!reserved || ratio(cached, *reserved) >= least_cached_share);
  // By this process too: another framework, libraries that allocate for themselves, a pool beside the allocator's.
  const std::uint64_t beside = figures[Field::in_use] && reserved ? minus(*figures[Field::in_use], *reserved) : 0;
  const std::uint64_t outside = others + beside;
  const bool is_much = capacity && outside >= least_others && ratio(outside, *capacity) >= least_others_share;
  const bool outside_would_do = is_much && free + outside >= needed;
  if (cache_would_do && (!outside_would_do || cached >= outside))
    return conclude(
        failure, Kind::fragmentation,
        in_words(free + cached) + " are free or cached for a need of " + in_words(needed) + ", but in pieces");
  if (outside_would_do || (is_much && ratio(outside, *capacity) >= 0.5))
    return conclude(failure, Kind::other_process,
                    in_words(outside) + " of " + in_words(*capacity) + " are held outside this program's allocator" +
                        (beside > others ? ", by this process itself" : ""));
  failure.shortfall = free + cached >= needed ? needed - std::min(free, needed) : needed - free - cached;
  const bool all_live = figures[Field::live] && reserved && ratio(cached, *reserved) < 0.01;
  conclude(failure, Kind::lack,
           free + cached >= needed ? "only " + in_words(cached) + " are cached, in pieces: next to nothing is wasted"
           : all_live              ? "all that is reserved is live: no allocator setting can help"
           : figures[Field::cached]
               ? "short by " + in_words(*failure.shortfall) + " even if all that is cached came back"
               : "short by " + in_words(*failure.shortfall) +
                     "; how much of what is held is only cached, the text does not say");
}

}  // namespace

std::string in_words(std::uint64_t bytes) { return memreel::text_of(Bytes{bytes}); }

void judge_by_figures(Failure& failure) {
  Figures& figures = failure.figures;
  add_derived(figures);
  const auto requested = figures[Field::requested], capacity = figures[Field::capacity];
  if (!requested) {
    // A state without the request: an allocator that is nearly empty was asked for more than it may ever have.
    if (capacity && figures[Field::live] && ratio(*figures[Field::live], *capacity) < 0.02)
      return conclude(failure, Kind::larger_than_device,
                      in_words(*figures[Field::live]) + " of " + in_words(*capacity) +
                          " are in use: the request, which the text lacks, was larger than the rest");
    return conclude(failure, figures.empty() ? Kind::no_figures : Kind::figures_missing,
                    "the text does not say what was requested");
  }
  if (*requested >= nonsense) return conclude(failure, Kind::nonsense_size, in_words(*requested) + " were requested");
  const bool is_known = capacity && *capacity > 0 && *capacity < nonsense &&
                        ratio(figures[Field::free].value_or(0), *capacity) <= rounding;
  if (is_known && *requested > *capacity) {
    failure.shortfall = *requested - *capacity;
    const double times = ratio(*requested, *capacity);
    return conclude(failure, Kind::larger_than_device,
                    times < 1.05 ? "one request is larger than the whole device"
                                 : "one request is " + memreel::text_of(times, 1) + " times the whole device");
  }
  if (!capacity && !figures[Field::limit] && *requested > larger_than_most_cards)
    return conclude(failure, Kind::larger_than_device,
                    "one request of " + in_words(*requested) + " is larger than an 80 GB card");
  if (contradicts_itself(failure) || is_own_limit(failure)) return;
  if (!figures[Field::free] && !figures[Field::reserved] && capacity &&
      ratio(figures[Field::live].value_or(0), *capacity) >= 0.9)
    return conclude(failure, Kind::lack, in_words(*figures[Field::live]) + " of " + in_words(*capacity) + " are live");
  if (!figures[Field::free] && figures[Field::reserved] && capacity)
    figures[Field::free] = minus(*capacity, *figures[Field::reserved]);
  if (!figures[Field::free]) {
    return conclude(failure, Kind::figures_missing,
                    figures[Field::reserved] || figures[Field::live]
                        ? "the text says what the program held, but not what the device has"
                        : "the text says what was requested, and nothing else");
  }
  if (is_enough(*figures[Field::free], *figures[Field::needed]))
    return conclude(failure, Kind::refused_though_free,
                    in_words(*figures[Field::free]) + " were free for a need of " + in_words(*figures[Field::needed]));
  judge_what_is_missing(failure);
}

void judge_as_the_hosts(Failure& failure) {
  const auto requested = failure.figures[Field::requested];
  failure.kind = requested.value_or(0) >= nonsense ? Kind::nonsense_size : Kind::host_memory;
  failure.because =
      requested ? in_words(*requested) + " of the host's memory were requested" : "the host's memory ran out";
}

}  // namespace memreel::explain
