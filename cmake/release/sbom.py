#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the files of a release contain, as SPDX 2.3 in JSON:

    sbom.py OUTPUT.json VERSION [--builds FOLDER,... FILE...]...

The folders, TREE/build/NAME, are the builds that the files' programs come from. What those contain is read there: archives
that they are linked with, headers that their objects include, files that are installed from elsewhere. The system's package
database says which packages those are, and of which version; nothing is listed by hand. SOURCE_DATE_EPOCH is the
document's time.
"""
import datetime
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from same_bytes import members_of_ar

PROGRAMS = ("bin/memreel", "bin/memreel-record", "bin/memreel-attach", "bin/memreel-top", "bin/memreel-view", "bin/memreel-fleet-mpi",
            "lib/libmemreel-agent.so", "memreel-view.html")
# Interfaces of the system: programs are compiled against them and contain nothing of them.
INTERFACES = {"libc6-dev", "linux-libc-dev"}
# How SPDX calls that a file has a package in it, by how it got there.
RELATIONSHIPS = {"linked": "STATIC_LINK", "compiled in": "CONTAINS", "copied": "CONTAINS"}


def output_of(*command, cwd=None, codes=(0,)):
    done = subprocess.run(list(map(str, command)), text=True, capture_output=True, cwd=cwd)
    if done.returncode not in codes:
        raise SystemExit(f"sbom: {' '.join(map(str, command[:4]))} failed: {done.stderr.strip()}")
    return done.stdout


def names_in(file):
    """The names, without folders, of what is in a wheel or a Debian package; none for other files."""
    if file.suffix == ".whl":
        return {os.path.basename(name) for name in zipfile.ZipFile(file).namelist()}
    if file.suffix == ".deb":
        data = next(content for name, content in members_of_ar(file.read_bytes()) if name.startswith("data.tar"))
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            return {os.path.basename(name) for name in archive.getnames()}
    return set()


def targets_of(build, names):
    """Those of these names that this build makes."""
    text = (build / "build.ninja").read_text()
    return [program for program in PROGRAMS if os.path.basename(program) in names and f"\nbuild {program}" in text]


def headers_of(build, objects):
    """Files outside of the tree that these objects were compiled from."""
    found, wanted = set(), False
    for line in output_of("ninja", "-t", "deps", cwd=build).splitlines():
        if not line.startswith(" "):
            wanted = line.partition(": ")[0] in objects
        elif wanted:
            found.add(os.path.normpath(build / line.strip()))
    return found


def installed_from_elsewhere(build, names):
    """Files of the system that the installation copies under one of these names; licences are not counted."""
    for rules in build.rglob("cmake_install.cmake"):
        for renamed, file in re.findall(r'(?:RENAME "([^"]+)" FILES )?"(/[^"\n]+\.(?:ttf|so))"', rules.read_text()):
            if (renamed or os.path.basename(file)) in names and not file.startswith(f"{build}/"):
                yield file


def files_in(build, names):
    """What the programs of these names contain that is not of this tree, each file with how it got there."""
    targets, rules = targets_of(build, names), (build / "build.ninja").read_text()
    if not targets:
        return {}
    inputs = set(output_of("ninja", "-t", "inputs", *targets, cwd=build).splitlines())
    used = {name: "linked" for name in inputs if name.startswith("/") and name.endswith(".a")}
    if "-static-libstdc++" in rules:
        used[output_of("g++", "-print-file-name=libstdc++.a").strip()] = "linked"
    for folder in re.findall(r"(?m)^  LINK_FLAGS = (?:.* )?-B(/\S+)", rules)[:1]:
        used[f"{folder}/libc_nonshared.a"] = "linked"
    for file in headers_of(build, inputs):
        used.setdefault(file, "compiled in")
    for file in installed_from_elsewhere(build, names):
        used[file] = "copied"
    return {os.path.realpath(file): how for file, how in used.items()}


def debian_packages(files):
    """The installed package of each file; files of none are left out."""
    names = {}
    for line in output_of("dpkg", "-S", *files, codes=(0, 1)).splitlines() if files else []:
        package, _, file = line.partition(": ")
        names[file] = package.partition(",")[0].partition(":")[0]
    return names


def debian_package(name, cache={}):
    if name not in cache:
        version, source, homepage, architecture = output_of(
            "dpkg-query", "-W", "-f=${Version}\t${source:Package}\t${Homepage}\t${Architecture}\n", name).splitlines()[0].split("\t")
        cache[name] = package(name, version, f"pkg:deb/debian/{name}@{version}?arch={architecture}", "Organization: Debian",
                              homepage, f"Debian's package {name}, made from its source package {source}.")
    return cache[name]


def pypi_package(file):
    """The package of PyPI that installed this file."""
    for folder in Path(file).parents:
        if folder.name == "site-packages":
            name = Path(file).relative_to(folder).parts[0]
            metadata = next(folder.glob(f"{name}-*.dist-info/METADATA")).read_text()
            version = re.search(r"(?m)^Version: (.*)$", metadata)[1]
            return package(name, version, f"pkg:pypi/{name}@{version}", "NOASSERTION", "", f"PyPI's package {name}.")
    return None


def fetched_package(file):
    """The package of another release of Debian, or the source, that this file was taken from: a file `versions` says so."""
    for folder in Path(file).parents:
        if (folder / "versions").is_file():
            for line in (folder / "versions").read_text().splitlines():
                place, name, version, architecture = line.split()
                if (folder / place) in (folder, *Path(file).parents):
                    return package(name, version, f"pkg:deb/debian/{name}@{version}?arch={architecture}", "Organization: Debian",
                                   "", f"Debian's package {name} ({architecture}).")
    return None


def package(name, version, purl, supplier, homepage, comment):
    return {"SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", purl.removeprefix("pkg:").partition("?")[0]), "name": name,
            "versionInfo": version, "supplier": supplier, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
            **({"homepage": homepage} if homepage else {}), "comment": comment,
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}]}


def parts_of(build, names):
    """The packages in the programs of these names that a build makes: (package, how), most binding first where there are several ways."""
    files, parts, tree = files_in(build, names), {}, f"{build.parents[1]}/"
    owners = debian_packages([file for file in files if not file.startswith(tree)])
    for file, how in sorted(files.items()):
        owner = owners.get(file)
        if owner in INTERFACES:
            continue
        found = debian_package(owner) if owner else pypi_package(file) or fetched_package(file)
        if found is None:
            if not file.startswith(tree):
                raise SystemExit(f"sbom: {file} is {how}, and of no package: what is it?")
            continue
        known = parts.get(found["SPDXID"])
        if not known or list(RELATIONSHIPS).index(how) < list(RELATIONSHIPS).index(known[1]):
            parts[found["SPDXID"]] = (found, how)
    return [parts[key] for key in sorted(parts)]


def released_file(file, version):
    found = package(file.name, version, f"pkg:generic/{file.name}@{version}", "NOASSERTION", "", "A file of this release.")
    found.update(packageFileName=file.name, licenseDeclared="Apache-2.0",
                 checksums=[{"algorithm": "SHA256", "checksumValue": hashlib.sha256(file.read_bytes()).hexdigest()}])
    found["SPDXID"] = "SPDXRef-File-" + re.sub(r"[^A-Za-z0-9.-]", "-", file.name)
    return found


def document(version, groups, epoch):
    packages, relationships = {}, []
    for builds, files in groups:
        for file in files:
            described, names = released_file(file, version), names_in(file)
            packages[described["SPDXID"]] = described
            relationships.append(("SPDXRef-DOCUMENT", "DESCRIBES", described["SPDXID"], ""))
            for part, how in (found for build in builds for found in parts_of(build, names)):
                packages[part["SPDXID"]] = part
                relationships.append((described["SPDXID"], RELATIONSHIPS[how], part["SPDXID"], how))
    body = {"packages": [packages[key] for key in sorted(packages)],
            "relationships": [{"spdxElementId": of, "relationshipType": kind, "relatedSpdxElement": to, **({"comment": how} if how else {})}
                              for of, kind, to, how in sorted(set(relationships))]}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"memreel-{version}",
            "documentNamespace": f"https://spdx.org/spdxdocs/memreel-{version}-{digest}",
            "creationInfo": {"created": created, "creators": ["Tool: memreel-cmake/release/sbom.py"]}, **body}


def main():
    output, version, *rest = sys.argv[1:] if len(sys.argv) > 2 else sys.exit(__doc__)
    groups, words = [], iter(rest)
    for word in words:
        if word == "--builds":
            groups.append(([Path(folder).resolve() for folder in next(words, "").split(",") if folder], []))
        elif groups:
            groups[-1][1].append(Path(word))
        else:
            sys.exit(__doc__)
    made = document(version, groups, int(os.environ["SOURCE_DATE_EPOCH"]))
    Path(output).write_text(json.dumps(made, indent=2) + "\n")


if __name__ == "__main__":
    main()
