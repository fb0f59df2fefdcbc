// What a BFC allocator is made with.
#pragma once

#include <optional>

#include "analyzer/engine/policy_spec.h"
#include "analyzer/heap/best_fit_index.h"
#include "formats/model/result.h"
#include "formats/model/units.h"

namespace memreel {

struct BfcSettings {
  static constexpr Bytes unlimited = BestFitIndex::max_size;
  static constexpr Bytes unit = 256_B;

  /// How a region is sized that is taken from the device.
  enum class Growth : std::uint8_t {
    none,       // one region of the whole limit
    doubling,   // each twice as large as the one before
    requested,  // as large as the request
  };

  Growth growth = Growth::doubling;
  Bytes first_region = 2_MiB;         // doubling: the size that it begins with
  Bytes largest_region = unlimited;   // doubling: the size that it ends with, but for larger requests
  bool onnx_growth = false;           // doubling: as ONNX Runtime does it (ort_arena.h)
  Bytes region_after_shrink = 2_MiB;  // doubling: the size that it begins with again after a shrink
  std::optional<Bytes> limit;         // of all regions together; none: `fraction` of the device's memory
  double fraction = 1;
  Bytes page = unit;                  // the device gives regions of whole pages
  Bytes memory = 80_GiB;              // of the device; when the replay limits the device, it is that limit
  Bytes largest_rest = 128_MiB;       // a rest of this size and more is split off whatever its share
  double fragmentation_fraction = 0;  // above 0: largest_rest is this share of the limit
  bool garbage_collection = false;
  bool coalesce_regions = false;
  bool spatial_partitioning = false;  // only without growth
  bool shrinks = false;               // empty_cache gives free regions back

  /// The limit on a device that the replay limits to `capacity`, or not at all.
  Bytes limit_on(std::optional<Bytes> capacity) const;
  /// The least rest that is split off a chunk of less than twice the request, where `of_all` is the limit.
  Bytes split_limit(Bytes of_all) const;

  /// The parameters of tf.bfc and of the presets that share them.
  PolicySpec spec(std::string name) const;
  /// Errors: a parameter that makes no sense. `spec` has all of them.
  static Result<BfcSettings> parse(const PolicySpec& spec);
};

/// What the allocators are by default that memreel knows by name.
BfcSettings tf_bfc_settings();
BfcSettings tf_growth_settings();
BfcSettings jax_default_settings();
BfcSettings jax_growth_settings();

}  // namespace memreel
