// dl_iterate_phdr(3) beside fork(2): the child of a fork inherits the loader's lock as it is, and one that a thread of
// ours held there would be held for ever.
#pragma once

#include <link.h>

#include <cstddef>

namespace memreel::stacks {

/// What dl_iterate_phdr does. While it does it, a fork waits that is announced by hold_loader_walks(). `visit` must not
/// load or look for libraries (dlopen): another thread that does holds the loader's two locks in the other order.
int walk_loaded_modules(int (*visit)(dl_phdr_info*, std::size_t, void*), void* argument);

/// Before a fork, in the thread that forks: waits until no walk is under way and lets none begin. After some moments it
/// gives up: a thread that forks from within the loader must not wait for itself.
void hold_loader_walks();

/// After a fork, in the parent and in the child.
void release_loader_walks();

}  // namespace memreel::stacks
