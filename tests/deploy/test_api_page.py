"""``/docs``: everything of the OpenAPI description, nothing from elsewhere, nothing that runs."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient

from planformer import PlanFormer, PlanFormerConfig
from planformer.deploy.api_page import api_page
from planformer.deploy.service import create_app

SMALL = PlanFormerConfig(window=256, channels=(4, 8, 16), dim=32, num_heads=4)


@pytest.fixture(scope="module")
def client() -> TestClient:
    return TestClient(create_app(PlanFormer.random(seed=0, config=SMALL), token="secret"))


class Parts(HTMLParser):
    """Addresses that a browser would load or follow, names of elements, open elements, ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in ("meta", "link"):
            self.open.append(tag)
        for name, value in attributes:
            if name in ("href", "src"):
                self.addresses.append(value or "")
            if name == "id":
                self.ids.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_loads_nothing_from_elsewhere_and_runs_nothing(client: TestClient) -> None:
    answer = client.get("/docs")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "://" not in answer.text + policy
    parts = Parts(answer.text)
    assert parts.open == []
    assert "script" not in parts.tags
    assert len(parts.ids) == len(set(parts.ids))
    for address in parts.addresses:
        assert address.startswith(("/", "#", "data:,")) and not address.startswith("//"), address
        if address.startswith("#"):
            assert address[1:] in parts.ids
        elif address.startswith("/"):
            assert client.get(address).status_code == 200
    assert client.get("/redoc").status_code == 404  # this one would load its viewer from a public server


def test_says_everything(client: TestClient) -> None:
    text = client.get("/docs").text
    document = client.get("/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert f"<code>{method.upper()} {path}</code>" in text
            for parameter in operation.get("parameters", []):
                assert f"<code>{parameter['name']}</code>" in text
    for name in document["components"]["schemas"]:
        assert f'id="schema-{name}"' in text
    words = re.sub(r"<[^>]+>", " ", text)
    for said in ("multipart/form-data", "too many requests are waiting", "SigMF datatype", "iq, audio, seismic"):
        assert said in words


def test_content_is_escaped() -> None:
    evil = "<img src=x onerror=alert(1)>"
    operation = {"description": evil, "parameters": [{"name": evil, "schema": {"enum": [evil]}, "description": evil}]}
    page = api_page(
        {"info": {"title": evil, "description": evil, "version": evil}, "paths": {f"/{evil}": {"get": operation}}}
    )
    assert "<img" not in page
