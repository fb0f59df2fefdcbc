// SPDX-License-Identifier: Apache-2.0
// What a seccomp filter of the program would do to our threads.
#pragma once

#include <linux/filter.h>

#include <span>

namespace memreel::agent {

/// Whether a filter lets every system call pass that our threads make. It is run here as the kernel would run it
/// (Documentation/userspace-api/seccomp_filter.rst), with arguments of zero; a program that the kernel would not accept
/// lets nothing pass.
bool lets_own_threads_live(std::span<const sock_filter> filter);

/// The same of the argument of seccomp(2), whatever that points to: what can't be read is no filter, and does no harm.
bool lets_own_threads_live(const sock_fprog* filter);

}  // namespace memreel::agent
