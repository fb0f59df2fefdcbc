# SPDX-License-Identifier: Apache-2.0
"""The pages of reference that are written from their sources: --help, JSON Schemas, docstrings, headers."""

import ast
import json
import re
import sys


def commands(root, programs):
    sys.path.insert(0, str(root / "cmake"))
    import man_pages
    overview = man_pages.help_of(programs / "memreel")
    yield "# Help of every command\n\nWhat `memreel --help` and each command's `--help` print. Their meaning, with examples: [command line](command-line.md).\n"
    yield f"## memreel\n\n```text\n{overview}```\n"
    for command in man_pages.commands_of(overview):
        if text := man_pages.help_of(programs / "memreel", command):
            yield f"## memreel {command}\n\n```text\n{text.rstrip()}\n```\n"


def cell(text):
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def rows_of(schema, documents, path="", within=()):
    """(path, type, description) of each key below this schema; references are followed, but not in circles."""
    if reference := schema.get("$ref"):
        file, _, pointer = reference.partition("#")
        base = documents[file] if file else within[0]
        found = base
        for part in pointer.strip("/").split("/"):
            found = found[part] if part else found
        if any(found is one for one in within[1:]):
            return
        yield from rows_of(found, documents, path, (base, *within[1:], found))
        return
    for kind in ("anyOf", "oneOf", "allOf"):
        for part in schema.get(kind, ()):
            yield from rows_of(part, documents, path, within)
    if "items" in schema:
        yield from rows_of(schema["items"], documents, path + "[]", within)
    for key, value in schema.get("properties", {}).items():
        name = f"{path}.{key}" if path else key
        yield name, type_of(value), value.get("description", "")
        yield from rows_of(value, documents, name, within)


def type_of(schema):
    kind = schema.get("type")
    if kind is None:
        parts = schema.get("anyOf", schema.get("oneOf", ()))
        names = [type_of(part) for part in parts] or (["string"] if isinstance(schema.get("const"), str) or "enum" in schema else ["object"])
        return " or ".join(dict.fromkeys(names))
    return " or ".join(kind) if isinstance(kind, list) else kind


def schemas(root):
    documents = {file.name: json.loads(file.read_text()) for file in sorted((root / "docs/schema").glob("*.json"))}
    yield "# JSON documents\n\nEach key of each document, from its JSON Schema, which is installed in `share/memreel/schema`. `[]` is each element of an array.\n"
    for name, document in documents.items():
        if "properties" not in document:
            continue
        yield f"## {document.get('title', name)}\n\n{document.get('description', '')}\n\n| key | type | meaning |\n|---|---|---|"
        seen = dict.fromkeys((path, kind, text) for path, kind, text in rows_of(document, documents, within=(document,)))
        yield "\n".join(f"| `{path}` | {cell(kind)} | {cell(text)} |" for path, kind, text in seen) + "\n"


def signature(node, source, name):
    text = ast.get_source_segment(source, node)
    head = text[:text.index(ast.get_source_segment(source, node.body[0]))].rstrip().rstrip(":")
    head = re.sub(r"\s+", " ", re.sub(r"^\s*(async )?def \w+", name, head)).replace("( ", "(")
    return re.sub(r"\((self|cls)(, )?", "(", head)


def definitions(tree, source, prefix=""):
    """Public functions and classes with a docstring: (heading, signature, docstring)."""
    for node in tree.body:
        name = getattr(node, "name", "_")
        text = ast.get_docstring(node) if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else None
        if name.startswith("_") or not text:
            continue
        yield f"{prefix}{name}", signature(node, source, f"{prefix}{name}") if isinstance(node, ast.FunctionDef) else f"class {prefix}{name}", text
        if isinstance(node, ast.ClassDef):
            yield from definitions(node, source, f"{name}.")


def python(root):
    package = root / "collector/python_module/memreel"
    init = (package / "__init__.py").read_text()
    public = ast.literal_eval(re.search(r"__all__ = (\[.*?\])", init, re.DOTALL)[1])
    yield "# The Python package, each function\n\nFrom the docstrings. How they work together: [the Python package](python.md).\n"
    yield ast.get_docstring(ast.parse(init)) + "\n"
    files = ("__init__.py", "annotate.py", "analysis.py", "results.py", "holding.py", "torch_oom.py", "integrations/lightning.py",
             "integrations/transformers.py")
    written = set()
    for name in files:
        source = (package / name).read_text()
        found = [entry for entry in definitions(ast.parse(source), source) if entry[0] not in written]
        if name == "annotate.py":
            found = [entry for entry in found if entry[0].partition(".")[0] in public]
        if not found:
            continue
        module = "memreel" if name in ("__init__.py", "annotate.py") else "memreel." + name.removesuffix(".py").replace("/", ".")
        if name != "annotate.py":
            yield f"## {module}\n"
        for heading, line, text in found:
            written.add(heading)
            yield f"### {heading}\n\n```python\n{line}\n```\n\n{text}\n"


def header(text):
    """Comments at the beginning of a line, each with the declaration that follows it."""
    for comment, code in re.findall(r"(?ms)^/\* (.*?) ?\*/\n(.*?)(?=^/\* |^#if|^#endif|\Z)", text):
        words = re.sub(r"(?m)^ \* ?", "", comment)
        declaration = code.strip("\n").split("\n\n")[0]
        declaration = re.sub(r"(?ms)\) \{\n.*", ");", declaration).replace("static inline ", "")
        # The header's own functions are marked; of them this one is for users.
        declaration = re.sub(r"^__attribute__\(\(unused\)\) static (int memreel_connect\(void\)) .*", r"\1;", declaration)
        if declaration and not declaration.startswith(("#if", "extern")) and "__attribute__" not in declaration:
            yield words, declaration


def headers(root):
    yield "# The C headers\n\nFrom their comments. [Installing them](install.md#the-headers-in-c-and-c-projects); [your own pools](frameworks.md#your-own-pools); [a policy of your own](own-policy.md).\n"
    for file in ("collector/include/memreel/memreel.h", "analyzer/include/memreel/policy.h"):
        text = (root / file).read_text()
        yield f"## {file.rpartition('/')[2]}\n"
        first = re.search(r"(?s)/\* (.*?)\*/", text)
        yield "```text\n" + re.sub(r"(?m)^ \* ?", "", first[1]).strip() + "\n```\n"
        for words, declaration in header(text[first.end():]):
            if not words.startswith("This is C"):
                yield f"```c\n{declaration}\n```\n\n{words}\n"


def pages(root, programs):
    return {"commands.md": "\n".join(commands(root, programs)), "json.md": "\n".join(schemas(root)), "python.md": "\n".join(python(root)),
            "c.md": "\n".join(headers(root))}
