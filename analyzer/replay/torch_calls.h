// What a program told PyTorch's allocator, in recordings that say only what the allocator did.
#pragma once

#include <cstddef>

#include "formats/model/trace.h"

namespace memreel {

/// memreel's recordings of PyTorch's allocator have its own trace, as its histories do, and as in these
/// torch.cuda.empty_cache() and the end of a private pool leave no record but what was released. Adds the same events
/// in front of the same releases as the import of a history does (formats/import/torch/empty_cache.h,
/// destroyed_pools.h). Returns how many.
std::size_t infer_torch_calls(Trace& trace);

}  // namespace memreel
