// What holds of every policy that places blocks, after every operation of random programs.
#include <gtest/gtest.h>

#include "analyzer/policies/cuda_async.h"
#include "analyzer/policies/cuda_malloc.h"
#include "analyzer/policies/fit_best.h"
#include "analyzer/policies/fit_first.h"
#include "analyzer/policies/fit_next.h"
#include "analyzer/policies/torch_native.h"
#include "tests/unit/analyzer/policies/random_program.h"

namespace memreel {
namespace {

using testing::check_all;

TEST(Invariants, TorchNative) { check_all<TorchNative<>>(TorchSettings{}); }
TEST(Invariants, TorchNativeWithEverythingSet) {
  TorchSettings settings{.max_split_size = 24_MiB, .garbage_collection_threshold = 0.7};
  settings.divisions.fill(4);
  check_all<TorchNative<>>(settings);
}
TEST(Invariants, FitBest) { check_all<FitBest>(GrowingRangeSettings{}); }
TEST(Invariants, FitFirst) { check_all<FitFirst>(GrowingRangeSettings{}); }
TEST(Invariants, FitNext) { check_all<FitNext>(GrowingRangeSettings{.align = 4_KiB, .page = 64_KiB}); }
TEST(Invariants, CudaMalloc) { check_all<CudaMalloc>(CudaMalloc::Settings{}); }
TEST(Invariants, CudaAsync) { check_all<CudaAsync>(CudaAsyncSettings{}); }
TEST(Invariants, CudaAsyncThatKeepsAll) {
  check_all<CudaAsync>(CudaAsyncSettings{.release_threshold = CudaAsyncSettings::never});
}
TEST(Invariants, CudaAsyncWithoutOpportunisticReuse) {
  check_all<CudaAsync>(CudaAsyncSettings{.opportunistic = false, .internal_dependencies = false});
}

}  // namespace
}  // namespace memreel
