// Settings of a BFC allocator.
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

  /// How the size of a new region is chosen.
  enum class Growth : std::uint8_t {
    none,       // a single region of the whole limit
    doubling,   // each twice as large as the previous one
    requested,  // as large as the request
  };

  Growth growth = Growth::doubling;
  Bytes first_region = 2_MiB;         // doubling: the initial size
  Bytes largest_region = unlimited;   // doubling: the final size, except for larger requests
  bool onnx_growth = false;           // doubling: ONNX Runtime's variant (ort_arena.h)
  Bytes region_after_shrink = 2_MiB;  // doubling: the initial size after a shrink
  std::optional<Bytes> limit;         // total of all regions; none: `fraction` of the device's memory
  double fraction = 1;
  Bytes page = unit;                  // the device's regions are whole pages
  Bytes memory = 80_GiB;              // of the device; if the replay limits the device, that limit
  Bytes largest_rest = 128_MiB;       // a remainder of at least this size is always split off
  double fragmentation_fraction = 0;  // if above 0, largest_rest is this share of the limit
  bool garbage_collection = false;
  bool coalesce_regions = false;
  bool spatial_partitioning = false;  // without growth only
  bool shrinks = false;               // empty_cache releases free regions

  /// The limit on a device with this capacity; none: unlimited.
  Bytes limit_on(std::optional<Bytes> capacity) const;
  /// The smallest remainder that is split off a chunk of less than twice the request, for the limit `of_all`.
  Bytes split_limit(Bytes of_all) const;

  /// The parameters of tf.bfc and the presets that share them.
  PolicySpec spec(std::string name) const;
  /// Errors: an invalid parameter. `spec` has all parameters.
  static Result<BfcSettings> parse(const PolicySpec& spec);
};

/// The default settings of the allocators that memreel knows by name.
BfcSettings tf_bfc_settings();
BfcSettings tf_growth_settings();
BfcSettings jax_default_settings();
BfcSettings jax_growth_settings();

}  // namespace memreel
