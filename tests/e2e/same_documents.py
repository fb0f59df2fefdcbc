#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether two builds of memreel say the same of the same histories, for those who change how it is made but not what it says.

    tests/e2e/same_documents.py OLD/bin/memreel NEW/bin/memreel [--only TEXT] [HISTORY...]
    tests/e2e/same_documents.py --renew build/release/bin/memreel

The first form runs every command below with both programs, and memreel-view beside them if Xvfb is installed. What differs is
shown from its first line on. Without names it takes all histories, those of shared/histories and the samples, which takes
minutes. A directory is a job; text is a log to explain. Exit code 0: all the same; 1: something differs; 2: bad usage.

The second form writes tests/golden/documents.txt, the digests with which e2e.same_documents compares: of a dozen small histories and
a job. Before renewing them, build the old commit in another worktree and look at what the first form shows.

Times that a command took, the program's version and compression are left out of the comparison.
"""

import argparse
import difflib
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice, zip_longest
from pathlib import Path

import histories
import viewing
from program import REPOSITORY, SAMPLES

KEPT = REPOSITORY / "tests/golden/documents.txt"
DOZEN = [*(f"samples/traces/{name}" for name in (
    "gpt_default.reel", "graphs_default.reel", "jax_oom_growth.xplane.pb.gz", "leak.reel", "mempools_s82_default.pickle.xz",
    "oom_expandable.reel", "peers_s80731_gc.pickle.xz", "pressure_s2_gc.pickle.xz", "rmm_third_run.csv", "streams_default.reel")),
    "tests/data/releases/2.15.0-pinned-97465.pickle.xz", "tests/data/job/mesh/1.reel", "tests/data/job/pipeline"]

# Run in this order, in a directory of their own, for each history. What they write is compared, too; plans with a bounded search.
OF_A_HISTORY = """
info HISTORY
info HISTORY --json
import HISTORY -o made.reel
export made.reel --format jsonl
report HISTORY
report HISTORY --format markdown
report HISTORY --format html
report HISTORY --format json
report HISTORY --live --by stack
report HISTORY --live --by category --at end
report HISTORY --leaks
report HISTORY --fragmentation
report HISTORY --oom
report HISTORY --tree
report HISTORY --summary
report HISTORY --allocations --format json
report HISTORY --all-frames --top 30
replay HISTORY
replay HISTORY --json --series --policy bound.live,cuda.malloc,cuda.async,torch.native,torch.expandable,tf.bfc,rmm.pool,fit.best,tlsf
replay HISTORY --json --capacity 1GiB
verify HISTORY
verify HISTORY --json
tune HISTORY
tune HISTORY --json
plan HISTORY --effort 1000000 -o made.csv
plan HISTORY --effort 1000000 --json
diff HISTORY@peak @end
diff HISTORY@peak @end --json
check HISTORY --max-peak 1GiB --max-leaked 1MiB --allow-incomplete --junit made.xml --markdown made.md
check HISTORY --write-baseline made.json --allow-incomplete
check HISTORY --baseline made.json --allow-incomplete --json
export HISTORY --format csv
export HISTORY --format jsonl
export HISTORY --format minimalloc
export HISTORY --format perfetto
export HISTORY --format pprof
export HISTORY --format speedscope --at end
export HISTORY --format torch
export HISTORY --format firefox
export HISTORY --format dhat
export HISTORY --format heaptrack
""".strip().splitlines()
PICTURES = "memreel-view HISTORY --screenshot pictures --pane all --few-colours --size 720x300"
OF_A_JOB = """
fleet HISTORY --html made.html
fleet HISTORY --json
check --fleet HISTORY --max-reserved 1GiB --allow-incomplete
""".strip().splitlines()
OF_A_LOG = ["explain HISTORY", "explain HISTORY --json"]
OF_NONE = ["--help-all", "policies", "policies --json", "policies --markdown", "explain --texts"]

FINDS_SYMBOLS = {"report", "export", "diff", "check", "tune"}  # in this machine's libraries, but for --sysroot
READ_LATER = ("made.reel", "made.json")
SECONDS = re.compile(rb'"(seconds|events_per_second)": ?[-+.e0-9]+')


def commands_for(history):
    if history is None:
        return OF_NONE
    if history.is_dir():
        return OF_A_JOB
    return OF_A_LOG if history.suffix == ".txt" else OF_A_HISTORY


def is_portable(document):
    """Whether any machine makes it byte for byte: not pictures, which depend on OpenGL, nor what zstd makes."""
    return not document.startswith("memreel-view") and not document.endswith(".reel")


class Program:
    """A build of memreel, and the viewer beside it."""

    def __init__(self, path):
        self.path = Path(path).resolve()
        version = subprocess.run([self.path, "--version"], stdout=subprocess.PIPE, check=True).stdout
        self.signature = version.strip()  # "memreel 0.2.0"

    def command(self, words):
        if words[0] == "memreel-view":
            return [self.path.with_name(words[0]), *words[1:]]
        return [self.path, *words, *(["--sysroot", "nothing"] if words[0] in FINDS_SYMBOLS and "--fleet" not in words else [])]


class Runs:
    """The documents that one program makes of one history, in a directory of its own."""

    def __init__(self, program, history, screen=None):
        self.program, self.history = program, history
        self.directory = Path(tempfile.mkdtemp(prefix="memreel-documents-")).resolve()
        (self.directory / "nothing").mkdir()
        if history is not None:
            (self.directory / history.name).symlink_to(history.resolve())
        kept = {key: value for source in (os.environ, screen.environment if screen else {}) for key, value in source.items()
                if key in ("PATH", "LD_LIBRARY_PATH", "DISPLAY", "LIBGL_ALWAYS_SOFTWARE", "LP_NUM_THREADS") or key.endswith("SAN_OPTIONS")}
        self.environment = kept | {"HOME": str(self.directory), "LC_ALL": "C.UTF-8", "TZ": "UTC", "COLUMNS": "80"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory)

    def make(self, command):
        """The files to compare, by the document's name: what the command printed, and what it wrote."""
        before = set(self.directory.iterdir())
        words = [word.replace("HISTORY", self.history.name) if self.history else word for word in command.split()]
        with open(self.directory / "printed", "wb") as printed, open(self.directory / "messages", "wb") as messages:
            code = subprocess.run(self.program.command(words), cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL,
                                  stdout=printed, stderr=messages).returncode
            messages.write(b"exit code %d\n" % code)
        new = set(self.directory.iterdir()) - before - {self.directory / "messages"}
        files = sorted(file for path in new for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())
        written = {file: str(file.relative_to(self.directory)) for file in files}
        return {command if name == "printed" else f"{command} > {name}": file for file, name in written.items()}

    def compared(self, document, file):
        """What of a file is compared, in pieces that end with a line."""
        with open(file, "rb") as plain:
            is_packed = plain.read(2) == b"\x1f\x8b"
        with (gzip.open if is_packed else open)(file, "rb") as content:
            while piece := content.read(1 << 20):
                yield self.normal(document, piece + content.readline()) if is_portable(document) else piece
        if file.name == "printed":
            yield self.normal(document, file.with_name("messages").read_bytes())

    def normal(self, document, text):
        """Without what is another each time."""
        text = text.replace(self.program.signature, b"memreel VERSION").replace(os.fsencode(self.directory), b"DIRECTORY")
        return SECONDS.sub(rb'"\1": 0', text) if document.startswith(("replay", "plan")) else text

    def digest(self, document, file):
        whole = hashlib.sha256()
        for piece in self.compared(document, file):
            whole.update(piece)
        return whole.hexdigest()[:16]


