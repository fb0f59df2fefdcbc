// Addresses and the modules they lie in.
#include "collector/stacks/module_table.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

namespace memreel::stacks {
namespace {

std::uintptr_t address_of(void* function) { return reinterpret_cast<std::uintptr_t>(function); }

TEST(ModuleTable, FindsTheProgramAndItsLibraries) {
  ModuleTable table;
  EXPECT_TRUE(table.refresh().empty());
  const ModuleTable::Index own = table.find(address_of(reinterpret_cast<void*>(&address_of)));
  ASSERT_NE(own, ModuleTable::none);
  EXPECT_EQ(table[own].path, std::filesystem::read_symlink("/proc/self/exe").string());

  const ModuleTable::Index libc = table.find(address_of(dlsym(RTLD_NEXT, "qsort")));
  ASSERT_NE(libc, ModuleTable::none);
  EXPECT_NE(table[libc].path.find("/libc.so"), std::string::npos);
  EXPECT_EQ(table[libc].build_id.size(), 20U);

  int on_stack = 0;
  EXPECT_EQ(table.find(address_of(&on_stack)), ModuleTable::none);
}

}  // namespace
}  // namespace memreel::stacks
