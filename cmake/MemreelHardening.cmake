# What makes a mistake in the code harder to use, for every program and library of this project. MemreelOptions has the
# target `memreel_options` that all of them link; tests/e2e/test_hardening.py looks at what is installed.
#
# Not under sanitizers, which find the same mistakes and more, and have readers of bytes of their own.
option(MEMREEL_HARDENING "Stack protector, fortified calls, control flow protection, full RELRO" ON)
if(MEMREEL_SANITIZE OR NOT MEMREEL_HARDENING)
  return()
endif()

# A function with an array on its stack, or a variable whose address is taken, checks a secret before it returns. Not in
# what runs in recorded programs at every event, where that took a sixth of the time (docs/measurements.md): what is read
# there is the recorded program's own memory.
set(at_every_event "")
foreach(target cuda interned python recorder stacks torch)
  list(APPEND at_every_event $<STREQUAL:$<TARGET_PROPERTY:NAME>,memreel_${target}>)
endforeach()
list(JOIN at_every_event , at_every_event)
target_compile_options(memreel_options INTERFACE $<$<NOT:$<OR:${at_every_event}>>:-fstack-protector-strong>)
# Calls such as memcpy and read are checked where the size of what they write into is known. That is known by optimising.
# Options in this order rather than definitions, which come before all options: distributions define another level.
target_compile_options(memreel_options INTERFACE
  $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # Large frames touch each of their pages in order, and can't jump over the guard page below a stack.
  target_compile_options(memreel_options INTERFACE -fstack-clash-protection)
  # Indirect jumps arrive at marked places only (IBT), returns where they were called (SHSTK), on processors and systems
  # that have it. The linker marks a program when every object in it is marked, those of the C library as well.
  target_compile_options(memreel_options INTERFACE -fcf-protection=full)
endif()

# Symbols are bound once, at the start, and can't be made to lead elsewhere later (full RELRO); no stack is executable;
# programs are loaded at a random address. For what is installed: tests stand in for programs of users', who link as they
# like.
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
