// Makes the agent's uses of the loader safe against fork(2): the child inherits the loader's locks in their current
// state, and one held by an agent thread would stay locked forever.
#pragma once

#include <link.h>

#include <cstddef>

namespace memreel::stacks {

/// While one lives, a fork announced by hold_loader_uses() waits. Its construction waits for a fork in progress, but
/// never for another LoaderUse, and for a second at most, so there is no deadlock.
class LoaderUse {
 public:
  LoaderUse();
  LoaderUse(const LoaderUse&) = delete;
  LoaderUse& operator=(const LoaderUse&) = delete;
  ~LoaderUse();
};

/// dl_iterate_phdr(3) within a LoaderUse. `visit` must not load or look up libraries (dlopen): another thread that does
/// takes the loader's two locks in the opposite order.
int walk_loaded_modules(int (*visit)(dl_phdr_info*, std::size_t, void*), void* argument);

/// Before a fork, on the forking thread: waits until no thread uses the loader and blocks new uses. Gives up after a
/// short time: a user may be waiting for a lock that the forking thread holds.
void hold_loader_uses();

/// After a fork, in the parent.
void release_loader_uses();

/// After a fork, in the child, where only the calling thread exists.
void forget_loader_uses();

}  // namespace memreel::stacks
