// Assigns each record of a history to its memory pool.
#pragma once

#include "formats/import/torch/snapshot.h"

namespace memreel::torch {

/// Fills in the pool of entries that don't state it (PyTorch up to 2.11 records none): that of the segment the address
/// was in at that time. Segments alive at the end state their pool; those freed earlier are assigned to the default
/// pool (but see destroyed_pools.h), unless they were unmapped next to memory of the same stream whose pool is known.
void infer_pools(DeviceHistory& history, PoolStreams& pool_streams);

}  // namespace memreel::torch
