#include <algorithm>
#include <string>

#include "analyzer/insight/out_of_memory.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

std::string arithmetic(const OutOfMemory& oom) {
  return text_of(oom.live) + " were live and " + text_of(oom.requested) + " were asked for";
}

std::string of_all(const OutOfMemory& oom) { return oom.capacity ? ", of at most " + text_of(*oom.capacity) : ""; }

std::string where_the_free_memory_was(const OutOfMemory& oom) {
  if (oom.holes == 0) return " The pool had no free memory: all of it went to rounding and unsplit tails.";
  std::string text = " The pool had " + text_of(oom.free) + " free in " + text_of(oom.holes) +
                     (oom.holes == 1 ? " hole" : " holes") + ". The largest that this request may use has " +
                     text_of(oom.largest_in_lane);
  if (oom.largest_free > oom.largest_in_lane)
    text += ", the largest on any stream or pool " + text_of(oom.largest_free);
  text += ".";
  if (oom.needed > oom.requested && oom.capacity && *oom.capacity >= oom.reserved)
    text += " A new segment would have taken " + text_of(oom.needed) + ", and " +
            text_of(*oom.capacity - oom.reserved) + " were left.";
  if (oom.hostage > 0_B)
    text += " " + text_of(oom.hostage) +
            " of the free memory can't be given back, because something in the same segment is still allocated.";
  return text;
}

std::string who_else_has_it(const OutOfMemory& oom) {
  std::string text;
  if (oom.stranded.other_streams > 0_B)
    text += " " + text_of(oom.stranded.other_streams) + " are free in holes large enough, but on other streams.";
  if (oom.stranded.other_pools > 0_B)
    text += " " + text_of(oom.stranded.other_pools) + " are free in holes large enough, but in other pools.";
  if (oom.pending > 0_B)
    text += " " + text_of(oom.pending) + " were freed already, but the device was not done with them.";
  return text;
}

}  // namespace

std::string explanation(const OutOfMemory& oom) {
  std::string text;
  switch (oom.verdict) {
    case OomVerdict::lack_of_memory:
      text = "Lack of memory: " + arithmetic(oom);
      text += oom.capacity
                  ? ", more than the " + text_of(*oom.capacity) + " that there were at most, wherever they lay."
                  : ", and only " + text_of(oom.free) + " of the pool were free.";
      break;
    case OomVerdict::fragmentation:
      text = "Fragmentation: " + arithmetic(oom) + of_all(oom) + "." + where_the_free_memory_was(oom) +
             who_else_has_it(oom);
      break;
    case OomVerdict::unknown:
      text = "Not known: " + arithmetic(oom) + ". The trace does not say how much memory there was.";
      break;
  }
  if (oom.own_limit())
    text += " The device itself had " + text_of(*oom.device_free) +
            " free: what refused is a limit of the program's own (a memory fraction).";
  return text;
}

std::string strip_of(std::span<const HeapBlock> blocks, Address begin, Address end, std::size_t width) {
  const auto total = static_cast<double>((end - begin).count);
  std::string strip;
  auto block = blocks.begin();
  for (std::size_t i = 0; i < width; ++i) {
    const auto at = [&](std::size_t n) {
      return begin + Bytes{static_cast<std::uint64_t>(total * static_cast<double>(n) / static_cast<double>(width))};
    };
    const Address from = at(i);
    const Address to = i + 1 == width ? end : std::max(at(i + 1), from + 1_B);
    Bytes used;
    while (block != blocks.end() && block->end() <= from) ++block;
    for (auto b = block; b != blocks.end() && b->address < to; ++b)
      if (b->use != BlockUse::free) used += std::min(b->end(), to) - std::max(b->address, from);
    strip += used == 0_B ? "·" : used >= to - from ? "█" : "▒";
  }
  return strip;
}

}  // namespace memreel
