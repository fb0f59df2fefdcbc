# Printed at the end of every configuration: what is built and what is not, and why.
include(FeatureSummary)

if(CUDAToolkit_FOUND)
  set(cuda_toolkit "found: CUDA ${CUDAToolkit_VERSION}")
elseif(MEMREEL_CUDA)
  set(cuda_toolkit "not found")
else()
  set(cuda_toolkit "not looked for: MEMREEL_CUDA is off")
endif()

# Rooms of later versions. They are listed so that nobody searches for a switch that would turn them on.
set(MEMREEL_VIEWER OFF)

add_feature_info(formats TRUE "the trace, its importers and exporters")
add_feature_info(analyzer TRUE "replay, reports and the program memreel")
add_feature_info(collector TRUE "memreel-record and the library that it puts into programs; needs nothing of CUDA to build")
add_feature_info(cuda-samples CUDAToolkit_FOUND "programs that leak and fragment on purpose; CUDA toolkit ${cuda_toolkit}")
add_feature_info(viewer MEMREEL_VIEWER "browses a trace: not part of version ${PROJECT_VERSION}")
add_feature_info(tests MEMREEL_TESTS "switch: MEMREEL_TESTS")
add_feature_info(benchmarks MEMREEL_BENCH "switch: MEMREEL_BENCH")
add_feature_info(fuzzers MEMREEL_FUZZ "switch: MEMREEL_FUZZ, with Clang")

message(STATUS "memreel ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
if(MEMREEL_SANITIZE)
  message(STATUS "Sanitizers: ${MEMREEL_SANITIZE}")
endif()
feature_summary(WHAT ENABLED_FEATURES DESCRIPTION "Built:" QUIET_ON_EMPTY)
feature_summary(WHAT DISABLED_FEATURES DESCRIPTION "Not built:" QUIET_ON_EMPTY)
