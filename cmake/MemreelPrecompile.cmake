# Headers that cost more to parse than the files that include them cost to compile: GoogleTest's in the tests, CLI11's and
# nlohmann/json's in the command line. They are parsed once instead of in each file. Not beside ccache, which can't share
# what was made with precompiled headers between directories.
if(MEMREEL_CCACHE)
  set(precompile OFF)
else()
  set(precompile ON)
endif()
option(MEMREEL_PRECOMPILE "Parse the largest headers once" ${precompile})

# Lets every program below a directory that links GoogleTest use its headers as `memreel_test_headers` parsed them.
function(memreel_precompile_tests directory)
  get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    if(type STREQUAL EXECUTABLE AND "${libraries}" MATCHES "GTest::" AND NOT target STREQUAL memreel_test_headers)
      target_precompile_headers(${target} REUSE_FROM memreel_test_headers)
    endif()
  endforeach()
  get_property(subdirectories DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
  foreach(subdirectory IN LISTS subdirectories)
    memreel_precompile_tests(${subdirectory})
  endforeach()
endfunction()