def forget(made):
    """Deletes what no later command reads."""
    for file in made.values():
        if file.name not in READ_LATER:
            file.unlink()


def digests(program, jobs=os.cpu_count()):
    """{document: digest} of what a program says of the dozen."""
    program = Program(program)

    def of(name):
        found = {}
        with Runs(program, name and REPOSITORY / name) as runs:
            for command in commands_for(runs.history):
                made = runs.make(command)
                found |= {f"{name or 'memreel'}  {document}": runs.digest(document, file)
                          for document, file in made.items() if is_portable(document)}
                forget(made)
        return found
    with ThreadPoolExecutor(jobs) as pool:
        return {document: value for found in pool.map(of, [None, *DOZEN]) for document, value in found.items()}


def kept_digests():
    lines = [line for line in KEPT.read_text().splitlines() if not line.startswith("#")]
    return {document: value for value, document in (line.split("  ", 1) for line in lines)}


def renew(program, jobs):
    found = digests(program, jobs)
    KEPT.write_text("# What memreel says of a dozen histories, as digests. tests/e2e/same_documents.py shows what changed, and renews them.\n"
                    + "".join(f"{value}  {document}\n" for document, value in found.items()))
    print(f"{len(found)} digests in {KEPT}")


def lines_of(pieces):
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
    yield rest


