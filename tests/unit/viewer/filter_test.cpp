// SPDX-License-Identifier: Apache-2.0
// Filters typed for lists and pictures, and what they match.
#include "viewer/model/typed_input.h"

#include <gtest/gtest.h>

#include "formats/model/quantity.h"
#include "tests/unit/formats/random_history.h"
#include "tests/unit/viewer/opened.h"

namespace memreel::viewer {
namespace {

TEST(TypedFilter, SizesAreWordsAndTheRestIsText) {
  const Filter both = typed_filter(">=64KiB  <1MiB linear.py:42");
  EXPECT_EQ(both.least, 64_KiB);
  EXPECT_EQ(both.most, 1_MiB - 1_B);
  EXPECT_EQ(both.text, "linear.py:42");
  EXPECT_EQ(typed_filter(">512"), (Filter{.least = 513_B}));
  EXPECT_EQ(typed_filter("=512"), (Filter{.least = 512_B, .most = 512_B}));
  EXPECT_EQ(typed_filter("<= 1.5 MiB"), (Filter{.most = 1536_KiB})) << "with spaces";
  EXPECT_EQ(typed_filter("my function"), (Filter{.text = "my function"}));
  for (const char* const text : {"<lambda>", "<module>", "operator<", ">", "=> 1", "<0"})
    EXPECT_EQ(typed_filter(text), (Filter{.text = text})) << "no size";
  EXPECT_TRUE(typed_filter("  ").lets_all_pass());
}

TEST(TypedFilter, ALeastSizeReplacesTheOneThatIsThere) {
  EXPECT_EQ(with_least("gpt <1GiB", "20MiB"), "gpt <1GiB >=20MiB");
  EXPECT_EQ(with_least(">= 1 MiB gpt", "20MiB"), "gpt >=20MiB");
  EXPECT_EQ(with_least(">1MiB", ""), "");
}

TEST(Sieve, LetsPassWhatHasTheTextAndTheSize) {
  const Opened opened = open(memory_file(memreel::testing::possible_trace(9, 5'000, {})));
  const std::shared_ptr<const Document> document = opened.versions.back();
  const Tables& tables = *document->tables;
  const std::string name = tables[tables.frames[1].function];
  const Sieve sieve(document, {.text = name, .least = 4_KiB}, nullptr);
  const std::vector<bool> stacks = stacks_with(tables, name);
  std::uint32_t passed = 0;
  for (std::uint32_t id = 0; id < document->allocation_count(); ++id) {
    const bool expected = document->size_of(id) >= 4_KiB && stacks[index(document->stack_of(id))];
    ASSERT_EQ(sieve.passes(id), expected);
    passed += expected ? 1 : 0;
  }
  EXPECT_GT(passed, 0U);
  EXPECT_LT(passed, document->allocation_count());
  EXPECT_FALSE(sieve.passes(document->allocation_count())) << "later ones are not known";
  EXPECT_FALSE(Sieve(document, {.category = Category::gradient}, nullptr).passes(0U)) << "nothing is classified";
  const std::string address = "0x" + std::string(hexadecimal(document->address_of(7).value)).substr(2);
  EXPECT_TRUE(Sieve(document, {.text = address}, nullptr).passes(7U));
}

}  // namespace
}  // namespace memreel::viewer
