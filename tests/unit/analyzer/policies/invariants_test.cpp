// What holds of every policy that places blocks, after every operation of random programs.
#include <gtest/gtest.h>

#include "analyzer/policies/bfc.h"
#include "analyzer/policies/buddy.h"
#include "analyzer/policies/cuda_async.h"
#include "analyzer/policies/cuda_malloc.h"
#include "analyzer/policies/fit_best.h"
#include "analyzer/policies/fit_first.h"
#include "analyzer/policies/fit_next.h"
#include "analyzer/policies/gmlake.h"
#include "analyzer/policies/pool_exact.h"
#include "analyzer/policies/rmm_arena.h"
#include "analyzer/policies/rmm_binning.h"
#include "analyzer/policies/rmm_pool.h"
#include "analyzer/policies/slab.h"
#include "analyzer/policies/tlsf.h"
#include "analyzer/policies/torch_native.h"
#include "analyzer/policies/vpmm.h"
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
TEST(Invariants, TorchExpandable) { check_all<TorchNative<>>(TorchSettings{.expandable = true}); }
TEST(Invariants, TorchExpandableWithEverythingSet) {
  TorchSettings settings{
      .max_split_size = 24_MiB, .large_segment = 32_MiB, .garbage_collection_threshold = 0.7, .expandable = true};
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
TEST(Invariants, RmmPool) { check_all<RmmPool>(RmmPoolSettings{}); }
TEST(Invariants, RmmPoolThatGrowsFromNothing) { check_all<RmmPool>(RmmPoolSettings{.initial = 0_B}); }
TEST(Invariants, RmmArena) { check_all<RmmArena>(RmmArenaSettings{}); }
TEST(Invariants, RmmBinning) {
  check_all<RmmBinning>(RmmBinningSettings{.smallest = 64_KiB, .largest = 512_KiB, .pool = {.initial = 0_B}});
}
TEST(Invariants, PoolExactBeforeTorchNative) { check_all<ExactPool<TorchNative<>>>(TorchSettings{}); }
TEST(Invariants, PoolExactBeforeCudaMalloc) { check_all<ExactPool<CudaMalloc>>(CudaMalloc::Settings{}); }
TEST(Invariants, CudaMalloc) { check_all<CudaMalloc>(CudaMalloc::Settings{}); }
TEST(Invariants, Buddy) { check_all<Buddy>(BuddySettings{}); }
TEST(Invariants, BuddyOfLargeBlocks) { check_all<Buddy>(BuddySettings{.min = 1_MiB, .max = 1_MiB}); }
TEST(Invariants, Tlsf) { check_all<Tlsf>(TlsfSettings{}); }
TEST(Invariants, TlsfWithFewClasses) { check_all<Tlsf>(TlsfSettings{{.align = 4_KiB, .page = 64_KiB}, 2}); }
TEST(Invariants, Slab) { check_all<SlabPolicy>(SlabSettings{}); }
TEST(Invariants, SlabWithOneClassADoubling) {
  check_all<SlabPolicy>(SlabSettings{.classes_per_doubling = 1, .min = 64_KiB, .page = 256_KiB});
}
TEST(Invariants, Vpmm) { check_all<Vpmm>(VpmmSettings{}); }
TEST(Invariants, VpmmWithPagesAtTheBeginning) { check_all<Vpmm>(VpmmSettings{.page = 16_MiB, .pages = 8}); }
TEST(Invariants, Gmlake) { check_all<Gmlake>(GmlakeSettings{}); }
TEST(Invariants, GmlakeThatStitchesWhatItCan) {
  for (const unsigned level : {0U, 1U, 2U})
    for (const double reuse_limit : {1.0, 10.0})
      check_all<Gmlake>(GmlakeSettings{.frag_limit = 2_MiB, .reuse_limit = reuse_limit, .level = level});
}
TEST(Invariants, CudaAsync) { check_all<CudaAsync>(CudaAsyncSettings{}); }
TEST(Invariants, CudaAsyncThatKeepsAll) {
  check_all<CudaAsync>(CudaAsyncSettings{.release_threshold = CudaAsyncSettings::never});
}
TEST(Invariants, CudaAsyncWithoutOpportunisticReuse) {
  check_all<CudaAsync>(CudaAsyncSettings{.opportunistic = false, .internal_dependencies = false});
}

}  // namespace
}  // namespace memreel
