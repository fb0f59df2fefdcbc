/* Every size is rounded up to a power of two, at least `min`; what is let go of is kept for requests of the same size.
 *
 *     cc -std=c99 -O2 -shared -fPIC -I analyzer/include samples/policies/powers.c -o powers.so
 *     memreel replay samples/traces/gpt_default.reel --policy './powers.so,./powers.so{min=2097152}' */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memreel/policy.h"

typedef struct piece {
  memreel_extent extent;
  struct piece *next;
} piece;

typedef struct powers {
  memreel_environment environment;
  uint64_t min, free;
  piece **of_slot;
  piece *unused[64]; /* by the logarithm of the size */
} powers;

static unsigned order_of(uint64_t size) {
  unsigned order = 0;
  while (order < 63 && (uint64_t)1 << order < size) ++order;
  return order;
}

static void *create(const memreel_parameter *parameters, size_t count, const memreel_environment *environment,
                    char *error, size_t error_size) {
  powers *p = calloc(1, sizeof *p);
  p->environment = *environment;
  p->min = 512;
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(parameters[i].key, "min") == 0) p->min = strtoull(parameters[i].value, NULL, 10);
    else snprintf(error, error_size, "there is no parameter '%s', only min", parameters[i].key);
  }
  if (*error == '\0') p->of_slot = calloc(environment->slot_count, sizeof *p->of_slot);
  if (*error == '\0') return p;
  free(p);
  return NULL;
}

static int allocate(void *policy, uint32_t slot, uint64_t size, uint32_t lane) {
  powers *p = policy;
  unsigned order = order_of(size > p->min ? size : p->min);
  piece *taken = p->unused[order];
  (void)lane; /* memory serves any stream */
  if (taken) {
    p->unused[order] = taken->next;
    p->free -= taken->extent.size;
  } else {
    memreel_extent extent = {0, (uint64_t)1 << order};
    if (!p->environment.reserve(p->environment.device, extent.size, &extent.address)) return 0;
    taken = malloc(sizeof *taken);
    taken->extent = extent;
  }
  p->of_slot[slot] = taken;
  return 1;
}

static void free_completed(void *policy, uint32_t slot) {
  powers *p = policy;
  piece *freed = p->of_slot[slot], **list = &p->unused[order_of(freed->extent.size)];
  freed->next = *list;
  *list = freed;
  p->of_slot[slot] = NULL;
  p->free += freed->extent.size;
}

static memreel_extent extent_of(const void *policy, uint32_t slot) {
  return ((const powers *)policy)->of_slot[slot]->extent;
}

static memreel_statistics statistics(const void *policy) {
  const powers *p = policy;
  unsigned order = 63;
  while (order > 0 && !p->unused[order]) --order;
  return (memreel_statistics){p->free, p->unused[order] ? p->unused[order]->extent.size : 0};
}

static void empty_cache(void *policy) {
  powers *p = policy;
  for (unsigned order = 0; order < 64; ++order) {
    while (p->unused[order]) {
      piece *gone = p->unused[order];
      p->unused[order] = gone->next;
      p->environment.release(p->environment.device, gone->extent.address);
      free(gone);
    }
  }
  p->free = 0;
}

static void destroy(void *policy) {
  powers *p = policy;
  empty_cache(p);
  for (uint32_t slot = 0; slot < p->environment.slot_count; ++slot) free(p->of_slot[slot]);
  free(p->of_slot);
  free(p);
}

const memreel_policy *memreel_policy_get(void) {
  static const memreel_policy policy = {
      .version = MEMREEL_POLICY_VERSION, .struct_size = sizeof(memreel_policy), .description = "powers of two, kept",
      .unit = 512, .create = create, .destroy = destroy, .allocate = allocate, .free_completed = free_completed,
      .extent_of = extent_of, .statistics = statistics, .empty_cache = empty_cache};
  return &policy;
}
