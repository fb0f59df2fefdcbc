// SPDX-License-Identifier: Apache-2.0

#include "collector/attach/injector.h"

namespace memreel::attach {

Result<Injected> inject(pid_t process, const std::filesystem::path&, std::chrono::milliseconds) {
  return Error{.what = "can't be attached to on this processor",
               .where = "process " + std::to_string(process),
               .remedy = "start it with memreel record --dormant to attach later"};
}

}  // namespace memreel::attach