def difference(old, new):
    """Lines about the first one in which two documents differ, with what is near it."""
    sides, before = (lines_of(old), lines_of(new)), None
    for number, pair in enumerate(zip_longest(*sides), 1):
        if pair[0] != pair[1]:
            break
        before = pair[0]
    near = [[line for line in chain([before], [first], islice(rest, 8)) if line is not None] for first, rest in zip(pair, sides)]
    if any(b"\0" in line for side in near for line in side):
        return [f"from line {number} on, which is not text"]
    equal = next((i for i, (a, b) in enumerate(zip(pair[0] or b"", pair[1] or b"")) if a != b), 0)
    left = max(0, equal - 60) if equal > 160 else 0  # a document may be one line
    shown = [[line[left:left + 200].decode(errors="replace") for line in side] for side in near]
    return [f"from line {number} on" + (f", shown from column {left + 1}" if left else ""),
            *islice(difflib.unified_diff(*shown, lineterm="", n=1), 3, 22)]


def compare(programs, history, only, screen):
    """The number of documents of one history, and texts about those that differ."""
    commands = list(commands_for(history))
    if screen and commands_for(history) is OF_A_HISTORY:
        commands.append(PICTURES)
    count, texts = 0, []
    with Runs(programs[0], history, screen) as old, Runs(programs[1], history, screen) as new:
        sides = (old, new)
        for command in commands:
            if only not in command and not any(name in command for name in READ_LATER):
                continue
            made = [runs.make(command) for runs in sides]
            for document in sorted(made[0].keys() | made[1].keys()):
                count += 1
                if missing := [which for which, files in zip(("old", "new"), made) if document not in files]:
                    texts.append([f"{history or 'memreel'}: {document}", f"the {missing[0]} program does not write it"])
                elif len({runs.digest(document, files[document]) for runs, files in zip(sides, made)}) > 1:
                    texts.append([f"{history or 'memreel'}: {document}",
                                  *difference(*(runs.compared(document, files[document]) for runs, files in zip(sides, made)))])
            for files in made:
                forget(files)
    return count, ["\n    ".join(lines) for lines in texts]


def all_histories():
    """All histories beside the checkout and in it, jobs, and logs."""
    shared = [directory for directory in (histories.SHARED, SAMPLES) if directory.is_dir()]
    found = {file.relative_to(directory): file for directory in reversed(shared) for file in directory.rglob("*")
             if file.name.endswith((".reel", ".pickle.xz", ".xplane.pb.gz", ".jsonl.xz")) or file.name == "rmm_third_run.csv"}
    jobs = [job for job in (histories.SHARED / "fleet16", *(REPOSITORY / "tests/data/job").glob("*")) if job.is_dir()]
    return [*(found[name] for name in sorted(found)), *sorted(jobs), *sorted((histories.SHARED.parent / "oom_texts").glob("*.txt"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, nargs="?", help="memreel before")
    parser.add_argument("new", type=Path, nargs="?", help="memreel after")
    parser.add_argument("histories", type=Path, nargs="*", metavar="HISTORY", help="file, or directory of a job's ranks [all there are]")
    parser.add_argument("--only", default="", metavar="TEXT", help="only commands that contain it, e.g. 'report' or '--json'")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="histories at once [one per processor]")
    parser.add_argument("--renew", type=Path, metavar="MEMREEL", help="write the digests that the test compares with")
    asked = parser.parse_intermixed_args()
    if asked.renew:
        return renew(asked.renew, asked.jobs)
    if asked.new is None:
        parser.error("two programs are needed: OLD/bin/memreel NEW/bin/memreel")
    if missing := [path for path in (asked.old, asked.new, *asked.histories) if not path.exists()]:
        parser.error(f"{missing[0]}: no such file")
    programs = [Program(asked.old), Program(asked.new)]
    without = [*viewing.MISSING, *(view for program in programs if not (view := program.path.with_name("memreel-view")).exists())]
    screen = None
    if asked.only not in PICTURES:
        pass
    elif without:
        print(f"pictures are not compared: {without[0]} is not there", file=sys.stderr)
    else:
        screen = viewing.Screen()
    total, differing = 0, 0
    if not asked.histories and not histories.SHARED.is_dir():
        print(f"the samples only: {histories.SHARED} is not there (MEMREEL_HISTORIES names another folder)", file=sys.stderr)
    names = asked.histories or all_histories()
    with ThreadPoolExecutor(asked.jobs) as pool:
        for count, texts in pool.map(lambda history: compare(programs, history, asked.only, screen), [None, *names]):
            total, differing = total + count, differing + len(texts)
            for text in texts:
                print(text + "\n", flush=True)
    if screen:
        screen.close()
    print(f"{total} documents of {len(names)} histories: {f'{differing} differ' if differing else 'all the same'}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
