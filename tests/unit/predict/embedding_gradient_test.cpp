// SPDX-License-Identifier: Apache-2.0
#include "analyzer/predict/kernel_requests.h"

#include <gmock/gmock.h>

#include <array>

namespace memreel {
namespace {

using ::testing::ElementsAreArray;

std::vector<std::uint64_t> sizes_of(const KernelRequests& requests) {
  std::vector<std::uint64_t> sizes;
  for (const KernelRequest& request : requests.before) sizes.push_back(request.size.count);
  for (const KernelRequest& request : requests.after) sizes.push_back(request.size.count);
  return sizes;
}

struct RecordedGradient {
  EmbeddingGradient gradient;
  std::vector<std::uint64_t> sizes;  // without the result
};

/// What PyTorch 2.11 allocated on an H200 and an H100.
const std::vector<RecordedGradient> recorded_gradients{
    {{.indices = 3072, .words = 8192, .width = 64}, {}},
    {{.indices = 3080, .words = 8192, .width = 64},
     {24640, 24640, 24640, 67583, 24640, 8, 24640, 1279, 24640, 24640, 1279, 8, 27104, 867328}},
    {{.indices = 4096, .words = 16000, .width = 768},
     {32768, 32768, 32768, 83455, 32768, 8, 32768, 1279, 32768, 32768, 1279, 8, 36040, 13839360}},
    // More indices than words.
    {{.indices = 16384, .words = 16000, .width = 768},
     {131072, 131072, 131072, 283135, 131072, 8, 131072, 1279, 128000, 128000, 1535, 8, 141104, 54183936}},
    {{.indices = 131072, .words = 8192, .width = 64},
     {1048576, 1048576, 1048576, 2143743, 1048576, 8, 1048576, 1535, 65536, 65536, 1279, 8, 170392, 5452544}},
    {{.indices = 1048576, .words = 8192, .width = 64},
     {8388608, 8388608, 8388608, 17027583, 8388608, 8, 8388608, 4863, 65536, 65536, 1279, 8, 904392, 28940544}},
};

TEST(EmbeddingGradient, AsksForWhatWasRecorded) {
  for (const RecordedGradient& recorded : recorded_gradients)
    EXPECT_THAT(sizes_of(requests_of(recorded.gradient, {})), ElementsAreArray(recorded.sizes))
        << recorded.gradient.indices;
}

TEST(EmbeddingGradient, OfHalfNumbersIsAddedUpInWholeOnes) {
  const EmbeddingGradient whole = recorded_gradients[2].gradient;
  EmbeddingGradient half = whole;
  half.number = 2;
  EXPECT_EQ(requests_of(half, {}), requests_of(whole, {}));
  EXPECT_EQ(half.result() * 2, whole.result());
}

TEST(EmbeddingGradient, FollowsFromItsRequests) {
  for (const RecordedGradient& recorded : recorded_gradients) {
    if (recorded.sizes.empty()) continue;
    std::array<Bytes, embedding_requests> sizes;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      sizes[i] = i == embedding_result ? recorded.gradient.result() : Bytes{recorded.sizes[i - (i > embedding_result)]};
    EXPECT_EQ(embedding_gradient_of(sizes), recorded.gradient);
    sizes[13] += 8_B;
    EXPECT_FALSE(embedding_gradient_of(sizes));
  }
}

TEST(EmbeddingGradient, SortsInTilesOfItsGpu) {
  const EmbeddingGradient gradient{.indices = 4096, .words = 16000, .width = 768};
  const auto sort = [&](std::uint32_t capability) {
    return requests_of(gradient, {.compute_capability = capability}).before.back().size;
  };
  EXPECT_EQ(sort(80), sort(90) + 1024_B);  // 3,840 keys per tile, so there are two
  EXPECT_EQ(sort(89), sort(86));
  EXPECT_EQ(sort(120), sort(100));
}

}  // namespace
}  // namespace memreel
