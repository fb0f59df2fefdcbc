# SPDX-License-Identifier: Apache-2.0
"""memreel fleet on a Ray cluster: `memreel fleet --engine ray -o OUT FILES`.

Each recording is a task that runs `memreel fleet map` on the node that has the file, or on any; a task whose worker or
node is lost runs again. Results are files in OUT, which every node must see; `memreel fleet merge` gives the answer.
memreel must be installed at the same path on every node.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional, Sequence

RETRIES = 4
FEW = 16  # classes whose settings `fleet merge` replays alone


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="memreel fleet --engine ray")
    parser.add_argument("--memreel", default="memreel")
    parser.add_argument("--out", required=True)
    for option in ("--rank-pattern", "--heap", "--job", "--memory-limit", "--host-memory", "--time-limit", "--world-size", "--mesh", "--capacity",
                   "--html", "--parquet", "--top"):
        parser.add_argument(option)
    for flag in ("--json", "--no-setting", "--allow-incomplete", "--resume"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--files-from", help="a file with a path on each line, which is removed")
    parser.add_argument("files", nargs="*")
    parsed = parser.parse_args(arguments)
    if parsed.files_from:
        parsed.files += Path(parsed.files_from).read_text(errors="surrogateescape").splitlines()
        os.unlink(parsed.files_from)
    return parsed


def options(arguments: argparse.Namespace, *names: str) -> list[str]:
    """Those of `names` that were given, as command line arguments."""
    words: list[str] = []
    for name in names:
        value = getattr(arguments, name.lstrip("-").replace("-", "_"))
        if value is True:
            words.append(name)
        elif value not in (None, False):
            words += [name, value]
    return words


def map_file(command: Sequence[str], file: str) -> tuple[str, int, str]:
    """Runs in a task. If the worker is lost, so is the child, and the task is retried elsewhere."""
    process = subprocess.run([*command, file], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True)
    return file, process.returncode, process.stderr.strip()


def find_settings(command: Sequence[str]) -> int:
    """Runs in a task: takes replays that no other task has in hand. `fleet merge` makes what is missing."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode


def nodes_of(ray: Any, files: Sequence[str]) -> dict[str, str]:
    """The node that has each file: files that this node lacks are looked for on the others."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = ray.get_runtime_context().get_node_id()
    missing = [file for file in files if not os.path.exists(file)]
    others = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["NodeID"] != here]
    if not missing or not others:
        return {}
    look = ray.remote(num_cpus=0)(lambda names: [name for name in names if os.path.exists(name)])
    answers = [look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(missing)
               for node in others]
    found: dict[str, str] = {}
    for node, names in zip(others, ray.get(answers)):
        for name in names:
            found.setdefault(name, node)
    return found


def run(arguments: argparse.Namespace) -> int:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    if not ray.is_initialized():
        ray.init(log_to_driver=False, logging_level="error")
    command = [arguments.memreel, "fleet", "map", "-o", arguments.out, "--shard", "0/1", "--jobs", "1",
               *options(arguments, "--rank-pattern", "--heap", "--memory-limit", "--host-memory", "--time-limit", "--resume")]
    task = ray.remote(num_cpus=1, max_retries=RETRIES, retry_exceptions=True)(map_file)
    nodes = nodes_of(ray, arguments.files)
    largest_first = sorted(arguments.files, key=lambda file: -os.path.getsize(file) if os.path.exists(file) else 0)
    pending = []
    for file in largest_first:
        place = {}
        if file in nodes:
            place["scheduling_strategy"] = NodeAffinitySchedulingStrategy(nodes[file], soft=True)
        pending.append(task.options(**place).remote(command, file))
    failed = 0
    while pending:
        done, pending = ray.wait(pending)
        for file, code, message in ray.get(done):
            if code != 0:
                failed += 1
                print(message or f"memreel: error: {file}: memreel fleet map exited with code {code}", file=sys.stderr)
    if failed == 0 and not arguments.no_setting and len(arguments.files) > FEW:
        settings = [arguments.memreel, "fleet", "settings", arguments.out, "--jobs", "1",
                    *options(arguments, "--rank-pattern", "--heap", "--job", "--world-size", "--mesh", "--capacity", "--memory-limit",
                             "--host-memory", "--time-limit")]
        count = max(1, min(len(arguments.files) // FEW, int(ray.cluster_resources().get("CPU", 1))))
        helper = ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")(find_settings)
        ray.get([helper.remote([*settings, "--shard", f"{part}/{count}"]) for part in range(count)])
    return failed


def main(words: Optional[Sequence[str]] = None) -> int:
    arguments = parse(words if words is not None else sys.argv[1:])
    try:
        import ray  # noqa: F401
    except ImportError:
        print("memreel: error: --engine ray: Ray is not installed for " + sys.executable + " (pip install memreel[ray])",
              file=sys.stderr)
        return 2
    Path(arguments.out).mkdir(parents=True, exist_ok=True)
    # Ray writes to standard output, which is for the answer alone.
    answer = os.dup(1)
    os.dup2(2, 1)
    failed = run(arguments)
    sys.stdout.flush()
    os.dup2(answer, 1)
    if failed > 0:
        return 2
    merge = [arguments.memreel, "fleet", "merge", arguments.out,
             *options(arguments, "--heap", "--job", "--world-size", "--mesh", "--capacity", "--html", "--parquet", "--top", "--json",
                      "--no-setting", "--allow-incomplete", "--memory-limit", "--host-memory", "--time-limit")]
    return subprocess.run(merge, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
