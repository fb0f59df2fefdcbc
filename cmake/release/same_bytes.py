#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Repacks archives in place so that equal contents are equal bytes: same_bytes.py FILE...

For wheels, .tar.gz and .deb. Members are sorted, belong to root, have the time SOURCE_DATE_EPOCH and the permissions that
whoever unpacks them expects: 0755 for folders and programs, 0644 for other files.
"""
import gzip
import io
import os
import sys
import tarfile
import time
import zipfile
from pathlib import Path

FIRST_YEAR_OF_ZIP = 315532800  # 1980


def permissions(executable):
    return 0o755 if executable else 0o644


def tar_gz(data, epoch):
    """A .tar.gz with the members of this archive, which may be compressed in any way."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as old, \
            tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            content = old.extractfile(member).read() if member.isreg() else b""
            if os.path.basename(member.name) == "md5sums":  # of a Debian package, in the order in which cpack found the files
                content = b"".join(sorted(content.splitlines(keepends=True), key=lambda line: line.partition(b"  ")[2]))
            member.mode = 0o777 if member.issym() else permissions(member.isdir() or member.mode & 0o100)
            member.uid = member.gid = 0
            member.uname = member.gname = "root"
            member.mtime = epoch
            member.pax_headers = {}
            new.addfile(member, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), 9, mtime=0)


def wheel(data, epoch):
    made, moment = io.BytesIO(), time.gmtime(max(epoch, FIRST_YEAR_OF_ZIP))[:6]
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
        # As PEP 427 recommends, the metadata come last, and of these the list of files.
        def order(member):
            return ".dist-info/" in member.filename, member.filename.endswith("/RECORD"), member.filename
        for member in sorted(old.infolist(), key=order):
            entry = zipfile.ZipInfo(member.filename, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix
            entry.external_attr = (0o100000 | permissions(member.external_attr >> 16 & 0o100)) << 16
            new.writestr(entry, old.read(member), compresslevel=9)
    return made.getvalue()


def members_of_ar(data):
    if not data.startswith(b"!<arch>\n"):
        raise ValueError("not a Debian package")
    at = 8
    while at < len(data):
        header = data[at:at + 60]
        size = int(header[48:58])
        yield header[:16].decode().strip().rstrip("/"), data[at + 60:at + 60 + size]
        at += 60 + size + size % 2


def deb(data, epoch):
    made = b"!<arch>\n"
    for name, content in members_of_ar(data):
        if ".tar" in name:
            name, content = name.partition(".tar")[0] + ".tar.gz", tar_gz(content, epoch)
        made += f"{name:16}{epoch:<12}{0:<6}{0:<6}{0o100644:<8o}{len(content):<10}`\n".encode() + content + b"\n" * (len(content) % 2)
    return made


REPACK = {".whl": wheel, ".gz": tar_gz, ".deb": deb}


def main():
    files = list(map(Path, sys.argv[1:]))
    if not files or "SOURCE_DATE_EPOCH" not in os.environ or any(file.suffix not in REPACK for file in files):
        sys.exit(__doc__)
    for file in files:
        file.write_bytes(REPACK[file.suffix](file.read_bytes(), int(os.environ["SOURCE_DATE_EPOCH"])))
        file.chmod(0o644)


if __name__ == "__main__":
    main()
