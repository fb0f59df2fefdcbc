// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/failure.h"

#include <algorithm>

namespace memreel::explain {
namespace {

constexpr std::array<KindText, 15> kind_texts{{
    {Kind::lack, "lack", "lack of memory"},
    {Kind::fragmentation, "fragmentation", "fragmentation"},
    {Kind::larger_than_device, "larger_than_device", "larger than the device"},
    {Kind::other_process, "other_process", "memory held outside this program's allocator"},
    {Kind::own_limit, "own_limit", "the program's own limit"},
    {Kind::private_pool, "private_pool", "memory cached in a private pool"},
    {Kind::refused_though_free, "refused_though_free", "refused although free"},
    {Kind::engine_budget, "engine_budget", "the engine's own budget"},
    {Kind::host_memory, "host_memory", "host memory, not the GPU's"},
    {Kind::not_device_memory, "not_device_memory", "on-chip memory, not the GPU's main memory"},
    {Kind::nonsense_size, "nonsense_size", "a size that no machine has"},
    {Kind::warning, "warning", "only a warning"},
    {Kind::contradictory, "contradictory", "figures that contradict each other"},
    {Kind::figures_missing, "figures_missing", "not decided: figures are missing"},
    {Kind::no_figures, "no_figures", "not decided: the text has no figures"},
}};

constexpr std::array<std::string_view, field_count> field_names{
    "requested",   "needed",    "capacity", "free",      "live",   "cached", "pools",
    "reserved",    "in_use",    "others",   "limit",     "used",   "budget", "weights",
    "activations", "non_torch", "kv_cache", "kv_needed", "device", "length", "fitting"};

}  // namespace

const KindText& text_of(Kind kind) { return *std::ranges::find(kind_texts, kind, &KindText::kind); }

std::vector<KindText> all_kinds() { return {kind_texts.begin(), kind_texts.end()}; }

std::string_view name_of(Field field) { return field_names[static_cast<std::size_t>(field)]; }

std::optional<Field> field_named(std::string_view name) {
  const auto found = std::ranges::find(field_names, name);
  if (found == field_names.end()) return std::nullopt;
  return static_cast<Field>(found - field_names.begin());
}

bool Figures::empty() const {
  return std::ranges::none_of(values_, [](const auto& value) { return value.has_value(); });
}

}  // namespace memreel::explain
