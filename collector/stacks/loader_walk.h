// What threads of ours do with the loader, beside fork(2): the child of a fork inherits the loader's locks as they are,
// and one that a thread of ours held there would be held for ever.
#pragma once

#include <link.h>

#include <cstddef>

namespace memreel::stacks {

/// While one lives, a fork waits that is announced by hold_loader_uses(). It waits for a fork that is under way, but
/// never for another of its kind, and for a second at most: nobody waits here for what waits for him.
class LoaderUse {
 public:
  LoaderUse();
  LoaderUse(const LoaderUse&) = delete;
  LoaderUse& operator=(const LoaderUse&) = delete;
  ~LoaderUse();
};

/// What dl_iterate_phdr(3) does, within a LoaderUse. `visit` must not load or look for libraries (dlopen): another
/// thread that does holds the loader's two locks in the other order.
int walk_loaded_modules(int (*visit)(dl_phdr_info*, std::size_t, void*), void* argument);

/// Before a fork, in the thread that forks: waits until nobody uses the loader and lets nobody begin to. After some
/// moments it gives up: who uses it may wait for a lock that the forking thread has.
void hold_loader_uses();

/// After a fork, in the parent.
void release_loader_uses();

/// After a fork, in the child, where only the calling thread is left.
void forget_loader_uses();

}  // namespace memreel::stacks
