# SPDX-License-Identifier: Apache-2.0
# Exploit mitigations for every program and library of this project. MemreelOptions defines the target
# `memreel_options`, which all of them link; tests/e2e/test_hardening.py checks what is installed.
#
# Not under sanitizers: they find the same bugs and more, and have their own checks of memcpy and the like.
option(MEMREEL_HARDENING "Stack protector, fortified calls, control flow protection, full RELRO" ON)
if(MEMREEL_SANITIZE OR NOT MEMREEL_HARDENING)
  return()
endif()

# Stack protector: functions with a stack array or an address-taken variable check a canary before they return. Omitted
# in code that runs at every event of a recorded program, where it cost a sixth of the time (docs/measurements.md): the
# data read there is the recorded program's own memory.
set(at_every_event "")
foreach(target cuda interned python recorder stacks torch)
  list(APPEND at_every_event $<STREQUAL:$<TARGET_PROPERTY:NAME>,memreel_${target}>)
endforeach()
list(JOIN at_every_event , at_every_event)
target_compile_options(memreel_options INTERFACE $<$<NOT:$<OR:${at_every_event}>>:-fstack-protector-strong>)
# Checks calls such as memcpy and read where the destination's size is known, which takes optimization. Passed as
# options in this order rather than as definitions, which precede all options: distributions define another level.
target_compile_options(memreel_options INTERFACE
  $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # Large frames touch each of their pages in order, so they can't jump over the guard page below the stack.
  target_compile_options(memreel_options INTERFACE -fstack-clash-protection)
  # Indirect jumps land only on marked targets (IBT) and returns only at their call sites (SHSTK), on processors and
  # systems that support it. The linker marks a program only if every object in it is marked, including the C library's.
  target_compile_options(memreel_options INTERFACE -fcf-protection=full)
endif()

# Full RELRO: symbols are bound once at startup and can't be redirected later. No stack is executable, and programs load
# at a random address. Only for what is installed: tests stand in for user programs, which link as they like.
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)
function(memreel_harden_links)
  foreach(target memreel memreel-agent memreel-attach memreel-fleet-mpi memreel-record memreel-top memreel-view)
    if(TARGET ${target})
      target_link_options(${target} PRIVATE LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
    endif()
  endforeach()
endfunction()
cmake_language(DEFER CALL memreel_harden_links)  # when they are known
