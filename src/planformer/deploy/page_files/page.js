"use strict";
// The page of `planformer serve`: one file in, everything the service says about it out. No libraries.

const find = (id) => document.getElementById(id);
let current = null; // {blob, name}: what is shown
let turn = 0; // answers of an earlier file are dropped
let urls = []; // object URLs to give back

function headers() {
  const token = find("token").value;
  return token ? { Authorization: `Bearer ${token}` } : {};
}

async function ask(path, item) {
  const form = new FormData();
  form.append("file", item.blob, item.name);
  const answer = await fetch(path, { method: "POST", body: form, headers: headers() });
  if (answer.ok) return answer;
  if (answer.status === 401) find("token-field").hidden = false;
  const body = await answer.json().catch(() => ({}));
  const detail = typeof body.detail === "string" ? body.detail : `the service answered ${answer.status}`;
  throw new Error(detail.replace(/^the upload/, item.name));
}

function say(text) { find("status").textContent = text; }

function fail(error) {
  find("error").textContent = error.message;
  find("error").hidden = false;
  say("That did not work.");
}

async function show(item) {
  const mine = ++turn;
  current = item;
  urls.forEach((url) => URL.revokeObjectURL(url));
  urls = [];
  find("error").hidden = true;
  find("results").hidden = true;
  find("denoised").replaceChildren();
  say(`Embedding ${item.name} …`);
  try {
    const found = await (await ask("/embed?preview=true", item)).json();
    if (mine !== turn) return;
    find("results").hidden = false;
    drawAll(found, item);
    await showNeighbours(item, mine);
    if (mine === turn) say(`Done: ${item.name}`);
  } catch (error) {
    if (mine === turn) fail(error);
  }
}

function drawAll(found, item) {
  const timed = !["image", "text", "array"].includes(found.kind);
  const length = timed ? `${found.preview.seconds.toPrecision(4)} s at ${found.rate} Hz` : `${found.samples} points`;
  find("facts").textContent = `${item.name}: ${found.kind}, ${found.channels} channel${found.channels > 1 ? "s" : ""}, ` +
    `${length}, ${found.segments} segment${found.segments > 1 ? "s" : ""}`;
  find("media").replaceChildren(...media(item.blob, found.kind, `The input, ${item.name}`));
  drawWaveform(find("waveform"), found.preview.envelope);
  drawSpectrogram(find("spectrogram"), found.preview.spectrogram);
  const { low_hz: low, high_hz: high } = found.preview.spectrogram;
  find("spectrogram-caption").textContent = timed
    ? `Spectrogram, ${readable(low)} to ${readable(high)} Hz, 70 dB range`
    : "Spectrogram, 70 dB range";
  drawEmbedding(find("embedding"), found.embedding, found.channels);
  find("embedding-caption").textContent =
    `${found.embedding.length} numbers, one row a channel: blue below its mean, red above; left half time, right half frequency`;
  find("numbers").textContent = found.embedding.map((x) => x.toFixed(4)).join(" ");
  find("classes").hidden = !found.scores;
  const best = Object.entries(found.scores || {}).sort((a, b) => b[1] - a[1]).slice(0, 10);
  fillTable("classes", best.map(([name, p]) => [name, `${(100 * p).toFixed(1)} %`]));
}

function readable(number) { return Number(number.toPrecision(4)).toLocaleString("en"); }

function media(blob, kind, label) {
  const url = URL.createObjectURL(blob);
  urls.push(url);
  if (kind !== "audio" && kind !== "image") return [];
  const element = document.createElement(kind === "audio" ? "audio" : "img");
  element.src = url;
  if (kind === "audio") { element.controls = true; element.setAttribute("aria-label", label); } else element.alt = label;
  return [element];
}

function fillTable(id, rows) {
  const body = find(id).querySelector("tbody");
  body.replaceChildren(...rows.map((row) => {
    const line = document.createElement("tr");
    line.append(...row.map((value) => {
      const cell = document.createElement("td");
      cell.textContent = value;
      return cell;
    }));
    return line;
  }));
}

async function showNeighbours(item, mine) {
  find("neighbours").hidden = true;
  if (!showNeighbours.enabled) return;
  const found = await (await ask("/similar?k=8", item)).json();
  if (mine !== turn) return;
  fillTable("neighbours", found.neighbours.map((n) => [n.path, n.kind, n.score.toFixed(4)]));
  find("recall").textContent = `${found.items} items searched, ` +
    (found.recall === null ? "exactly" : `approximately (recall at 10: ${found.recall.toFixed(3)})`);
  find("neighbours").hidden = false;
}

function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

function drawWaveform(canvas, envelope) {
  const pen = canvas.getContext("2d"), { width, height } = canvas, count = envelope.low.length;
  const y = (value) => height / 2 - value * (height / 2 - 4);
  pen.clearRect(0, 0, width, height);
  pen.strokeStyle = colour("--accent");
  pen.lineWidth = Math.max(1, width / count);
  pen.beginPath();
  for (let i = 0; i < count; i++) {
    const x = ((i + 0.5) * width) / count;
    pen.moveTo(x, Math.max(y(envelope.low[i]), y(envelope.high[i]) + 1)); // at least one pixel
    pen.lineTo(x, y(envelope.high[i]));
  }
  pen.stroke();
}

