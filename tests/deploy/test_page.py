"""The page: its files and policy, and every kind of file in a real headless Chromium."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from loopback import running

pytest.importorskip("fastapi")
from fastapi.testclient import TestClient

from planformer import PlanFormer, PlanFormerConfig
from planformer.cli.index import fill
from planformer.deploy import page
from planformer.deploy.index import Index
from planformer.deploy.service import create_app
from planformer.deploy.service_limits import Limits
from reference.signal_files import write_seismogram, write_sigmf_pair, write_video

SMALL = PlanFormerConfig(channels=(4, 8, 16), dim=32, num_heads=4)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def model() -> PlanFormer:
    return PlanFormer.random(seed=0, config=SMALL)


def test_everything_comes_from_here() -> None:
    for file in page.FILES.iterdir():
        assert "://" not in file.read_text("utf-8"), file.name


def test_files_and_policy(model: PlanFormer) -> None:
    client = TestClient(create_app(model, token="secret"))  # the page itself needs no token
    answer = client.get("/")
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    for name, kind in (("page.css", "text/css"), ("page.js", "text/javascript")):
        assert f'"/page/{name}"' in answer.text
        assert client.get(f"/page/{name}").headers["content-type"].startswith(kind)
    state = client.get("/page/state").json()
    assert (state["token"], state["index"]) == (True, False)
    for path in ("/page/index.py", "/page/..%2Fservice.py", "/page/examples/x", "/page/examples/..%2F..%2Fpage.py"):
        assert client.get(path).status_code == 404


def test_examples_are_what_they_say() -> None:
    wave, rate = soundfile.read(io.BytesIO(page.chirp()))
    power = [np.abs(np.fft.rfft(half)) ** 2 for half in np.split(wave, 2)]
    centre = [float((p * np.arange(p.size)).sum() / p.sum() * rate / 4000) for p in power]
    assert centre == pytest.approx([900, 2300], abs=150)  # the middles of 200 to 1600 and 1600 to 3000 Hz
    samples = np.load(io.BytesIO(page.radio()))
    assert samples.dtype == np.complex64
    assert samples.size == 10_240
    fourth = np.abs(np.fft.fft(samples**4))  # QPSK to the fourth power is a line
    assert np.argmax(fourth) / samples.size == pytest.approx(4 * 0.02, abs=1e-3)


@pytest.fixture(scope="module")
def address(model: PlanFormer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("examples")
    for name, (_, make) in page.EXAMPLES.items():
        (folder / name).write_bytes(make())
    index = Index.create(folder / "idx", fingerprint=model.fingerprint, width=64)
    fill(index, model, [folder / name for name in page.EXAMPLES])
    app = create_app(model, index=index, limits=Limits(readers=1))
    with running(app) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium here: apt-get install chromium")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    with playwright.sync_playwright() as running:
        flags = ["--no-sandbox", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
        chromium = running.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield chromium
        chromium.close()


@pytest.fixture
def tab(browser: Any, address: str) -> Iterator[Any]:
    context = browser.new_context(color_scheme="dark", permissions=["microphone"])
    context.set_default_timeout(90_000)
    tab = context.new_page()
    tab.problems = []
    tab.outside = []
    tab.on("pageerror", lambda error: tab.problems.append(str(error)))
    tab.on("request", lambda r: None if r.url.startswith((address, "data:", "blob:")) else tab.outside.append(r.url))
    tab.goto(address)
    tab.wait_for_selector("#example option:nth-child(5)", state="attached")
    yield tab
    assert tab.problems == []
    assert tab.outside == []
    context.close()


def done(tab: Any, name: str) -> str:
    tab.wait_for_function("name => document.getElementById('status').textContent === `Done: ${name}`", arg=name)
    return str(tab.inner_text("#facts"))


def drawn(tab: Any, canvas: str) -> bool:
    """True when a canvas shows more than one colour."""
    script = """id => { const c = document.getElementById(id);
        const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        return new Set(new Uint32Array(data.buffer)).size }"""
    return int(tab.evaluate(script, canvas)) > 1


@pytest.mark.browser
def test_every_kind_of_file(tab: Any) -> None:
    for name, kind in (("chirp.wav", "audio"), ("qpsk.npy", "array"), ("rings.png", "image"), ("sentence.txt", "text")):
        file = {"name": name, "mimeType": "application/octet-stream", "buffer": page.EXAMPLES[name][1]()}
        tab.set_input_files("#file", file)
        assert f"{name}: {kind}, 1 channel" in done(tab, name)
        assert len(tab.text_content("#numbers").split()) == 64
        first = tab.inner_text("#neighbours tbody tr:first-child")
        assert name in first
        assert "1.0000" in first
        assert all(drawn(tab, canvas) for canvas in ("waveform", "spectrogram", "embedding"))


@pytest.mark.browser
@pytest.mark.parametrize(
    ("name", "said", "caption", "channels"),
    [
        ("capture.sigmf", "iq, 1 channel, 0.002000 s at 1000000 Hz", "-500,000 to 500,000 Hz", 1),
        ("quake.mseed", "seismic, 3 channels, 15.00 s at 100 Hz", "0 to 50 Hz", 3),
        ("clip.mp4", "video, 3 channels", "Hz", 3),
    ],
)
def test_recordings(tab: Any, tmp_path: Path, name: str, said: str, caption: str, channels: int) -> None:
    """What only special software shows: radio with its metadata, a three-component seismogram, a film."""
    path = tmp_path / name
    if name.endswith(".sigmf"):
        meta = write_sigmf_pair(tmp_path / "capture.sigmf-meta")
        with tarfile.open(path, "w") as archive:
            for member in (meta, meta.with_suffix(".sigmf-data")):
                archive.add(member, f"capture/{member.name}")
    elif name.endswith(".mseed"):
        pytest.importorskip("pymseed", reason="pymseed is not installed: pip install 'planformer[seismic]'")
        write_seismogram(path)
    else:
        pytest.importorskip("av", reason="av is not installed: pip install 'planformer[video]'")
        write_video(path)
    tab.set_input_files("#file", str(path))
    assert f"{name}: {said}" in done(tab, name)
    assert caption in tab.inner_text("#spectrogram-caption")
    assert len(tab.text_content("#numbers").split()) == 64 * channels
    assert tab.locator("#neighbours tbody tr").count() == len(page.EXAMPLES)
    assert all(drawn(tab, canvas) for canvas in ("waveform", "spectrogram", "embedding"))
    tab.screenshot(path=str(tmp_path / f"{path.stem}.png"), full_page=True)


@pytest.mark.browser
def test_documentation_in_the_browser(tab: Any, address: str, tmp_path: Path) -> None:
    """``/docs`` is styled by our own file and loads nothing else (the fixture looks at every request)."""
    tab.goto(address + "/docs")
    assert "POST /embed" in tab.inner_text("main")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 22, 29)"
    tab.screenshot(path=str(tmp_path / "docs.png"), full_page=True)


@pytest.mark.browser
def test_example_by_keyboard_and_denoised_sound(tab: Any, tmp_path: Path) -> None:
    tab.focus("#example")
    tab.keyboard.type("Sound")
    tab.keyboard.press("Enter")
    done(tab, "chirp.wav")
    tab.focus("#denoise")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#denoised audio")
    tab.wait_for_function("document.querySelector('#denoised audio').duration > 0.9")
    tab.screenshot(path=str(tmp_path / "page.png"), full_page=True)
    assert (tmp_path / "page.png").stat().st_size > 10_000


@pytest.mark.browser
def test_a_wrong_file_is_explained_and_the_next_one_works(tab: Any) -> None:
    tab.set_input_files("#file", {"name": "song.wav", "mimeType": "audio/wav", "buffer": b"<b>no sound</b>"})
    tab.wait_for_selector("#error:not([hidden])")
    said = tab.inner_text("#error")
    assert "song.wav: named .wav but its content is no sound file" in said
    assert tab.is_hidden("#results")
    tab.select_option("#example", "rings.png")
    done(tab, "rings.png")
    assert tab.is_hidden("#error")


@pytest.mark.browser
def test_microphone(tab: Any) -> None:
    tab.click("#record")
    assert "recording.wav: audio" in done(tab, "recording.wav")


@pytest.mark.browser
def test_accessible_names_and_contrast(tab: Any) -> None:
    unnamed = """() => [...document.querySelectorAll('input, select, button, canvas')].filter(
        e => !(e.labels?.length || e.textContent.trim() || e.getAttribute('aria-label'))).map(e => e.id)"""
    assert tab.evaluate(unnamed) == []
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 22, 29)"  # dark was asked for
    assert tab.evaluate("document.documentElement.lang") == "en"
