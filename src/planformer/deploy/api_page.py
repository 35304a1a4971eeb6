"""The service's documentation at ``/docs``: its OpenAPI description as plain HTML, with no script and no other server.

>>> page = api_page({"info": {"title": "T", "version": "1"}, "paths": {"/x": {"get": {"description": "Says <x>."}}}})
>>> "<code>GET /x</code>" in page, "Says &lt;x&gt;." in page
(True, True)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}: API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/page/page.css">
</head>
<body>
<header><h1>{title}: API</h1><p>{about} Version {version}.</p></header>
<main>{operations}{schemas}</main>
<footer><p><a href="/">Page</a> · <a href="/openapi.json">The same as data (OpenAPI)</a></p></footer>
</body>
</html>
"""


def api_page(document: Mapping[str, Any]) -> str:
    """An OpenAPI document as one HTML page."""
    info = document.get("info", {})
    operations = [
        _operation(path, method, operation)
        for path, methods in document.get("paths", {}).items()
        for method, operation in methods.items()
    ]
    schemas = [
        _section(f"schema-{name}", name, _properties(schema))
        for name, schema in document.get("components", {}).get("schemas", {}).items()
    ]
    return _PAGE.format(
        title=escape(info.get("title", "")),
        about=escape(info.get("description", "")),
        version=escape(info.get("version", "")),
        operations="".join(operations),
        schemas="".join(schemas),
    )


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    name = f"{method.upper()} {path}"
    parts = [f"<p>{escape(operation.get('description') or operation.get('summary', ''))}</p>"]
    if parameters := operation.get("parameters"):
        rows = [(p["name"], _type(p.get("schema", {})), escape(p.get("description", ""))) for p in parameters]
        parts.append(_table(("in the address", "type", "meaning"), rows))
    if body := operation.get("requestBody", {}).get("content"):
        parts.append(
            _table(("body", "content"), [(kind, _type(part.get("schema", {}))) for kind, part in body.items()])
        )
    rows = [
        (code, escape(answer.get("description", "")), _contents(answer.get("content", {})))
        for code, answer in operation.get("responses", {}).items()
    ]
    parts.append(_table(("answer", "meaning", "content"), rows))
    return _section(f"{method}-{path.strip('/')}", name, "".join(parts), code=True)


def _properties(schema: Mapping[str, Any]) -> str:
    rows = [
        (name, _type(value), escape(value.get("description", "")))
        for name, value in schema.get("properties", {}).items()
    ]
    return f"<p>{escape(schema.get('description', ''))}</p>" + _table(("field", "type", "meaning"), rows)


def _contents(content: Mapping[str, Any]) -> str:
    return ", ".join(f"{escape(kind)} {_type(part.get('schema', {}))}".strip() for kind, part in content.items())


def _type(schema: Mapping[str, Any]) -> str:
    """A schema in a few words; a named one as a link to its section."""
    if "$ref" in schema:
        name = escape(str(schema["$ref"]).rpartition("/")[2], quote=True)
        return f'<a href="#schema-{name}">{name}</a>'
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(_type(choice) for choice in choices if choice.get("type") != "null")
    if "enum" in schema:
        return escape(", ".join(map(str, schema["enum"])))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {})) or 'values'}"
    if schema.get("type") == "object" and schema.get("properties"):
        return "object: " + ", ".join(f"{escape(key)} ({_type(value)})" for key, value in schema["properties"].items())
    bounds = [f"{word} {schema[key]}".strip() for key, word in _BOUNDS.items() if key in schema]
    return escape(", ".join([str(schema.get("type", "")), *bounds]))


_BOUNDS = {"format": "", "minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "default": "default"}


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """``head`` and the first cell of a row are plain text, the others HTML."""
    titles = "".join(f'<th scope="col">{escape(title)}</th>' for title in head)
    lines = []
    for first, *rest in rows:
        cells = "".join(f"<td>{cell}</td>" for cell in rest)
        lines.append(f"<tr><td><code>{escape(first)}</code></td>{cells}</tr>")
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _section(anchor: str, title: str, content: str, *, code: bool = False) -> str:
    anchor = escape(anchor, quote=True)
    heading = f"<code>{escape(title)}</code>" if code else escape(title)
    return f'<section aria-labelledby="{anchor}"><h2 id="{anchor}">{heading}</h2>{content}</section>'
