#include <algorithm>
#include <string>

#include "analyzer/insight/out_of_memory.h"
#include "formats/model/quantity.h"

namespace memreel {
namespace {

/// A context and its libraries take less.
constexpr Bytes largest_overhead = 2_GiB;
/// Steps of varying size differ by less.
constexpr double noticeable_growth = 1.5;

std::string arithmetic(const OutOfMemory& oom) {
  return text_of(oom.live) + " live and " + text_of(oom.requested) + " requested";
}

std::string of_all(const OutOfMemory& oom) {
  return oom.capacity ? ", of at most " + text_of(*oom.capacity) + " that this pool could have" : "";
}

std::string larger_than_device(const OutOfMemory& oom) {
  std::string text = "Larger than the device: " + text_of(oom.requested) + " requested, but ";
  if (oom.device_total) return text + "the device has " + text_of(*oom.device_total) + " in total.";
  text += "no device has that much. The trace does not say how much this one has";
  if (oom.device_free && !oom.sample_age) text += "; " + text_of(*oom.device_free) + " of it was free";
  return text + ".";
}

std::string lack_of_memory(const OutOfMemory& oom) {
  if (oom.level == Level::driver) {
    return text_of(oom.requested) + " requested from the driver, with " + text_of(*oom.device_free) +
           " of the device's " + text_of(*oom.device_total) + " free. The program held " + text_of(oom.live) + ".";
  }
  if (!oom.capacity) return arithmetic(oom) + ", with only " + text_of(oom.free) + " free in the pool.";
  if (oom.live > *oom.capacity || oom.requested > *oom.capacity - oom.live)
    return arithmetic(oom) + ", more than the " + text_of(*oom.capacity) +
           " that this pool could have at most, however they are placed.";
  if (oom.bounded && !oom.own_limit()) return arithmetic(oom) + ", more than the pool and the device had left.";
  return arithmetic(oom) + ". What the pool could have is known only from refusals: at least " +
         text_of(oom.least_capacity) + " and at most " + text_of(*oom.capacity) + ", probably too little.";
}

/// Who has the rest of the device.
std::string outside_text(const OutOfMemory& oom) {
  if (oom.own_limit() || oom.verdict != OomVerdict::lack_of_memory || oom.level == Level::driver) return {};
  if (const auto outside = oom.held_outside())
    return outside < largest_overhead ? ""
                                      : " " + text_of(*outside) + " of the device's " + text_of(*oom.device_total) +
                                            " are held outside the pool: by other processes, or by the program itself, "
                                            "as NCCL and contexts do.";
  if (!oom.capacity || !oom.bounded) return {};
  return " If the card has more than " + text_of(*oom.capacity) +
         ", someone else holds the rest: other processes, or NCCL and contexts of this one.";
}

/// What the step does compared with earlier ones.
std::string step_text(const OutOfMemory& oom) {
  if (!oom.rest) return {};
  std::string text;
  if (oom.rest->growth >= noticeable_growth)
    text += " At this point the step asks " + text_of(oom.rest->growth, 1) + " times what any of the " +
            text_of(oom.rest->rounds) + " before it did: its batch or its length grew.";
  if (oom.rest->more > 0_B) text += " By earlier steps, the rest of it needs another " + text_of(oom.rest->more) + ".";
  return text;
}

std::string not_known(const OutOfMemory& oom) {
  if (oom.level != Level::driver)
    return arithmetic(oom) + ". The trace does not say how much memory there was in total.";
  const std::string asked =
      text_of(oom.requested) + " requested from the driver while the program held " + text_of(oom.live);
  if (!oom.device_free) return asked + ". The trace has no samples of the device.";
  return asked + ". By the last sample, the device had " + text_of(*oom.device_free) +
         " free: another program has taken it since, or a limit applies.";
}

/// What a pool requested from the driver for this request and did not get.
std::string what_the_driver_refused(const OutOfMemory& oom) {
  std::string text;
  for (std::size_t i = 1; i < oom.refusals.size(); ++i) {
    const Refusal& refusal = oom.refusals[i];
    const std::uint64_t times = refusal.events.size();
    text += " The driver refused the " + text_of(refusal.requested) + " that the pool requested" +
            (times == 1   ? ""
             : times == 2 ? ", twice"
                          : ", " + text_of(times) + " times") +
            ".";
  }
  return text;
}

std::string where_the_free_memory_was(const OutOfMemory& oom) {
  if (oom.gaps == 0) return " The pool had no free memory: all of it went to rounding and unsplit remainders.";
  std::string text = " The pool had " + text_of(oom.free) + " free in " + text_of(oom.gaps) +
                     (oom.gaps == 1 ? " block" : " blocks") + ". The largest usable by this request has " +
                     text_of(oom.largest_in_pool_stream);
  if (oom.largest_free > oom.largest_in_pool_stream)
    text += ", the largest on any stream or pool " + text_of(oom.largest_free);
  text += ".";
  if (oom.needed > oom.requested && oom.capacity && *oom.capacity >= oom.reserved)
    text += " A new segment would have taken " + text_of(oom.needed) + ", and " +
            text_of(*oom.capacity - oom.reserved) + " was left.";
  if (oom.unreleasable > 0_B)
    text += " " + text_of(oom.unreleasable) + " of the free memory is unreleasable: its segments have active blocks.";
  return text;
}

std::string who_else_has_it(const OutOfMemory& oom) {
  std::string text;
  if (oom.stranded.other_streams > 0_B)
    text += " " + text_of(oom.stranded.other_streams) + " is free in blocks large enough, but on other streams.";
  if (oom.stranded.other_pools > 0_B)
    text += " " + text_of(oom.stranded.other_pools) + " is free in blocks large enough, but in other pools.";
  if (oom.pending > 0_B)
    text += " " + text_of(oom.pending) + " is awaiting free: freed, but still used by another stream.";
  if (oom.waited_in_vain)
    text +=
        " A block that fits was awaiting free and became free when this request waited for it: PyTorch then asks only "
        "the device again, and an identical retry is served.";
  if (oom.pool_maximum && oom.reserved > 0_B)
    text += " Below its maximum of " + text_of(*oom.pool_maximum) + " the pool can still get " +
            text_of(*oom.pool_maximum - std::min(*oom.pool_maximum, oom.reserved)) +
            ", but in a block of its own: what it got at different times is not joined.";
  if (oom.in_private_pool)
    text += " For a private pool, inside use_mem_pool or a capture, PyTorch neither releases its cache nor retries.";
  return text;
}

}  // namespace

std::string explanation(const OutOfMemory& oom) {
  std::string text;
  switch (oom.verdict) {
    case OomVerdict::larger_than_device:
      text = larger_than_device(oom);
      break;
    case OomVerdict::lack_of_memory:
      text = "Lack of memory: " + lack_of_memory(oom);
      break;
    case OomVerdict::fragmentation:
      text = "Fragmentation: " + arithmetic(oom) + of_all(oom) + "." + where_the_free_memory_was(oom) +
             who_else_has_it(oom);
      break;
    case OomVerdict::unknown:
      text = "Unknown: " + not_known(oom);
      break;
  }
  if (oom.own_limit() && oom.verdict != OomVerdict::larger_than_device)
    text += " The device itself had " + text_of(*oom.device_free) +
            " free: the refusal came from a limit that the program set (a memory fraction).";
  return text + outside_text(oom) + what_the_driver_refused(oom) + step_text(oom);
}

std::string reason_of(const OutOfMemory& oom) {
  if (oom.verdict == OomVerdict::unknown) return {};
  std::string text(name_of(oom.verdict));
  if (oom.rest && oom.rest->growth >= noticeable_growth)
    return text + ", this step asks " + text_of(oom.rest->growth, 1) + "x any before";
  if (oom.verdict == OomVerdict::lack_of_memory && oom.own_limit()) return text + " at the program's own limit";
  if (oom.verdict != OomVerdict::fragmentation) return text;
  if (oom.pool_maximum) return "below the pool's maximum";
  if (oom.waited_in_vain) return "its block was awaiting free";
  if (oom.in_private_pool) return "a private pool does not retry";
  return text;
}

std::string remedy_for_lack(const OutOfMemory& oom) {
  if (oom.own_limit()) return "raise the program's own limit, the device had " + text_of(*oom.device_free) + " free";
  if (const auto outside = oom.held_outside(); outside && outside >= largest_overhead)
    return "free what others hold, " + text_of(*outside) + " of the device's " + text_of(*oom.device_total);
  if (oom.pool_maximum) return "raise the pool's maximum, " + text_of(*oom.pool_maximum);
  if (oom.level == Level::framework && oom.bounded && !oom.device_total && oom.capacity)
    return "hold less; if the card has over " + text_of(*oom.capacity) + ", others hold it";
  if (!oom.capacity || oom.live + oom.requested <= *oom.capacity) return "the program must hold less";
  return "the program must hold " + text_of(oom.live + oom.requested - *oom.capacity) + " less";
}

std::string survivor_text(const Remedies& remedies, const OutOfMemory& oom) {
  if (!oom.survivors.empty()) return remedies.tried[oom.survivors.front()].text;
  if (!oom.serve_only.empty())
    return remedies.tried[oom.serve_only.front().remedy].text +
           (oom.rest ? " (not the rest of the step)" : " (the rest is not recorded)");
  return oom.verdict == OomVerdict::fragmentation && !remedies.tried.empty() ? "none of those tried" : "";
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
