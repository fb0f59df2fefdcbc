// SPDX-License-Identifier: Apache-2.0
// Our dlsym, as interposed_dlsym.cpp has it for x86-64: the C library's is jumped to with the program's return address.
asm(R"(
    .text
    .globl  dlsym
    .type   dlsym, %function
dlsym:
    .cfi_startproc
    hint    #34                 // bti c
    stp     x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset x29, -32
    .cfi_offset x30, -24
    mov     x29, sp
    stp     x0, x1, [sp, #16]
    bl      memreel_our_symbol
    cbnz    x0, 1f
    bl      memreel_next_dlsym
    mov     x16, x0
    ldp     x0, x1, [sp, #16]
    .cfi_remember_state
    ldp     x29, x30, [sp], #32
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    br      x16
1:
    .cfi_restore_state
    ldp     x29, x30, [sp], #32
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa_offset 0
    ret
    .cfi_endproc
    .size   dlsym, .-dlsym
)");
