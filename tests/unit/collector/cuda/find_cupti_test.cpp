// SPDX-License-Identifier: Apache-2.0
// Which copy of CUPTI is chosen from those in a test directory.
#include "collector/cuda/cupti_backend.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>

namespace memreel::cuda {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class FindCupti : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  std::string file(const fs::path& name) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << "x";
    return (root_ / name).string();
  }
  static std::size_t place_of(const std::vector<std::string>& candidates, const std::string& candidate) {
    return static_cast<std::size_t>(std::find(candidates.begin(), candidates.end(), candidate) - candidates.begin());
  }

  fs::path root_ = fs::path(::testing::TempDir()) / ("find_cupti_" + std::to_string(::getpid()));
};

TEST_F(FindCupti, ACopyThatIsLoadedIsTheOnlyOne) {
  const std::string toolkit = file("cuda/lib64/libcupti.so.13");
  EXPECT_THAT(cupti_candidates({.mapped = {"/x/libcudart.so.12", "/env/libcupti.so.12"},
                                .driver_major = 13,
                                .cuda_home = (root_ / "cuda").string()}),
              ElementsAre("/env/libcupti.so.12"));
}

TEST_F(FindCupti, TheVersionOfTheProcesssRuntimeComesFirst) {
  const std::string newer = file("cuda/lib64/libcupti.so.13");
  const std::string same = file("cuda/extras/CUPTI/lib64/libcupti.so.12");
  const auto candidates = cupti_candidates(
      {.mapped = {"/x/libcudart.so.12.4.127"}, .driver_major = 13, .cuda_home = (root_ / "cuda").string()});
  EXPECT_EQ(candidates.front(), "libcupti.so.12");
  EXPECT_LT(place_of(candidates, same), place_of(candidates, newer));
  EXPECT_THAT(candidates, Contains(newer));
}

TEST_F(FindCupti, NeverOneThatIsNewerThanTheDriver) {
  const std::string newer = file("cuda/lib64/libcupti.so.13");
  const std::string usable = file("cuda/lib64/libcupti.so.12");
  const auto candidates = cupti_candidates({.driver_major = 12, .cuda_home = (root_ / "cuda").string()});
  EXPECT_THAT(candidates, Contains(usable));
  EXPECT_THAT(candidates, Not(Contains(HasSubstr(".so.13"))));
}

TEST_F(FindCupti, ToolkitsOfEveryProcessor) {
  for (const char* const target : {"x86_64-linux", "sbsa-linux", "aarch64-linux"}) {
    const std::string found = file(fs::path(target) / "targets" / target / "lib/libcupti.so.12");
    EXPECT_THAT(cupti_candidates({.driver_major = 12, .cuda_home = (root_ / target).string()}), Contains(found));
  }
}

TEST_F(FindCupti, PythonPackagesAroundWhatIsLoaded) {
  const std::string wheel = file("venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcupti.so.13");
  const std::string older = file("venv/lib/python3.12/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12");
  const std::string torch = (root_ / "venv/lib/python3.12/site-packages/torch/lib/libtorch.so").string();
  const auto candidates = cupti_candidates({.mapped = {torch}, .driver_major = 13});
  EXPECT_THAT(candidates, Contains(wheel));
  EXPECT_THAT(candidates, Contains(older));
}

TEST_F(FindCupti, PythonPackagesAndCondasLibrariesBesideTheInterpreter) {
  const std::string wheel = file("env/lib/python3.11/site-packages/nvidia/cu13/lib/libcupti.so.13");
  const std::string conda = file("env/lib/libcupti.so.12");
  const auto candidates = cupti_candidates({.driver_major = 13, .executable = root_ / "env/bin/python3.11"});
  EXPECT_THAT(candidates, Contains(wheel));
  EXPECT_THAT(candidates, Contains(conda));
}

TEST_F(FindCupti, VirtualEnvironmentsThePathOfPythonAndTheUsersOwnPackages) {
  const std::string environment = file("venv/lib/python3.13/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12");
  const std::string user = file("home/.local/lib/python3.13/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12");
  const std::string first = file("first/nvidia/cu13/lib/libcupti.so.13");
  const std::string second = file("second/nvidia/cu13/lib/libcupti.so.13");
  const auto candidates =
      cupti_candidates({.driver_major = 13,
                        .virtual_env = (root_ / "venv").string(),
                        .python_path = (root_ / "first").string() + "::" + (root_ / "second").string() + ":",
                        .python_user_base = (root_ / "home/.local").string()});
  for (const std::string& each : {environment, user, first, second}) EXPECT_THAT(candidates, Contains(each));
  EXPECT_LT(place_of(candidates, first), place_of(candidates, second));
  EXPECT_LT(place_of(candidates, environment), place_of(candidates, user));
}

TEST_F(FindCupti, BesideTheWheelThatBroughtMemreel) {
  const std::string extra = file("venv/lib/python3.12/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12");
  const std::string agent =
      (root_ / "venv/lib/python3.12/site-packages/memreel/_dist/lib/memreel/libmemreel-agent.so").string();
  EXPECT_THAT(cupti_candidates({.mapped = {agent}, .driver_major = 12, .executable = "/usr/bin/python3.12"}),
              Contains(extra));
}

TEST_F(FindCupti, TritonsCopyWhereThereIsNoOther) {
  const std::string triton = file("venv/lib/python3.12/site-packages/triton/backends/nvidia/lib/cupti/libcupti.so.12");
  const std::string wheel = file("venv/lib/python3.12/site-packages/nvidia/cuda_cupti/lib/libcupti.so.12");
  const auto candidates = cupti_candidates({.driver_major = 12, .virtual_env = (root_ / "venv").string()});
  EXPECT_THAT(candidates, Contains(triton));
  EXPECT_LT(place_of(candidates, wheel), place_of(candidates, triton));
}

TEST_F(FindCupti, UntilElevenNamesHaveAMinorVersion) {
  const std::string old = file("conda/lib/libcupti.so.11.8");
  EXPECT_THAT(cupti_candidates({.driver_major = 12, .conda_prefix = (root_ / "conda").string()}), Contains(old));
}

}  // namespace
}  // namespace memreel::cuda
