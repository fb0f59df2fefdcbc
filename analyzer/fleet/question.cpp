// SPDX-License-Identifier: Apache-2.0
#include "analyzer/fleet/question.h"

#include <chrono>
#include <utility>

#include "formats/model/quantity.h"

namespace memreel {
namespace {

Result<std::optional<Bytes>> size_of(const std::string& text, const char* option) {
  if (text.empty()) return std::optional<Bytes>{};
  Result<Bytes> size = parse_bytes(text);
  if (size) return std::optional(*size);
  size.error().where = option;
  return std::move(size).error();
}

}  // namespace

Result<FleetQuestion> parse_question(const FleetWords& words) {
  FleetQuestion question;
  question.fleet.world_size = words.world_size;
  question.fleet.job = words.job;
  question.map.heap = question.fleet.heap = words.heap;
  if (!words.mesh.empty()) {
    Result<Mesh> mesh = Mesh::parse(words.mesh);
    if (!mesh) return std::move(mesh).error();
    question.fleet.mesh = *std::move(mesh);
  }
  const Result<std::optional<Bytes>> capacity = size_of(words.capacity, "--capacity");
  if (!capacity) return capacity.error();
  question.fleet.capacity = *capacity;
  if (!words.rank_pattern.empty()) {
    Result<RankPattern> pattern = RankPattern::parse(words.rank_pattern);
    if (!pattern) return std::move(pattern).error();
    question.map.pattern = question.fleet.pattern = *std::move(pattern);
  }
  const Result<std::optional<Bytes>> memory = size_of(words.memory_limit, "--memory-limit");
  if (!memory) return memory.error();
  if (*memory) question.map.limits.memory = **memory;
  const Result<std::optional<Bytes>> of_host = size_of(words.host_memory, "--host-memory");
  if (!of_host) return of_host.error();
  if (*of_host) question.map.limits.of_host = **of_host;
  if (words.time_limit > 0) question.map.limits.time = std::chrono::seconds(words.time_limit);
  return question;
}

}  // namespace memreel
