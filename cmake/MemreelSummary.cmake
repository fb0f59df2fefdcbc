# What is built and what is not, and why.
message(STATUS "memreel ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}")
