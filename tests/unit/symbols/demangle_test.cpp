// SPDX-License-Identifier: Apache-2.0
#include "analyzer/symbols/elf_file.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace memreel {
namespace {

/// The number of an already used name, as the mangling writes it.
std::string substitution(std::size_t number) {
  constexpr std::string_view digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  if (number == 0) return "S_";
  std::string text;
  for (std::size_t rest = number - 1; text.empty() || rest > 0; rest /= digits.size())
    text.insert(text.begin(), digits[rest % digits.size()]);
  return "S" + text + "_";
}

/// f(a, p<a, a>, p<p<a, a>, p<a, a>>, ...): each parameter consists of two of the previous one.
std::string doubling(std::size_t parameters) {
  std::string name = "_Z1f1a";
  for (std::size_t i = 0; i < parameters; ++i) {
    const std::string before = substitution(2 * i);
    name += "1pI" + before + before + "E";
  }
  return name;
}

TEST(Demangle, NamesOfFunctions) {
  EXPECT_EQ(demangled("_ZN2at6matmulERKNS_6TensorES2_"), "at::matmul(at::Tensor const&, at::Tensor const&)");
  EXPECT_EQ(demangled(doubling(2).c_str()), "f(a, p<a, a>, p<p<a, a>, p<a, a> >)");
  EXPECT_EQ(demangled("main"), "main");
  EXPECT_EQ(demangled("_Z"), "_Z");
}

TEST(Demangle, AFewBytesThatStandForGigabytesStayAsTheyAre) {
  const std::string name = doubling(29);
  EXPECT_LT(name.size(), 320U);
  EXPECT_EQ(demangled(name.c_str()), name);
}

}  // namespace
}  // namespace memreel
