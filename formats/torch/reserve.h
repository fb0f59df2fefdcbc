// The address range size of expandable segments: expandable_segments_reserve and its classes.
//
// Source: ExpandableSegmentReserveSpec and clamp_reserve_bytes() in c10/cuda/CUDAAllocatorConfig.h of PyTorch 2.15 (PR
// #192269). Tested with the wheel of 2.15: ranges are rounded up to whole runs, and a request larger than a range fails
// as if the device had refused it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "formats/model/units.h"

namespace memreel {

/// "0.5" of the device's memory, or "40G" in GiB.
struct ReserveSize {
  bool is_share = true;
  double value = 0;

  /// None if it is neither, or not above 0, which PyTorch ignores with a warning.
  static std::optional<ReserveSize> parse(std::string_view text);
  std::string text() const;

  friend bool operator==(const ReserveSize&, const ReserveSize&) = default;
};

struct TorchReserve {
  std::optional<ReserveSize> usual;             // none: 9/8 of the device's memory, more than any program needs
  std::map<std::string, ReserveSize> by_class;  // of streams tagged by the program
  std::map<std::uint64_t, std::string> class_of_stream;  // by handle; not recorded in any history

  std::optional<Bytes> memory;  // the device's; none: unknown

  /// The address range size for a stream; none: no limit, also if it is a share of unknown memory.
  std::optional<Bytes> limit(std::uint64_t stream) const;
  bool is_set() const { return usual || !by_class.empty(); }

  // "[weights:0.5,serving:40G]" and "[0:weights,0x7f00:serving]", the syntax of policy parameters; "none" if empty.
  static std::optional<std::map<std::string, ReserveSize>> parse_classes(std::string_view text);
  static std::optional<std::map<std::uint64_t, std::string>> parse_streams(std::string_view text);
  std::string classes_text() const;
  std::string streams_text() const;

  friend bool operator==(const TorchReserve&, const TorchReserve&) = default;
};

}  // namespace memreel
