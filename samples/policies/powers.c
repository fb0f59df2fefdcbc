// SPDX-License-Identifier: Apache-2.0
/* Every size is rounded up to a power of two, at least `min`; freed memory is kept for requests of the same size.
 *
 *     cc -std=c99 -O2 -shared -fPIC -I analyzer/include samples/policies/powers.c -o powers.so
 *     memreel replay samples/traces/gpt_default.reel --policy './powers.so,./powers.so{min=2097152}' */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memreel/policy.h"

typedef struct powers {
  memreel_environment environment;
  uint64_t min, free;
  memreel_extent* of_slot;
  uint64_t* kept[64]; /* addresses, by the logarithm of the size */
  uint32_t count[64];
} powers;

static unsigned order_of(uint64_t size) {
  unsigned order = 0;
  while (order < 63 && (uint64_t)1 << order < size) ++order;
  return order;
}

static void* create(const memreel_parameter* parameters, size_t count, const memreel_environment* environment,
                    char* error, size_t error_size) {
  powers* p = calloc(1, sizeof *p);
  p->environment = *environment;
  p->of_slot = calloc(environment->slot_count, sizeof *p->of_slot);
  p->min = 512;
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(parameters[i].key, "min") == 0) {
      p->min = strtoull(parameters[i].value, NULL, 10);
    } else {
      snprintf(error, error_size, "there is no parameter '%s', only min", parameters[i].key);
      free(p->of_slot);
      free(p);
      return NULL;
    }
  }
  return p;
}

static int allocate(void* policy, uint32_t slot, uint64_t size, uint32_t pool_stream) {
  powers* p = policy;
  memreel_extent* extent = &p->of_slot[slot];
  unsigned order = order_of(size > p->min ? size : p->min);
  (void)pool_stream; /* memory serves any stream */
  extent->size = (uint64_t)1 << order;
  if (p->count[order] == 0) return p->environment.reserve(p->environment.device, extent->size, &extent->address);
  extent->address = p->kept[order][--p->count[order]];
  p->free -= extent->size;
  return 1;
}

static void free_completed(void* policy, uint32_t slot) {
  powers* p = policy;
  unsigned order = order_of(p->of_slot[slot].size);
  if (!p->kept[order]) p->kept[order] = calloc(p->environment.slot_count, sizeof **p->kept);
  p->kept[order][p->count[order]++] = p->of_slot[slot].address; /* never more than were live at once: slot_count */
  p->free += p->of_slot[slot].size;
}

static memreel_extent extent_of(const void* policy, uint32_t slot) { return ((const powers*)policy)->of_slot[slot]; }

static memreel_statistics statistics(const void* policy) {
  const powers* p = policy;
  unsigned order = 63;
  while (order > 0 && p->count[order] == 0) --order;
  return (memreel_statistics){p->free, p->count[order] ? (uint64_t)1 << order : 0};
}

static void empty_cache(void* policy) {
  powers* p = policy;
  p->free = 0;
  for (unsigned order = 0; order < 64; ++order)
    while (p->count[order]) p->environment.release(p->environment.device, p->kept[order][--p->count[order]]);
}

static void destroy(void* policy) {
  powers* p = policy;
  for (unsigned order = 0; order < 64; ++order) free(p->kept[order]);
  free(p->of_slot);
  free(p);
}

const memreel_policy* memreel_policy_get(void) {
  static const memreel_policy policy = {.version = MEMREEL_POLICY_VERSION,
                                        .struct_size = sizeof(memreel_policy),
                                        .description = "powers of two, kept",
                                        .unit = 512,
                                        .create = create,
                                        .destroy = destroy,
                                        .allocate = allocate,
                                        .free_completed = free_completed,
                                        .extent_of = extent_of,
                                        .statistics = statistics,
                                        .empty_cache = empty_cache};
  return &policy;
}
