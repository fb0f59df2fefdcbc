# SPDX-License-Identifier: Apache-2.0
"""Validates JSON documents against the schemas in docs/schema: only the part of JSON Schema 2020-12 that these use."""

import json
from functools import cache

from program import REPOSITORY

SCHEMAS = REPOSITORY / "docs/schema"
ANNOTATIONS = {"$schema", "$defs", "title", "description"}
KEYWORDS = {"$ref", "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "minimum",
            "maximum", "minItems", "maxItems"}


@cache
def schema_of(name):
    return json.loads((SCHEMAS / name).read_text())


def resolve(reference, home):
    """Resolves a reference such as "common.json#/$defs/stack" from the file `home`: the schema and its file."""
    file, _, path = reference.partition("#/")
    schema = schema_of(file or home)
    for key in path.split("/"):
        schema = schema[key]
    return schema, file or home


def is_a(value, kind):
    if kind in ("integer", "number") and isinstance(value, bool):
        return False
    return isinstance(value, {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
                              "integer": int, "number": (int, float)}[kind])


def problems(value, schema, home, where="$"):
    """The defects of `value` by `schema`, which is in the file `home`, one line each."""
    if unknown := set(schema) - KEYWORDS - ANNOTATIONS:
        raise ValueError(f"{home}: this validator does not know {unknown}")
    if "$ref" in schema:
        yield from problems(value, *resolve(schema["$ref"], home), where)
    if "anyOf" in schema:
        attempts = [list(problems(value, choice, home, where)) for choice in schema["anyOf"]]
        if all(attempts):
            yield from min(attempts, key=len)
    if "const" in schema and value != schema["const"]:
        yield f"{where}: {value!r} instead of {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of {schema['enum']}"
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(is_a(value, kind) for kind in kinds):
            yield f"{where}: {value!r} is not of type {' or '.join(kinds)}"
            return
    if is_a(value, "number"):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            yield f"{where}: {value!r} is out of range"
    if isinstance(value, list) and not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{where}: has {len(value)} items"
    if isinstance(value, list) and "items" in schema:
        for at, item in enumerate(value):
            yield from problems(item, schema["items"], home, f"{where}[{at}]")
    if isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for key in schema.get("required", ()):
            if key not in value:
                yield f"{where}: lacks {key!r}"
        for key, item in value.items():
            if key in properties:
                yield from problems(item, properties[key], home, f"{where}.{key}")
            elif others is False:
                yield f"{where}: has {key!r}, which is not documented"
            elif others is not True:
                yield from problems(item, others, home, f"{where}.{key}")


def defects(document):
    """The defects of a document by the schema that it names: "memreel.report/1" is docs/schema/report.json."""
    name = document["schema"].removeprefix("memreel.").partition("/")[0] + ".json"
    return list(problems(document, schema_of(name), name))
