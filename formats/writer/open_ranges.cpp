#include "formats/writer/open_ranges.h"

#include <algorithm>

namespace memreel {

void OpenRanges::see(const Event& mark, const Tables& tables) {
  const Mark& what = tables[MarkId{static_cast<std::uint32_t>(mark.value)}];
  if (what.phase == MarkPhase::instant) return;
  const std::size_t thread = index(tables[mark.origin].thread);
  if (thread >= by_thread_.size()) by_thread_.resize(thread + 1);
  std::vector<Range>& open = by_thread_[thread];
  if (what.phase == MarkPhase::end) {
    const auto begun = std::find_if(open.rbegin(), open.rend(), [&](const Range& it) { return it.name == what.name; });
    if (begun == open.rend()) return;
    open.erase(std::next(begun).base());
    --count_;
    return;
  }
  if (open.size() == deepest) {  // some never end
    open.erase(open.begin());
    --count_;
  }
  if (count_ == most) return;
  open.push_back({.name = what.name, .begin = mark});
  ++count_;
}

void OpenRanges::append_to(std::vector<Event>& events) const {
  for (const std::vector<Range>& open : by_thread_)
    for (const Range& range : open) events.push_back(range.begin);
}

}  // namespace memreel
