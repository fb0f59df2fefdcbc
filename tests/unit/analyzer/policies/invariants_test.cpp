// SPDX-License-Identifier: Apache-2.0
// Invariants of every policy that places blocks, checked after every operation of random programs.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "analyzer/replay/policies/bfc.h"
#include "analyzer/replay/policies/buddy.h"
#include "analyzer/replay/policies/cuda_async.h"
#include "analyzer/replay/policies/cuda_malloc.h"
#include "analyzer/replay/policies/cupy_pool.h"
#include "analyzer/replay/policies/fit.h"
#include "analyzer/replay/policies/gmlake.h"
#include "analyzer/replay/policies/pool_exact.h"
#include "analyzer/replay/policies/rmm_arena.h"
#include "analyzer/replay/policies/rmm_binning.h"
#include "analyzer/replay/policies/rmm_pool.h"
#include "analyzer/replay/policies/slab.h"
#include "analyzer/replay/policies/tlsf.h"
#include "analyzer/replay/policies/torch_host.h"
#include "analyzer/replay/policies/torch_native.h"
#include "analyzer/replay/policies/vpmm.h"
#include "analyzer/replay/replay.h"
#include "tests/unit/analyzer/policies/random_program.h"

namespace memreel {
namespace {

using testing::check_all;

using Check = void (*)();

void places_nothing() {}
void knows_what_is_to_come() {}  // so it can't serve a program that depends on its answers: planned_test.cpp

/// The invariants checked for a policy with default settings, by its name in the registry.
const std::map<std::string_view, Check>& checks() {
  static const std::map<std::string_view, Check> all{
      {"bound.live", places_nothing},
      {"bound.pages", places_nothing},
      {"cuda.malloc", [] { check_all<CudaMalloc>(CudaMalloc::Settings{}); }},
      {"cuda.async", [] { check_all<CudaAsync>(CudaAsyncSettings{}); }},
      {"torch", [] { check_all<TorchNative<>>(TorchSettings{}); }},
      {"torch.native", [] { check_all<TorchNative<>>(TorchSettings{}); }},
      {"torch.expandable", [] { check_all<TorchNative<>>(TorchSettings{.expandable = true}); }},
      {"torch.host", [] { check_all<TorchHost>(TorchHostSettings{}); }},
      {"tf.bfc", [] { check_all<Bfc>(tf_bfc_settings()); }},
      {"tf.growth", [] { check_all<Bfc>(tf_growth_settings()); }},
      {"jax.default", [] { check_all<Bfc>(jax_default_settings()); }},
      {"jax.growth", [] { check_all<Bfc>(jax_growth_settings()); }},
      {"ort.arena",
       [] { check_all<Bfc>(BfcSettings{.first_region = 1_MiB, .largest_region = 64_MiB, .shrinks = true}); }},
      {"rmm.pool", [] { check_all<RmmPool>(RmmPoolSettings{}); }},
      {"rmm.arena", [] { check_all<RmmArena>(RmmArenaSettings{}); }},
      {"rmm.binning",
       [] {
         check_all<RmmBinning>(RmmBinningSettings{.smallest = 64_KiB, .largest = 512_KiB, .pool = {.initial = 0_B}});
       }},
      {"cupy.pool", [] { check_all<CupyPool>(CupyPoolSettings{}); }},
      {"pool.exact", [] { check_all<ExactPool<TorchNative<>>>(TorchSettings{}); }},
      {"fit.first", [] { check_all<FitFirst>(GrowingRangeSettings{}); }},
      {"fit.best", [] { check_all<FitBest>(GrowingRangeSettings{}); }},
      {"fit.next", [] { check_all<FitNext>(GrowingRangeSettings{}); }},
      {"buddy", [] { check_all<Buddy>(BuddySettings{}); }},
      {"tlsf", [] { check_all<Tlsf>(TlsfSettings{}); }},
      {"slab", [] { check_all<SlabPolicy>(SlabSettings{}); }},
      {"gmlake", [] { check_all<Gmlake>(GmlakeSettings{}); }},
      {"vpmm", [] { check_all<Vpmm>(VpmmSettings{}); }},
      {"plan.size", knows_what_is_to_come},
      {"plan.best", knows_what_is_to_come},
  };
  return all;
}

class EveryPolicy : public ::testing::TestWithParam<PolicyInfo> {};

TEST_P(EveryPolicy, KeepsTheInvariants) {
  const auto found = checks().find(GetParam().name);
  ASSERT_NE(found, checks().end()) << GetParam().name << " is registered, but held to nothing: add it to checks()";
  found->second();
}

INSTANTIATE_TEST_SUITE_P(Registered, EveryPolicy, ::testing::ValuesIn(policies().begin(), policies().end()),
                         [](const auto& policy) {
                           std::string name(policy.param.name);
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

TEST(Invariants, TorchNativeWithEverythingSet) {
  TorchSettings settings{.max_split_size = 24_MiB, .garbage_collection_threshold = 0.7};
  settings.divisions.fill(4);
  check_all<TorchNative<>>(settings);
}
TEST(Invariants, TorchExpandableWithEverythingSet) {
  TorchSettings settings{
      .max_split_size = 24_MiB, .large_segment = 32_MiB, .garbage_collection_threshold = 0.7, .expandable = true};
  settings.divisions.fill(4);
  check_all<TorchNative<>>(settings);
}
TEST(Invariants, TfBfcWithEverythingSet) {
  check_all<Bfc>(BfcSettings{
      .page = 64_KiB, .fragmentation_fraction = 0.01, .garbage_collection = true, .coalesce_regions = true});
}
TEST(Invariants, OrtArenaThatTakesWhatIsRequested) {
  check_all<Bfc>(BfcSettings{.growth = BfcSettings::Growth::requested, .shrinks = true});
}
TEST(Invariants, FitNextWithSmallPages) { check_all<FitNext>(GrowingRangeSettings{.align = 4_KiB, .page = 64_KiB}); }
TEST(Invariants, RmmPoolThatGrowsFromNothing) { check_all<RmmPool>(RmmPoolSettings{.initial = 0_B}); }
TEST(Invariants, PoolExactBeforeCudaMalloc) { check_all<ExactPool<CudaMalloc>>(CudaMalloc::Settings{}); }
TEST(Invariants, BuddyOfLargeBlocks) { check_all<Buddy>(BuddySettings{.min = 1_MiB, .max = 1_MiB}); }
TEST(Invariants, TlsfWithFewClasses) { check_all<Tlsf>(TlsfSettings{{.align = 4_KiB, .page = 64_KiB}, 2}); }
TEST(Invariants, SlabWithOneClassADoubling) {
  check_all<SlabPolicy>(SlabSettings{.classes_per_doubling = 1, .min = 64_KiB, .page = 256_KiB});
}
TEST(Invariants, VpmmWithPagesAtTheBeginning) { check_all<Vpmm>(VpmmSettings{.page = 16_MiB, .pages = 8}); }
TEST(Invariants, GmlakeThatStitchesWhatItCan) {
  for (const unsigned level : {0U, 1U, 2U})
    for (const double reuse_limit : {1.0, 10.0})
      check_all<Gmlake>(GmlakeSettings{.frag_limit = 2_MiB, .reuse_limit = reuse_limit, .level = level});
}
TEST(Invariants, CudaAsyncThatKeepsAll) {
  check_all<CudaAsync>(CudaAsyncSettings{.release_threshold = CudaAsyncSettings::never});
}
TEST(Invariants, CudaAsyncWithoutOpportunisticReuse) {
  check_all<CudaAsync>(CudaAsyncSettings{.opportunistic = false, .internal_dependencies = false});
}

}  // namespace
}  // namespace memreel
