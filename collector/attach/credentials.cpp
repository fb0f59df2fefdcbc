#include "collector/attach/credentials.h"

#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <string>

namespace memreel::attach {
namespace {

struct Ids {
  uid_t real = 0, effective = 0, saved = 0;
  gid_t real_group = 0, effective_group = 0, saved_group = 0;

  friend bool operator==(const Ids&, const Ids&) = default;
};

Ids current_ids() {
  Ids ids;
  ::getresuid(&ids.real, &ids.effective, &ids.saved);
  ::getresgid(&ids.real_group, &ids.effective_group, &ids.saved_group);
  return ids;
}

const Ids ids_at_load = current_ids();  // NOLINT(cert-err58-cpp): it throws nothing

/// The kernel clears this when a process changes its IDs or gains rights, even before the agent was loaded.
bool may_be_traced() {
  constexpr int by_its_user = 1;  // SUID_DUMP_USER
  return ::prctl(PR_GET_DUMPABLE) == by_its_user;
}

Error refused(std::string what) {
  return {.what = std::move(what), .remedy = "run memreel attach as root, or start the program with memreel record"};
}

}  // namespace

bool has_raised_privileges() { return ::getauxval(AT_SECURE) != 0; }

Result<void> check_controller(uid_t user) {
  if (has_raised_privileges()) return refused("runs with raised privileges (setuid, setgid or file capabilities)");
  if (user == 0) return {};
  const Ids ids = current_ids();
  if (user != ids.real || user != ids.effective || user != ids.saved)
    return refused("is not owned by user " + std::to_string(user) + " alone");
  if (ids != ids_at_load || ids.real_group != ids.effective_group || ids.real_group != ids.saved_group)
    return refused("has changed its user or group");
  if (!may_be_traced()) return refused("can't be traced by its own user");
  return {};
}

}  // namespace memreel::attach
