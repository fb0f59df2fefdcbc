// How many addresses a range of expandable segments has: expandable_segments_reserve and its classes.
//
// Source: ExpandableSegmentReserveSpec and clamp_reserve_bytes() in c10/cuda/CUDAAllocatorConfig.h of PyTorch 2.15 (PR
// #192269); that ranges are rounded up to whole runs, and that a request for more than a range has fails as if the
// device had refused it, was tried out with the wheel of 2.15.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "formats/model/units.h"

namespace memreel {

/// "0.5" of the device's memory, or "40G", GiB.
struct ReserveSize {
  bool is_share = true;
  double value = 0;

  /// None: neither, or not above 0, which PyTorch ignores with a warning.
  static std::optional<ReserveSize> parse(std::string_view text);
  std::string text() const;

  friend bool operator==(const ReserveSize&, const ReserveSize&) = default;
};

struct TorchReserve {
  std::optional<ReserveSize> usual;             // none: 9/8 of the device's memory, more than any program needs
  std::map<std::string, ReserveSize> by_class;  // of streams that the program tagged
  std::map<std::uint64_t, std::string> class_of_stream;  // by handle; no history tells it

  std::optional<Bytes> memory;  // the device's; none: not known

  /// The addresses of a range for a stream; none: no limit, also where it is a share of memory that is not known.
  std::optional<Bytes> limit(std::uint64_t stream) const;
  bool is_set() const { return usual || !by_class.empty(); }

  // "[weights:0.5,serving:40G]" and "[0:weights,0x7f00:serving]", as the parameters of a policy have them; "none" when
  // there are none.
  static std::optional<std::map<std::string, ReserveSize>> parse_classes(std::string_view text);
  static std::optional<std::map<std::uint64_t, std::string>> parse_streams(std::string_view text);
  std::string classes_text() const;
  std::string streams_text() const;

  friend bool operator==(const TorchReserve&, const TorchReserve&) = default;
};

}  // namespace memreel
