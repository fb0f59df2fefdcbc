// SPDX-License-Identifier: Apache-2.0
// Addresses and the modules that contain them.
#include "collector/stacks/module_table.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/unit/stacks/c_library.h"

namespace memreel::stacks {
namespace {

std::uintptr_t address_of(void* function) { return reinterpret_cast<std::uintptr_t>(function); }

TEST(ModuleTable, FindsTheProgramAndItsLibraries) {
  ModuleTable table;
  EXPECT_TRUE(table.refresh().empty());
  const ModuleTable::Index own = table.find(address_of(reinterpret_cast<void*>(&address_of)));
  ASSERT_NE(own, ModuleTable::none);
  EXPECT_EQ(table[own].path, std::filesystem::read_symlink("/proc/self/exe").string());

  const ModuleTable::Index libc = table.find(testing::code_of_c_library());
  ASSERT_NE(libc, ModuleTable::none);
  EXPECT_NE(table[libc].path.find("/libc.so"), std::string::npos);
  EXPECT_EQ(table[libc].build_id.size(), 20U);

  int on_stack = 0;
  EXPECT_EQ(table.find(address_of(&on_stack)), ModuleTable::none);
}

TEST(ModuleTable, FollowsWhatIsLoadedAndUnloaded) {
  ModuleTable table;
  table.refresh();
  const std::size_t before = table.size();

  void* library = dlopen(SHAPES_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const std::uintptr_t address = address_of(dlsym(library, "shapes_of_library"));
  EXPECT_EQ(table.find(address), ModuleTable::none);
  EXPECT_TRUE(table.refresh().empty());
  const ModuleTable::Index module = table.find(address);
  ASSERT_NE(module, ModuleTable::none);
  EXPECT_EQ(table[module].path, std::filesystem::canonical(SHAPES_LIBRARY).string());
  EXPECT_TRUE(table[module].range.contains(address));
  EXPECT_EQ(table.size(), before + 1);
  EXPECT_TRUE(table.refresh().empty());

  dlclose(library);
  EXPECT_EQ(table.refresh(), std::vector{table[module].range});
  EXPECT_EQ(table.find(address), module) << "a stack taken before it went is still its own";
  EXPECT_TRUE(table.refresh().empty());

  // A module loaded at the same place owns the address from now on.
  library = dlopen(SHAPES_LIBRARY_FP, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  table.refresh();
  const std::uintptr_t other_address = address_of(dlsym(library, "shapes_of_library"));
  const ModuleTable::Index other = table.find(other_address);
  ASSERT_NE(other, ModuleTable::none);
  EXPECT_EQ(table[other].path, std::filesystem::canonical(SHAPES_LIBRARY_FP).string());
  dlclose(library);
  table.refresh();

  library = dlopen(SHAPES_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  table.refresh();
  const ModuleTable::Index again = table.find(address_of(dlsym(library, "shapes_of_library")));
  EXPECT_EQ(table[again].path, table[module].path);
  // The same number, if the loader placed it at the same address.
  EXPECT_EQ(again == module, table[again].range == table[module].range);
  dlclose(library);
}

}  // namespace
}  // namespace memreel::stacks
