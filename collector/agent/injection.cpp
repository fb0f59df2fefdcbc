// The doors through which the library is entered from outside.

extern "C" {

/// Called by the CUDA driver within cuInit when CUDA_INJECTION64_PATH names this library. 1: all is well.
[[gnu::visibility("default")]] int InitializeInjection() { return 1; }
}
