// SPDX-License-Identifier: Apache-2.0
#include "formats/model/files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace memreel {
namespace {

namespace fs = std::filesystem;

class WholeFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "memreel-whole-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(directory_); }

  fs::path directory_;
};

TEST_F(WholeFile, HasAllBytes) {
  const std::string bytes = std::string(100'000, 'x') + std::string("\0end", 4);
  std::ofstream(directory_ / "file", std::ios::binary) << bytes;
  const auto read = read_whole_file(directory_ / "file");
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, bytes);
}

TEST_F(WholeFile, ReadsWhatHasNoSize) {
  const auto read = read_whole_file("/proc/self/maps");
  ASSERT_TRUE(read);
  EXPECT_NE(read->find("[stack]"), std::string::npos);
}

TEST_F(WholeFile, ThatIsADirectoryIsAnError) {
  const auto read = read_whole_file(directory_, "name a file");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message(), directory_.string() + ": can't be read: Is a directory (name a file)");
}

TEST_F(WholeFile, ThatIsMissingIsAnError) {
  const auto read = read_whole_file(directory_ / "nothing");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message(), (directory_ / "nothing").string() + ": can't be opened: No such file or directory");
}

TEST_F(WholeFile, WithoutEndIsAnError) {
  const auto read = read_whole_file("/dev/zero");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().what, "is larger than 256 MiB");
}

}  // namespace
}  // namespace memreel
