// SPDX-License-Identifier: Apache-2.0
// Our dlsym. It must jump to the C library's instead of calling it: the meaning of RTLD_NEXT and RTLD_DEFAULT depends
// on the library that the call returns to. So it checks whether the symbol is one of ours (memreel_our_symbol), and
// otherwise continues as if it had never been there.
//
// x86-64; 64-bit Arm has interposed_dlsym_aarch64.cpp. Elsewhere the interposer does not see programs that look up the
// driver's functions with dlsym, only those linked against libcuda.
#if defined(__x86_64__)
asm(R"(
    .text
    .globl  dlsym
    .type   dlsym, @function
dlsym:
    .cfi_startproc
    endbr64
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    subq    $8, %rsp
    .cfi_adjust_cfa_offset 8
    call    memreel_our_symbol
    testq   %rax, %rax
    jne     1f
    call    memreel_next_dlsym
    addq    $8, %rsp
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    jmp     *%rax
1:
    .cfi_adjust_cfa_offset 24
    addq    $24, %rsp
    .cfi_adjust_cfa_offset -24
    ret
    .cfi_endproc
    .size   dlsym, .-dlsym
)");
#endif
