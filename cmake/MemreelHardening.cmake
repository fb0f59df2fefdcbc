# What is installed binds its symbols once, when it starts, and can't be made to call elsewhere later: full RELRO.
if(NOT MEMREEL_SANITIZE)
  foreach(target memreel memreel-agent memreel-attach memreel-record memreel-view)
    if(TARGET ${target})
      target_link_options(${target} PRIVATE LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
    endif()
  endforeach()
endif()
