// SPDX-License-Identifier: Apache-2.0
// Makes memreel the tool of this program's copy of NVTX, which reads this variable when the environment names no
// library.
#include "collector/nvtx/nvtx.h"

extern "C" {
// NOLINTNEXTLINE(readability-identifier-naming): what NVTX looks for
int (*InitializeInjectionNvtx2_fnptr)(memreel::nvtx::GetExportTable) = [](memreel::nvtx::GetExportTable get_table) {
  return memreel::nvtx::take_over(get_table) ? 1 : 0;
};
// NOLINTNEXTLINE(readability-identifier-naming): likewise
int (*InitializeInjectionNvtxExtension_fnptr)(const memreel::nvtx::ExtensionInfo*) =
    [](const memreel::nvtx::ExtensionInfo* info) {
      return memreel::nvtx::take_over_memory(*info, [] { return 3; }) || memreel::nvtx::take_over_payloads(*info) ? 1
                                                                                                                  : 0;
    };
}
