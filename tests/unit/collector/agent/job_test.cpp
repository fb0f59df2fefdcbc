// SPDX-License-Identifier: Apache-2.0
#include "collector/trace/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "formats/model/printable.h"

namespace memreel::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

Variables job_of(const std::vector<std::string>& entries, bool mask = true) {
  std::vector<const char*> environment;
  environment.reserve(entries.size() + 1);
  for (const std::string& entry : entries) environment.push_back(entry.c_str());
  environment.push_back(nullptr);
  return job_environment(environment.data(), mask);
}

TEST(JobEnvironment, HasWhatLaunchersAndAllocatorsAreToldAndNothingElse) {
  EXPECT_THAT(
      job_of({"HOME=/root", "RANK=3", "WORLD_SIZE=16", "SLURM_JOB_ID=4711", "SLURMY=1", "OMPI_COMM_WORLD_RANK=3",
              "PMI_SIZE=2", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "AWS_REGION=x", "RANKS=7"}),
      ElementsAre(Pair("OMPI_COMM_WORLD_RANK", "3"), Pair("PMI_SIZE", "2"),
                  Pair("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"), Pair("RANK", "3"),
                  Pair("SLURM_JOB_ID", "4711"), Pair("WORLD_SIZE", "16")));
  EXPECT_THAT(job_environment(nullptr, true), IsEmpty());
}

TEST(JobEnvironment, MasksSecrets) {
  EXPECT_THAT(job_of({"SLURM_JWT=abc", "SLURM_API_KEY=a b", "PMI_URL=http://me:abc@host", "SLURM_JOB_NAME=run 1"}),
              UnorderedElementsAre(Pair("SLURM_JWT", "***"), Pair("SLURM_API_KEY", "***"),
                                   Pair("PMI_URL", "http://me:***@host"), Pair("SLURM_JOB_NAME", "run 1")));
  EXPECT_THAT(job_of({"SLURM_JWT=abc"}, false), ElementsAre(Pair("SLURM_JWT", "abc")));
}

TEST(JobEnvironment, IsSmallAndPrintableWhateverThereIs) {
  std::vector<std::string> entries{"",
                                   "=",
                                   "RANK",
                                   "RANK=\xff\n\x1b[2J",
                                   "SLURM_=",
                                   "SLURM_A\xff=1",
                                   "SLURM_" + std::string(100'000, 'A') + "=1",
                                   "SLURM_X=" + std::string(1'000'000, 'x')};
  for (int i = 0; i < 10'000; ++i) entries.push_back("OMPI_" + std::to_string(i) + "=1");
  entries.emplace_back("WORLD_SIZE=8");  // behind all of those
  entries.emplace_back("SLURM_JOB_ID=4711");
  const Variables found = job_of(entries);
  EXPECT_THAT(found, SizeIs(max_variables));
  EXPECT_EQ(found.at("RANK"), "\\xff\\n\\x1b[2J");
  EXPECT_EQ(found.at("WORLD_SIZE"), "8");
  EXPECT_EQ(found.at("SLURM_JOB_ID"), "4711");
  EXPECT_EQ(found.at("SLURM_X").size(), 1000U);
  for (const auto& [name, value] : found) EXPECT_TRUE(is_printable(name) && is_printable(value)) << name;
}

TEST(JobEnvironment, TheFirstOfANameCounts) { EXPECT_EQ(job_of({"RANK=1", "RANK=2"}).at("RANK"), "1"); }

TEST(LoadedVersions, AreReadFromTheNamesOfFiles) {
  const std::filesystem::path torch = std::filesystem::path(::testing::TempDir()) / "memreel_job_test/torch";
  std::filesystem::create_directories(torch / "lib");
  std::ofstream(torch / "version.py") << "from typing import Optional\n__version__ = '2.8.0+cu128'\ndebug = False\n";
  std::istringstream maps(
      "55d0-55d1 r--p 00000000 00:00 1   /usr/bin/python3.12\n"
      "7f00-7f01 r--p 00000000 00:00 0 \n"
      "7f01-7f02 r-xp 00000000 00:00 2   /usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15\n"
      "7f02-7f03 r-xp 00000000 00:00 3   /opt/nvidia/libcudart-9335f6a2.so.12.4.127\n"
      "7f03-7f04 r-xp 00000000 00:00 4   /usr/lib/libcudadebugger.so.1\n"
      "7f04-7f05 r-xp 00000000 00:00 5   " +
      (torch / "lib/libtorch_cpu.so").string() + "\n");
  EXPECT_THAT(loaded_versions(maps), ElementsAre(Pair("cuda.driver", "570.86.15"), Pair("cuda.runtime", "12.4.127"),
                                                 Pair("python", "3.12"), Pair("torch", "2.8.0+cu128")));
  std::filesystem::remove_all(torch.parent_path());
}

TEST(LoadedVersions, AreNotMadeUp) {
  std::istringstream maps(
      "1-2 r--p 0 0:0 1 /x/python\n1-2 r--p 0 0:0 1 /x/pythonista3\n1-2 r--p 0 0:0 1 /x/libcuda.so\n"
      "1-2 r--p 0 0:0 1 /nowhere/torch/lib/libtorch_cpu.so\n/\n\n");
  EXPECT_THAT(loaded_versions(maps), IsEmpty());
}

}  // namespace
}  // namespace memreel::agent
