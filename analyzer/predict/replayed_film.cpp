#include "analyzer/predict/replayed_film.h"

#include <array>
#include <utility>

namespace memreel {

ReplayedFilm::ReplayedFilm(const Model& model, std::span<const std::uint64_t> at)
    : model_(model),
      at_(at.begin(), at.end()),
      factor_(model.factor(at)),
      film_(synthesize(model, at)),
      heaps_(prepare(film_.trace)) {
  std::erase_if(heaps_, [&](const Prepared& heap) { return heap.heap != film_.heap; });
}

ReplayResult ReplayedFilm::replay(const PolicySpec& policy, const DeviceModel& device, const Assumption& assumption) {
  if (heaps_.empty()) return {};
  Prepared& heap = heaps_.front();
  std::vector<Bytes> sizes;
  sizes.reserve(film_.sources.size());
  for (const Film::Source& source : film_.sources)
    sizes.push_back(model_.size_of(source.row, source.copy, at_, factor_, assumption));
  for (std::size_t row = 0; row < heap.count(); ++row) {
    const AllocationId allocation = film_.trace.events.allocation[heap.event[row]];
    if (allocation != AllocationId::none) heap.size[row] = sizes[index(allocation)];
  }
  const std::array specs{policy};
  Result<std::vector<ReplayResult>> results =
      memreel::replay(heaps_, specs, {.device = device, .series_points = 1, .threads = 1});
  return results && !results->empty() ? std::move(results->front()) : ReplayResult{};
}

}  // namespace memreel
