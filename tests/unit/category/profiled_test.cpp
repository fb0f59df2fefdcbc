// SPDX-License-Identifier: Apache-2.0
// Where PyTorch's profiler tells categories, these count.
#include <gtest/gtest.h>

#include "tests/unit/category/torch_program.h"

namespace memreel {
namespace {

using testing::TraceBuilder;

struct Profiled {
  TraceBuilder build;
  std::uint64_t next = 4096;

  explicit Profiled(std::string_view source = profiled_source) { build.trace().header.source = source; }

  AllocationId alloc(std::string_view metadata, StackId stack = StackId::none) {
    const OriginId origin = build.origin(HeapId{1});
    build.trace().tables.origins[index(origin)].metadata = build.string(metadata);
    return build.alloc(origin, {next += 512}, 512_B, stack);
  }
  Category category(AllocationId id) { return classify(build.trace()).category(id); }
};

TEST(Profiled, EachOfItsCategoriesIsOneOfOurs) {
  const std::pair<std::string_view, Category> expected[] = {{"parameter", Category::parameter},
                                                            {"optimizer_state", Category::optimizer_state},
                                                            {"input", Category::input},
                                                            {"temporary", Category::temporary},
                                                            {"activation", Category::activation},
                                                            {"gradient", Category::gradient},
                                                            {"autograd_detail", Category::temporary},
                                                            {"unknown", Category::unknown},
                                                            {"else", Category::unknown}};
  Profiled profiled;
  for (const auto& [name, category] : expected) {
    EXPECT_EQ(profiled.category(profiled.alloc(name)), category) << name;
    EXPECT_EQ(category_of(evidence_of_profiler(name)), category) << name;
  }
}

TEST(Profiled, LifetimesAndAgeDoNotMatter) {
  Profiled profiled;
  const StackId older = profiled.build.stack({std::string(testing::Program::older().front())});
  const AllocationId kept = profiled.alloc("gradient", older), freed = profiled.alloc("gradient");
  profiled.build.free(freed);
  EXPECT_EQ(profiled.category(kept), Category::gradient);
  EXPECT_EQ(profiled.category(freed), Category::gradient);
}

TEST(Profiled, NotesOfTheProgramAreNoCategories) {
  for (const char* const source : {"torch.snapshot", "cupti", ""}) {
    Profiled profiled(source);
    EXPECT_EQ(profiled.category(profiled.alloc("gradient")), Category::unknown) << source;
  }
}

}  // namespace
}  // namespace memreel
