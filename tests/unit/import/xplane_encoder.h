// SPDX-License-Identifier: Apache-2.0
// Writes profiles as XLA's profiler does.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace memreel::test {

using ProfileStat = std::pair<std::string, std::variant<std::uint64_t, double, std::string>>;

struct ProfileEvent {
  std::string name;
  std::uint64_t begin_ns = 0, duration_ns = 0;
  std::vector<ProfileStat> stats;
};

struct ProfileLine {
  std::uint64_t id = 0;
  std::string name;
  std::uint64_t start_ns = 0;
  std::vector<ProfileEvent> events;
};

/// Strings are stored by reference, as the profiler does with most.
class PlaneEncoder {
 public:
  explicit PlaneEncoder(std::string name) : name_(std::move(name)) {}

  std::string encode(const std::vector<ProfileLine>& lines, const std::vector<ProfileStat>& stats = {}) {
    std::string plane;
    protozero::pbf_writer writer(plane);
    writer.add_string(2, name_);
    for (const ProfileLine& line : lines) writer.add_message(3, encoded(line));
    std::vector<std::string> plane_stats;
    plane_stats.reserve(stats.size());
    for (const ProfileStat& stat : stats) plane_stats.push_back(encoded(stat));
    for (const auto& [field, names] : {std::pair{4U, &event_names_}, {5U, &stat_names_}})
      for (const auto& [name, id] : *names) writer.add_message(field, entry(id, name));
    for (const std::string& stat : plane_stats) writer.add_message(6, stat);
    return plane;
  }

 private:
  using Names = std::map<std::string, std::uint64_t>;

  static std::uint64_t number(Names& names, const std::string& name) {
    return names.try_emplace(name, names.size() + 1).first->second;
  }

  static std::string entry(std::uint64_t id, const std::string& name) {
    std::string metadata, entry;
    protozero::pbf_writer metadata_writer(metadata), entry_writer(entry);
    metadata_writer.add_uint64(1, id);
    metadata_writer.add_string(2, name);
    entry_writer.add_uint64(1, id);
    entry_writer.add_message(2, metadata);
    return entry;
  }

  std::string encoded(const ProfileLine& line) {
    std::string text;
    protozero::pbf_writer writer(text);
    writer.add_uint64(1, line.id);
    writer.add_string(2, line.name);
    writer.add_uint64(3, line.start_ns);
    for (const ProfileEvent& event : line.events) writer.add_message(4, encoded(event));
    return text;
  }

  std::string encoded(const ProfileEvent& event) {
    std::string text;
    protozero::pbf_writer writer(text);
    writer.add_uint64(1, number(event_names_, event.name));
    writer.add_uint64(2, event.begin_ns * 1000);
    writer.add_uint64(3, event.duration_ns * 1000);
    for (const ProfileStat& stat : event.stats) writer.add_message(4, encoded(stat));
    return text;
  }

  std::string encoded(const ProfileStat& stat) {
    std::string text;
    protozero::pbf_writer writer(text);
    writer.add_uint64(1, number(stat_names_, stat.first));
    if (const auto* count = std::get_if<std::uint64_t>(&stat.second))
      writer.add_uint64(3, *count);
    else if (const auto* real = std::get_if<double>(&stat.second))
      writer.add_double(2, *real);
    else
      writer.add_uint64(7, number(stat_names_, std::get<std::string>(stat.second)));
    return text;
  }

  std::string name_;
  Names event_names_, stat_names_;
};

/// A complete file: the host's plane, and the one with the profile's start time.
inline std::string profile(const std::vector<ProfileLine>& lines, std::uint64_t started_ns = 1'000'000'000) {
  std::string space;
  protozero::pbf_writer writer(space);
  writer.add_message(1, PlaneEncoder("/host:CPU").encode(lines));
  writer.add_message(1, PlaneEncoder("Task Environment").encode({}, {{"profile_start_time", started_ns}}));
  writer.add_string(4, "host");
  return space;
}

/// The events of a BFC allocator limited to `limit` bytes; metrics are given as it would compute them.
class AllocatorProfile {
 public:
  explicit AllocatorProfile(std::string name, std::uint64_t limit = std::uint64_t{16} << 30U)
      : name_(std::move(name)), limit_(limit) {}

  ProfileEvent alloc(std::uint64_t begin_ns, std::uint64_t address, std::uint64_t requested, std::uint64_t allocated,
                     double fragmentation) {
    in_use += allocated;
    return event("MemoryAllocation", begin_ns, address, requested, allocated, fragmentation);
  }
  ProfileEvent free(std::uint64_t begin_ns, std::uint64_t address, std::uint64_t requested, std::uint64_t allocated,
                    double fragmentation) {
    in_use -= allocated;
    return event("MemoryDeallocation", begin_ns, address, requested, allocated, fragmentation);
  }

  std::uint64_t in_use = 0;

 private:
  ProfileEvent event(std::string kind, std::uint64_t begin_ns, std::uint64_t address, std::uint64_t requested,
                     std::uint64_t allocated, double fragmentation) const {
    return {.name = std::move(kind),
            .begin_ns = begin_ns,
            .stats = {{"allocator_name", name_},
                      {"bytes_reserved", std::uint64_t{0}},
                      {"bytes_allocated", in_use},
                      {"bytes_available", limit_ - in_use},
                      {"fragmentation", fragmentation},
                      {"peak_bytes_in_use", in_use},
                      {"requested_bytes", requested},
                      {"allocation_bytes", allocated},
                      {"addr", address}}};
  }

  std::string name_;
  std::uint64_t limit_;
};

}  // namespace memreel::test
