// SPDX-License-Identifier: Apache-2.0
/* Places allocations one after the other in 64 MiB, and answers wrongly as the parameter `lie` selects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memreel/policy.h"

typedef struct liar {
  memreel_environment environment;
  const char* lie; /* our own string: memreel's are freed when create() returns */
  uint64_t begin, end, used;
  memreel_extent last;
} liar;

static const uint64_t pool = 64U << 20;

static int lies(const liar* l, const char* how) { return strcmp(l->lie, how) == 0; }

static void* create(const memreel_parameter* parameters, size_t count, const memreel_environment* environment,
                    // NOLINTNEXTLINE(readability-non-const-parameter): as in memreel/policy.h
                    char* error, size_t error_size) {
  static const char* const known[] = {"none",     "overlap",  "small", "outside", "beyond",
                                      "empty",    "overflow", "zero",  "unknown", "release in use",
                                      "too free", "largest",  "crash", "exit",    "print"};
  liar* l = calloc(1, sizeof *l);
  l->environment = *environment;
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    if (count == 1 && strcmp(parameters[0].value, known[i]) == 0) l->lie = known[i];
  if (!l->lie) {
    free(l);
    (void)error;
    (void)error_size; /* not a word: that too is answered */
    return NULL;
  }
  environment->reserve(environment->device, pool, &l->begin);
  l->end = l->begin;
  return l;
}

static void destroy(void* policy) { free(policy); }

static int allocate(void* policy, uint32_t slot, uint64_t size, uint32_t pool_stream) {
  liar* l = policy;
  uint64_t address;
  (void)slot;
  (void)pool_stream;
  l->last.address = l->end;
  l->last.size = size;
  l->end += size;
  l->used += size;
  if (lies(l, "overlap") && l->last.address > l->begin) l->last.address -= 1;
  if (lies(l, "crash")) abort();
  if (lies(l, "exit")) exit(0);
  if (lies(l, "print")) puts("a word of the policy's own");
  if (lies(l, "small")) l->last.size -= 1;
  if (lies(l, "outside")) l->last.address = l->begin - 1;
  if (lies(l, "beyond")) l->last.address = l->begin + pool - size + 1;
  if (lies(l, "empty")) l->last.size = 0;
  if (lies(l, "overflow")) l->last.size = ~(uint64_t)0;
  if (lies(l, "zero")) l->environment.reserve(l->environment.device, 0, &address);
  if (lies(l, "unknown")) l->environment.release(l->environment.device, l->begin + 512);
  if (lies(l, "release in use") && l->last.address > l->begin) l->environment.release(l->environment.device, l->begin);
  return 1;
}

static void free_completed(void* policy, uint32_t slot) {
  (void)policy;
  (void)slot;
}

static memreel_extent extent_of(const void* policy, uint32_t slot) {
  (void)slot;
  return ((const liar*)policy)->last;
}

static memreel_statistics statistics(const void* policy) {
  const liar* l = policy;
  uint64_t unused = l->begin + pool - l->end;
  if (lies(l, "too free") && l->used > 0) unused += 1;
  if (lies(l, "largest") && l->used > 0) return (memreel_statistics){unused, unused + 1};
  return (memreel_statistics){unused, unused};
}

#ifndef VERSION
#define VERSION MEMREEL_POLICY_VERSION
#endif
#ifndef SIZE
#define SIZE sizeof(memreel_policy)
#endif
#ifdef LACKING
#define STATISTICS NULL
#else
#define STATISTICS statistics
#endif
#ifndef SYMBOL
#define SYMBOL memreel_policy_get
#endif

const memreel_policy* SYMBOL(void);

const memreel_policy* SYMBOL(void) {
  static const memreel_policy policy = {.version = VERSION,
                                        .struct_size = SIZE,
                                        .description = "a liar",
                                        .create = create,
                                        .destroy = destroy,
                                        .allocate = allocate,
                                        .free_completed = free_completed,
                                        .extent_of = extent_of,
                                        .statistics = STATISTICS};
  (void)statistics;
  return &policy;
}
