// Our dlsym. It must not call the C library's but jump to it: what RTLD_NEXT and RTLD_DEFAULT mean depends on the
// library that the call returns into. So it asks whether the symbol is one of ours (memreel_our_symbol), and goes on as
// if it had never been there when it is not.
//
// Only for x86-64. Elsewhere programs that look the driver's functions up with dlsym are not seen by the interposer;
// those that are linked with libcuda are.
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
