# SPDX-License-Identifier: Apache-2.0
"""Runs a test on every CPython 3.MINOR of this machine: each_python.py MINOR SCRIPT ARGUMENTS...

Looks in MEMREEL_TEST_PYTHONS (colon-separated programs), the folders of pyenv and uv, and PATH. Each interpreter runs
SCRIPT INTERPRETER ARGUMENTS, where INTERPRETER is its own path; twice where it has a JIT, without and with it. Exit
code 77: no interpreter found.
"""
import glob
import os
import shutil
import subprocess
import sys


def candidates(minor):
    home = os.path.expanduser("~")
    yield from filter(None, os.environ.get("MEMREEL_TEST_PYTHONS", "").split(":"))
    pyenv = os.environ.get("PYENV_ROOT", os.path.join(home, ".pyenv"))
    yield from sorted(glob.glob(f"{pyenv}/versions/3.{minor}*/bin/python3"))
    yield from sorted(glob.glob(f"{home}/.local/share/uv/python/cpython-3.{minor}*/bin/python3"))
    for folder in os.get_exec_path() + ["/usr/bin", "/usr/local/bin"]:
        yield os.path.join(folder, f"python3.{minor}")
        yield os.path.join(folder, f"python3.{minor}t")


def pythons(minor):
    """Those that start, with or without a GIL, each once: pyenv's programs in PATH are scripts that may be broken."""
    asks = "import os, sys; print(sys.version_info[1], os.path.realpath(sys.executable), sys.version)"
    seen = set()
    for program in candidates(minor):
        if not shutil.which(program):
            continue
        answer = subprocess.run([program, "-c", asks], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if answer.returncode or answer.stdout in seen or answer.stdout.split(" ")[0] != minor:
            continue
        seen.add(answer.stdout)
        yield program


def has_jit(program):
    return subprocess.run([program, "-c", "import sys; sys.exit(not sys._jit.is_available())"],
                          stderr=subprocess.DEVNULL).returncode == 0


def main():
    minor, script, *arguments = sys.argv[1:]
    found = list(pythons(minor))
    if not found:
        print(f"there is no CPython 3.{minor} here: not in MEMREEL_TEST_PYTHONS, pyenv, uv or PATH")
        return 77
    failed = 0
    for program in found:
        for jit in "01" if has_jit(program) else "0":
            print(f"{program}, PYTHON_JIT={jit}", flush=True)
            failed += subprocess.run([program, "-B", script, program, *arguments],
                                     env={**os.environ, "PYTHON_JIT": jit}).returncode != 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