function drawSpectrogram(canvas, picture) {
  const levels = Uint8Array.from(atob(picture.levels), (c) => c.charCodeAt(0));
  paint(canvas, picture.columns, picture.bins, (i) => {
    const v = (levels[i] / 255) ** 1.6; // noise stays dark: dark violet over red to light yellow
    return [255 * Math.min(1, 2.2 * v), 255 * Math.max(0, 1.7 * v - 0.6), 255 * (v < 0.5 ? 0.3 + 0.5 * v : Math.max(0.1, 1.9 * v - 1.2))];
  });
}

function drawEmbedding(canvas, values, channels) {
  const columns = values.length / channels;
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const spread = 2 * Math.sqrt(values.reduce((a, b) => a + (b - mean) ** 2, 0) / values.length) || 1;
  paint(canvas, columns, channels, (i) => {
    const v = Math.max(-1, Math.min(1, (values[i] - mean) / spread));
    const fade = 245 * (1 - Math.abs(v));
    return v < 0 ? [fade, fade + 60 * -v, 245 - 60 * -v] : [245 - 40 * v, fade + 20 * v, fade];
  });
}

function paint(canvas, columns, rows, rgb) {
  const small = document.createElement("canvas");
  small.width = columns;
  small.height = rows;
  const image = new ImageData(columns, rows);
  for (let i = 0; i < columns * rows; i++) image.data.set([...rgb(i), 255], 4 * i);
  small.getContext("2d").putImageData(image, 0, 0);
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, 0, 0, canvas.width, canvas.height);
}

async function denoise() {
  const item = current, button = find("denoise");
  button.disabled = true;
  find("denoised").textContent = "Working …";
  try {
    const answer = await ask("/denoise", item);
    const type = answer.headers.get("content-type").split(";")[0];
    const blob = await answer.blob();
    if (item !== current) return;
    const ending = { "audio/wav": "wav", "image/png": "png", "text/plain": "txt" }[type] || "npy";
    const kind = { wav: "audio", png: "image" }[ending] || "other";
    const shown = media(blob, kind, `Denoised ${item.name}`);
    const link = document.createElement("a");
    link.href = urls[urls.length - 1];
    link.download = `denoised.${ending}`;
    link.textContent = `Save denoised.${ending}`;
    find("denoised").replaceChildren(...shown, link);
  } catch (error) {
    if (item === current) find("denoised").textContent = error.message;
  } finally {
    button.disabled = false;
  }
}

// Three seconds from the microphone as a WAV file: plain samples, so that nothing is lost to a codec.
async function record() {
  const button = find("record");
  button.disabled = true;
  let stream = null, context = null;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: false, noiseSuppression: false } });
    say("Recording …");
    const recorder = new MediaRecorder(stream), parts = [];
    recorder.ondataavailable = (event) => parts.push(event.data);
    const ended = new Promise((resolve) => { recorder.onstop = resolve; });
    recorder.start();
    setTimeout(() => recorder.stop(), 3000);
    await ended;
    context = new AudioContext();
    const sound = await context.decodeAudioData(await new Blob(parts).arrayBuffer());
    await show({ blob: wav(sound.getChannelData(0), sound.sampleRate), name: "recording.wav" });
  } catch (error) {
    fail(new Error(`No recording: ${error.message}`));
  } finally {
    if (stream) stream.getTracks().forEach((track) => track.stop());
    if (context) context.close();
    button.disabled = false;
  }
}

function wav(samples, rate) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const text = (at, value) => [...value].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  text(0, "RIFF"); view.setUint32(4, 36 + 2 * samples.length, true); text(8, "WAVEfmt ");
  view.setUint32(16, 16, true); view.setUint16(20, 1, true); view.setUint16(22, 1, true);
  view.setUint32(24, rate, true); view.setUint32(28, 2 * rate, true); view.setUint16(32, 2, true); view.setUint16(34, 16, true);
  text(36, "data"); view.setUint32(40, 2 * samples.length, true);
  samples.forEach((x, i) => view.setInt16(44 + 2 * i, 32767 * Math.max(-1, Math.min(1, x)), true));
  return new Blob([view], { type: "audio/wav" });
}

async function loadExample(name) {
  if (!name) return;
  try {
    const answer = await fetch(`/page/examples/${name}`);
    if (!answer.ok) throw new Error(`${name}: the service answered ${answer.status}`);
    await show({ blob: await answer.blob(), name });
  } catch (error) { fail(error); }
}

async function start() {
  const state = await (await fetch("/page/state")).json();
  for (const { name, title } of state.examples) find("example").add(new Option(title, name));
  showNeighbours.enabled = state.index;
  find("token-field").hidden = !state.token;
  find("about").textContent = `version ${state.version}, ${state.weights} weights`;
  find("record").hidden = !(navigator.mediaDevices && window.MediaRecorder);
}

const drop = find("drop");
for (const name of ["dragenter", "dragover"]) drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.add("over"); });
for (const name of ["dragleave", "drop"]) drop.addEventListener(name, (event) => { event.preventDefault(); drop.classList.remove("over"); });
const take = (files) => { if (files.length) show({ blob: files[0], name: files[0].name }); };
drop.addEventListener("drop", (event) => take(event.dataTransfer.files));
find("file").addEventListener("change", (event) => take(event.target.files));
find("example").addEventListener("change", (event) => loadExample(event.target.value));
find("denoise").addEventListener("click", denoise);
find("record").addEventListener("click", record);
find("form").addEventListener("submit", (event) => event.preventDefault());
start().catch(fail);
