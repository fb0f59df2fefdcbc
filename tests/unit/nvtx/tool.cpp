// Makes memreel the tool of this program's copy of NVTX, which asks this variable when the environment names no
// library.
#include "collector/nvtx/ranges.h"

extern "C" {
// NOLINTNEXTLINE(readability-identifier-naming): what NVTX looks for
int (*InitializeInjectionNvtx2_fnptr)(memreel::nvtx::GetExportTable) = [](memreel::nvtx::GetExportTable get_table) {
  return memreel::nvtx::take_over(get_table) ? 1 : 0;
};
}
