// SPDX-License-Identifier: Apache-2.0
// A program that is delicate in the way that its argument names, and uses the GPU again and again until SIGTERM. Prints
// "ready", then how many rounds it did and how many went wrong.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

typedef unsigned long long address;
static int (*allocate)(address*, size_t), (*release)(address), (*use)(void*);
static void* context;
static atomic_bool over;
static atomic_long rounds, wrong, ticks;

static void end(int number) { over = number != 0; }
static void tick(int number) { ticks += number != 0; }

static void require(int holds) {
  if (!holds) ++wrong;
}

static void use_gpu(void) {
  address block = 0;
  require(allocate(&block, 512) == 0 && release(block) == 0);
}

static void* use_gpu_in_thread(void* unused) {
  use(context);
  use_gpu();
  return unused;
}

static void run_thread(size_t stack) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  if (stack != 0) pthread_attr_setstacksize(&attributes, stack);
  require(pthread_create(&thread, &attributes, use_gpu_in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
  pthread_attr_destroy(&attributes);
}

static void small_stacks(void) { run_thread(32 << 10); }

static ucontext_t outside;
static void fibres(void) {
  enum { count = 8, size = 16 << 10 };
  static char stacks[count][size] __attribute__((aligned(4096)));
  static ucontext_t fibre[count];
  for (int i = 0; i < count; ++i) {
    getcontext(&fibre[i]);
    fibre[i].uc_stack.ss_sp = stacks[i];
    fibre[i].uc_stack.ss_size = size;
    fibre[i].uc_link = &outside;
    makecontext(&fibre[i], use_gpu, 0);
    require(swapcontext(&outside, &fibre[i]) == 0);
  }
}

// A malloc that takes large blocks from the GPU under a lock: whoever calls it from inside, the driver's small blocks
// apart, waits for ever.
static pthread_mutex_t heap = PTHREAD_MUTEX_INITIALIZER;
void* __libc_malloc(size_t);
void* __libc_realloc(void*, size_t);
void* malloc(size_t size) {
  if (size != 3 << 20) return __libc_malloc(size);
  pthread_mutex_lock(&heap);
  use_gpu();
  void* const block = __libc_malloc(size);
  pthread_mutex_unlock(&heap);
  return block;
}
void* realloc(void* old, size_t size) {
  pthread_mutex_lock(&heap);
  void* const block = __libc_realloc(old, size);
  pthread_mutex_unlock(&heap);
  return block;
}
static void* malloc_in_thread(void* unused) {
  use(context);
  void* volatile const block = malloc(3 << 20);
  free(block);
  return unused;
}
static void locked_malloc(void) {
  pthread_t thread;
  require(pthread_create(&thread, NULL, malloc_in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

static void signals(void) {
  static char stack[64 << 10];
  if (rounds == 0) {
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    const struct sigaction action = {.sa_handler = tick, .sa_flags = SA_ONSTACK};  // calls are interrupted
    const struct itimerval often = {{0, 500}, {0, 500}};
    sigaltstack(&other, NULL);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
  }
  use_gpu();
}

static void forks(void) {
  const pid_t child = fork();
  if (child == 0) _exit(7);
  int status = 0;
  require(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
  use_gpu();
}

static void closes_all(void) {
  for (int file = 3; file < 256; ++file) close(file);
  use_gpu();
}

static void no_descriptors(void) {
  while (dup(1) >= 0) continue;
  use_gpu();
}

static void no_memory(void) {
  const struct rlimit limit = {1, 1};  // of what is mapped from now on
  if (rounds == 0) setrlimit(RLIMIT_AS, &limit);
  use_gpu();
}

static void unloads(void) {
  void* const library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
  require(library != NULL && dlclose(library) == 0);
  use_gpu();
}

static const struct {
  const char* name;
  void (*round)(void);
} ways[] = {{"small_stacks", small_stacks},
            {"fibres", fibres},
            {"locked_malloc", locked_malloc},
            {"signals", signals},
            {"forks", forks},
            {"closes_all", closes_all},
            {"no_descriptors", no_descriptors},
            {"no_memory", no_memory},
            {"unloads", unloads},
            {"main_leaves", use_gpu}};

static void (*chosen)(void);
static void* work(void* unused) {
  use(context);
  while (!over) {
    chosen();
    if (rounds++ == 0) {
      puts("ready");
      fflush(stdout);
    }
    usleep(200);
  }
  printf("rounds %ld wrong %ld\n", (long)rounds, (long)wrong);
  fflush(stdout);
  _exit(wrong != 0);
  return unused;
}

int main(int argc, char** argv) {
  struct rlimit files = {256, 256};
  setrlimit(RLIMIT_NOFILE, &files);
  const struct sigaction action = {.sa_handler = end, .sa_flags = SA_RESTART};
  sigaction(SIGTERM, &action, NULL);
  void* const cuda = dlopen("libcuda.so.1", RTLD_NOW);
  if (cuda == NULL || argc < 2) return 2;
  int (*const begin)(unsigned) = dlsym(cuda, "cuInit");
  int (*const retain)(void**, int) = dlsym(cuda, "cuDevicePrimaryCtxRetain");
  use = dlsym(cuda, "cuCtxSetCurrent");
  allocate = dlsym(cuda, "cuMemAlloc_v2");
  release = dlsym(cuda, "cuMemFree_v2");
  if (begin(0) != 0 || retain(&context, 0) != 0 || use(context) != 0) return 2;
  for (size_t i = 0; i < sizeof ways / sizeof *ways; ++i)
    if (strcmp(argv[1], ways[i].name) == 0) chosen = ways[i].round;
  if (chosen == NULL) return 2;
  if (strcmp(argv[1], "main_leaves") != 0) work(NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  pthread_exit(NULL);
}
