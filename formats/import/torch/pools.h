// Which memory pool each record of a history belongs to.
#pragma once

#include "formats/import/torch/snapshot.h"

namespace memreel::torch {

/// Fills in the pool of the entries that don't tell it (PyTorch up to 2.11 records none): it is that of the segment the
/// address lay in at that time. Segments alive at the end tell their pool; those freed before are taken to be of the
/// default pool (but see destroyed_pools.h), unless they were unmapped next to memory of the same stream whose pool is
/// known.
void infer_pools(DeviceHistory& history, PoolStreams& pool_streams);

}  // namespace memreel::torch
