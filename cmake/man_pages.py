#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a manual page from the --help of each command, and of programs that are none:

    man_pages.py FOLDER-OF-MEMREEL FOLDER VERSION [EMULATOR...]

EMULATOR: words that run a program for another processor here.
"""
import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

# Programs that have these commands. memreel starts them, which an emulator can't.
PROGRAMS = {"record": "memreel-record", "attach": "memreel-attach", "detach": "memreel-attach", "dump": "memreel-attach",
            "holders": "memreel-attach", "top": "memreel-top", "view": "memreel-view"}


def help_of(program, *command, emulator=()):
    if not os.path.exists(program):  # it is not built
        return None
    done = subprocess.run([*emulator, program, *command, "--help"], text=True, capture_output=True, stdin=subprocess.DEVNULL,
                          env=os.environ | {"COLUMNS": "400", "LC_ALL": "C.UTF-8"})
    return done.stdout if done.returncode == 0 else None


def commands_of(text):
    """The command names in the groups of `memreel --help`."""
    body = text[text.index("Options:"):text.index("A TRACE is")]
    return re.findall(r"(?m)^  ([a-z]+)  ", body)


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" + text if text.startswith(".") else text


def page(name, text, version):
    description, _, rest = text.partition("\nUsage: ")
    usage, _, body = rest.partition("\n")
    summary = " ".join(description.split()).rstrip(".")
    # The program's help says "memreel view shows a trace"; in a manual page the name precedes it.
    summary = re.sub(rf"^{name.replace('-', ' ')} ", "", summary)
    yield f'.TH {name.upper()} 1 "" "memreel {version}" "memreel"'
    yield from (".SH NAME", f"{roff(name)} \\- {roff(summary)}", ".SH SYNOPSIS", f".B {roff(usage)}")
    section, verbatim = "Usage", False
    for line in body.splitlines():
        heading = re.fullmatch(r"(\S.*):", line)
        entry = re.fullmatch(r"  (\S+(?: \S+)*)(?:  +(\S.*))?", line)
        if verbatim and not line.startswith("  "):
            yield ".fi"
            verbatim = False
        if heading:
            section = heading[1]
            yield f".SH {roff(section.upper() if len(section.split()) < 3 else section)}"
        elif section == "Examples" and line.startswith("  "):
            if not verbatim:
                yield ".nf"
            verbatim = True
            yield roff(line.strip())
        elif entry:
            yield from (".TP", f".B {roff(entry[1])}", *([roff(entry[2])] if entry[2] else []))
        elif line.startswith("  "):
            yield roff(line.strip())
        elif line:
            if section:  # prose after a table
                section = ""
                yield ".SH EXIT STATUS" if line.startswith("Exit code") else ".SH NOTES"
            yield roff(line)
        elif not section:
            yield ".PP"
    if verbatim:
        yield ".fi"
    yield from (".SH SEE ALSO", "\\fBmemreel\\fR(1)") if name != "memreel" else ()


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    programs, folder, version, *emulator = Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]
    folder.mkdir(parents=True, exist_ok=True)
    overview = help_of(programs / "memreel", emulator=emulator)
    texts = {"memreel": overview}
    for command in commands_of(overview):
        texts[f"memreel-{command}"] = help_of(programs / PROGRAMS.get(command, "memreel"), command, emulator=emulator)
    texts["memreel-fleet-mpi"] = help_of(programs / "memreel-fleet-mpi", emulator=emulator)  # which is no command of memreel
    for name, text in texts.items():
        if text is not None:  # of a program that is not built
            text = "\n".join(page(name, text, version)) + "\n"
            (folder / f"{name}.1.gz").write_bytes(gzip.compress(text.encode(), mtime=0))  # reproducible bytes


if __name__ == "__main__":
    main()
