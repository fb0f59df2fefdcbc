// SPDX-License-Identifier: Apache-2.0
/* An annotated C99 library that does not depend on a recorder: it must load and run with and without one. */
#include "collector/include/memreel/memreel.h"

#define SHOWN __attribute__((visibility("default")))

SHOWN int annotated_connected(void) { return memreel_recorder() != 0; }
SHOWN int annotated_connect(void) { return memreel_connect(); }

SHOWN memreel_pool annotated_pool(const char* name, memreel_pool parent, int device) {
  return memreel_pool_create(name, MEMREEL_POOL_ARENA, parent, device);
}

/* Everything that can happen to a pool. */
SHOWN void annotated_life(memreel_pool pool) {
  static char memory[4096];
  memreel_event both[2] = {{MEMREEL_ALLOC, 0, 0, 0, 300, 0}, {MEMREEL_FREE, 0, 0, 0, 0, 0}};
  both[0].pool = both[1].pool = pool;
  both[0].address = both[1].address = (uint64_t)(uintptr_t)&memory[2048];
  memreel_segment_add(pool, memory, sizeof memory);
  memreel_alloc(pool, memory, 100, 0);
  memreel_alloc(pool, memory + 1024, 200, (void*)7);
  memreel_free(pool, memory);
  memreel_free_requested(pool, memory + 1024);
  memreel_free_completed(pool, memory + 1024);
  memreel_batch(both, 2);
  memreel_oom(pool, 1 << 30);
  memreel_segment_remove(pool, memory);
  memreel_pool_destroy(pool);
}

SHOWN void annotated_marks(void) {
  memreel_tag_push("epoch");
  memreel_mark("checkpoint");
  memreel_step();
  memreel_tag_pop("epoch");
  memreel_snapshot();
}
