// SPDX-License-Identifier: Apache-2.0
#include "analyzer/plan/verify.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <vector>

namespace memreel::plan {
namespace {

struct Use {
  std::uint64_t time = 0;
  bool begins = false;  // ends come first
  std::size_t buffer = 0;

  friend auto operator<=>(const Use&, const Use&) = default;
};

std::vector<Use> uses(std::span<const Buffer> buffers) {
  std::vector<Use> list;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    list.push_back({buffer.lower, true, i});
    for (const TimeRange& gap : buffer.gaps) {
      list.push_back({gap.lower, false, i});
      list.push_back({gap.upper, true, i});
    }
    list.push_back({std::max(buffer.upper, buffer.lower + 1), false, i});
  }
  std::sort(list.begin(), list.end());
  return list;
}

std::string name_of(std::size_t buffer) { return "buffer " + std::to_string(buffer); }

}  // namespace

std::optional<std::string> fault_of(std::span<const Buffer> buffers, std::span<const Bytes> offsets,
                                    const Requirements& requirements) {
  if (offsets.size() != buffers.size())
    return std::to_string(buffers.size()) + " buffers have " + std::to_string(offsets.size()) + " offsets";
  const auto size = [&](std::size_t i) { return std::max(buffers[i].size, 1_B); };
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Bytes align = std::max(requirements.align, buffers[i].align);
    if (offsets[i].count % align.count != 0)
      return name_of(i) + " is at " + std::to_string(offsets[i].count) + ", not aligned to " +
             std::to_string(align.count);
    if (buffers[i].offset && *buffers[i].offset != offsets[i])
      return name_of(i) + " is at " + std::to_string(offsets[i].count) + ", not at " +
             std::to_string(buffers[i].offset->count);
    if (requirements.capacity && (size(i) > *requirements.capacity || offsets[i] > *requirements.capacity - size(i)))
      return name_of(i) + " ends above the capacity";
  }
  std::map<Bytes, std::size_t> in_use;  // by offset
  for (const Use& use : uses(buffers)) {
    const std::size_t i = use.buffer;
    if (!use.begins) {
      in_use.erase(offsets[i]);
      continue;
    }
    const auto above = in_use.lower_bound(offsets[i]);
    if (above != in_use.end() && above->first < offsets[i] + size(i))
      return name_of(i) + " overlaps " + name_of(above->second);
    if (above != in_use.begin()) {
      const std::size_t below = std::prev(above)->second;
      if (offsets[below] + size(below) > offsets[i]) return name_of(i) + " overlaps " + name_of(below);
    }
    in_use.emplace(offsets[i], i);
  }
  return std::nullopt;
}

}  // namespace memreel::plan
