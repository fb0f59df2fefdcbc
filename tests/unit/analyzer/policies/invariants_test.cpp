// What holds of every policy that places blocks, after every operation of random programs.
#include <gtest/gtest.h>

#include "analyzer/policies/bfc.h"
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
TEST(Invariants, TfBfc) { check_all<Bfc>(tf_bfc_settings()); }
TEST(Invariants, TfBfcWithEverythingSet) {
  check_all<Bfc>(BfcSettings{
      .page = 64_KiB, .fragmentation_fraction = 0.01, .garbage_collection = true, .coalesce_regions = true});
}
TEST(Invariants, TfGrowth) { check_all<Bfc>(tf_growth_settings()); }
TEST(Invariants, JaxDefault) { check_all<Bfc>(jax_default_settings()); }
TEST(Invariants, JaxGrowth) { check_all<Bfc>(jax_growth_settings()); }
TEST(Invariants, OrtArena) {
  check_all<Bfc>(BfcSettings{.first_region = 1_MiB, .largest_region = 64_MiB, .shrinks = true});
  check_all<Bfc>(BfcSettings{.growth = BfcSettings::Growth::requested, .shrinks = true});
}
TEST(Invariants, FitBest) { check_all<FitBest>(GrowingRangeSettings{}); }
TEST(Invariants, FitFirst) { check_all<FitFirst>(GrowingRangeSettings{}); }
TEST(Invariants, FitNext) { check_all<FitNext>(GrowingRangeSettings{.align = 4_KiB, .page = 64_KiB}); }
TEST(Invariants, CudaMalloc) { check_all<CudaMalloc>(CudaMalloc::Settings{}); }

}  // namespace
}  // namespace memreel
