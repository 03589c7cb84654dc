// Draws what the API answers. Text from the API goes into the document as text nodes only: names of networks, identities
// and hardware addresses come from subscribers' devices.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const TABS = ["Overview", "Stages", "Drops", "Ports", "Workers", "Sessions", "Trace"];
// Seconds between two looks at sessions: all of them are read for their rates.
const SESSIONS_EVERY = 6;

const state = { tab: "Overview", paused: false, about: null, request: null, after: null, looked: 0, reading: 0 };
const by = (id) => document.getElementById(id);

/** An element with attributes `class` and `title`, and children: elements, or text. */
function el(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "class") made.className = value;
    else if (key === "title") made.title = value;
    else if (key === "scope") made.scope = value;
    else throw new Error("attribute " + key);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : document.createTextNode(String(child)))));
  return made;
}

/** Three digits with a unit of thousands. */
function si(value) {
  const units = ["", "k", "M", "G", "T"];
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) { value /= 1000; unit += 1; }
  const digits = (unit === 0 && Number.isInteger(value)) || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return value.toFixed(digits) + " " + units[unit];
}
const pps = (rate) => si(rate >= 10 ? Math.round(rate) : rate) + "pps";
const bits = (rate) => si(rate >= 10 ? Math.round(rate) : rate) + "bit/s";
const percent = (ratio) => (100 * ratio).toFixed(0) + " %";
const count = (n) => Number(n).toLocaleString("en-US");
function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1023.95 && unit < units.length - 1) { n /= 1024; unit += 1; }
  return n.toFixed(unit === 0 || n >= 99.95 ? 0 : 1) + " " + units[unit];
}
function duration(seconds) {
  const s = Math.floor(seconds), parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => s >= size);
  if (first < 0) return "0 s";
  return parts.slice(first, first + 2).map(([size, unit], n) => Math.floor((n ? s % parts[first][0] : s) / size) + " " + unit).join(" ");
}

/** What a path answers; an error has the API's sentence. */
async function get(path) {
  const control = new AbortController();
  const timer = setTimeout(() => control.abort(), 20000);
  try {
    const answer = await fetch(path, { signal: control.signal, cache: "no-store", credentials: "omit", headers: { "x-weir-trace": "1" } });
    const value = await answer.json();
    if (!answer.ok) throw new Error(value.error || "status " + answer.status);
    return value;
  } catch (error) {
    throw error.name === "AbortError" ? new Error("no answer within 20 s") : error;
  } finally {
    clearTimeout(timer);
  }
}

/** A table: columns are [head, class, cell of a row]; a cell is text, or a number for a bar. */
function table(columns, rows, nothing) {
  if (rows.length === 0) return el("p", { class: "dim" }, nothing);
  const head = columns.map(([name, kind]) => el("th", { class: kind, scope: "col" }, name));
  const body = rows.map((row) => el("tr", {}, ...columns.map(([, kind, cell]) => {
    const value = cell(row);
    if (!kind.startsWith("bar")) return el("td", { class: kind }, value);
    const bar = el("div", { title: percent(value) });
    bar.style.width = (100 * Math.min(1, Math.max(0, value))).toFixed(1) + "%";
    return el("td", { class: kind }, bar);
  })));
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body)));
}
const alarm = (text, is) => el("span", { class: is ? "alarm" : "" }, text);

/** Values as a line over an area, the newest on the right. */
function chart(values, most) {
  const svg = document.createElementNS(SVG, "svg"), n = 120;
  const shown = values.slice(-n), top = most || Math.max(...shown, 0) || 1;
  svg.setAttribute("viewBox", `0 0 ${n - 1} 100`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  if (shown.length > 1) {
    const points = shown.map((value, i) => `${n - shown.length + i},${(98 - 96 * Math.min(1, value / top)).toFixed(1)}`);
    const path = (name, d) => {
      const made = document.createElementNS(SVG, "path");
      made.setAttribute("class", name);
      made.setAttribute("d", d);
      svg.append(made);
    };
    path("area", `M${n - shown.length},100 L${points.join(" ")} L${n - 1},100 Z`);
    path("edge", `M${points.join(" L")}`);
  }
  return svg;
}

function card(name, kind, value, more, values, most) {
  return el("div", { class: "card " + kind }, el("h2", {}, name), el("div", { class: "value" }, value), el("div", { class: "dim" }, more), chart(values, most));
}

const STAGES = [
  ["stage", "name", (row) => row.stage],
  ["packets", "number wide", (row) => pps(row.packets_per_second)],
  ["a call", "number wide", (row) => row.packets_per_call.toFixed(1)],
  ["cycles", "number", (row) => row.cycles_per_packet.toFixed(1)],
  ["ns", "number", (row) => row.ns_per_packet.toFixed(1)],
  ["share", "number", (row) => percent(row.cost_ratio)],
  ["of the cost", "bar", (row) => row.cost_ratio],
];
const DROPS = [
  ["reason", "name", (row) => row.reason],
  ["at", "name", (row) => row.stage],
  ["rate", "number", (row) => alarm(pps(row.packets_per_second), row.packets_per_second > 0)],
  ["packets", "number", (row) => count(row.packets)],
  ["what it means", "words", (row) => row.help],
];
const PORTS = [
  ["port", "name", (row) => row.name],
  ["side", "", (row) => row.role],
  ["kind", "wide", (row) => row.kind],
  ["interface", "wide", (row) => row.interface],
  ["link", "", (row) => alarm(row.link, row.link !== "up")],
  ["in", "number", (row) => pps(row.rx_packets_per_second)],
  ["", "number", (row) => bits(row.rx_bits_per_second)],
  ["out", "number", (row) => pps(row.tx_packets_per_second)],
  ["", "number", (row) => bits(row.tx_bits_per_second)],
  ["lost", "number", (row) => alarm(pps(row.lost_packets_per_second), row.lost_packets_per_second > 0)],
  ["lost so far", "number wide", (row) => count(row.lost_packets)],
];
const WORKERS = [
  ["worker", "number", (row) => row.worker],
  ["on CPU", "number", (row) => (row.cpu === null ? "–" : row.cpu)],
  ["CPU time", "number", (row) => percent(row.cpu_ratio)],
  ["busy", "number", (row) => percent(row.busy_ratio)],
  ["idle", "number", (row) => percent(row.idle_ratio)],
  ["in", "number", (row) => pps(row.rx_packets_per_second)],
  ["out", "number", (row) => pps(row.tx_packets_per_second)],
  ["a burst", "number wide", (row) => row.packets_per_burst.toFixed(1)],
  ["sleeps/s", "number wide", (row) => si(Math.round(row.sleeps_per_second))],
  ["CPU ns/packet", "number wide", (row) => row.cpu_ns_per_packet.toFixed(0)],
  ["busy", "bar", (row) => row.busy_ratio],
];

function fill(id, title, ...children) {
  by(id).replaceChildren(el("h2", {}, title), ...children);
}

function draw(view) {
  by("title").textContent = "weir " + view.gateway;
  by("about").textContent = `${view.workers.length} ${view.workers.length === 1 ? "worker" : "workers"} · up ${duration(view.uptime_seconds)} · version ${view.version}`;
  const rates = view.rates, history = view.history;
  const cards = el("div", { class: "cards" },
    card("in", "in", pps(rates.rx_packets_per_second), bits(rates.rx_bits_per_second), history.rx_packets_per_second),
    card("out", "out", pps(rates.tx_packets_per_second), bits(rates.tx_bits_per_second), history.tx_packets_per_second),
    card("drops", "lost", alarm(pps(rates.dropped_packets_per_second), rates.dropped_packets_per_second > 0), view.drops.length ? view.drops[0].reason : "none so far", history.dropped_packets_per_second),
    card("workers busy", "busy", percent(rates.busy_ratio), "mean of all", history.busy_ratio, 1));
  if (view.kernel) {
    cards.append(el("div", { class: "card" }, el("h2", {}, "in the kernel"), el("div", { class: "value" }, pps(view.kernel.packets_per_second)), el("div", { class: "dim" }, bits(view.kernel.bits_per_second))));
  }
  const dear = [...view.stages].sort((a, b) => b.cost_ratio - a.cost_ratio).slice(0, 8).map((stage) => stage.stage);
  const none = "no packet in this interval";
  by("overview").replaceChildren(cards,
    el("h2", {}, "Stages that cost most"), table(STAGES, view.stages.filter((stage) => dear.includes(stage.stage)), none),
    el("h2", {}, "Drops"), table(DROPS, view.drops.slice(0, 5), "no packet was dropped"));
  fill("stages", "Stages, all workers together", table(STAGES, view.stages, none));
  fill("drops", "Drops by stage and reason", table(DROPS, view.drops, "no packet was dropped"));
  fill("ports", "Ports, all workers together", table(PORTS, view.ports, "no ports"));
  fill("workers", "Workers", table(WORKERS, view.workers, "no workers"));
}

function entries(page) {
  const has = (key) => page.entries.some((entry) => entry[key] !== undefined && entry[key] !== null);
  const list = (texts) => (texts.length > 2 ? `${texts[0]} +${texts.length - 1}` : texts.join(" ")) || "–";
  const plain = (head, key, kind) => [head, kind || "name", (entry) => (entry[key] === undefined || entry[key] === null ? "–" : entry[key])];
  const columns = [];
  for (const [head, key] of [["subscriber", "name"], ["imsi", "imsi"], ["msisdn", "msisdn"], ["mac", "mac"]]) if (has(key)) columns.push(plain(head, key));
  columns.push(["addresses", "name", (entry) => list(entry.addresses)]);
  for (const [head, key] of [["dnn", "dnn"], ["network", "network_instance"], ["group", "group"], ["profile", "profile"]]) if (has(key)) columns.push(plain(head, key));
  if (has("s_vlan")) columns.push(["line", "name", (entry) => `${entry.port || "–"}:${entry.s_vlan || 0}.${entry.c_vlan || 0}`]);
  if (has("up_bps")) {
    columns.push(["up", "number", (entry) => bits(entry.up_bps || 0)], ["down", "number", (entry) => bits(entry.down_bps || 0)]);
  }
  columns.push(["up bytes", "number", (entry) => bytes(entry.up_bytes)], ["down bytes", "number", (entry) => bytes(entry.down_bytes)]);
  if (state.about && state.about.trace) {
    columns.push(["", "", (entry) => {
      const button = el("button", {}, "Trace");
      button.type = "button";
      button.disabled = entry.addresses.length === 0;
      button.addEventListener("click", () => {
        by("trace-key").value = "ue";
        by("trace-value").value = entry.addresses[0].split("/")[0];
        show("Trace");
      });
      return button;
    }]);
  }
  return table(columns, page.entries, "none");
}

/** Sessions: those looked up, once; else those with the highest rates, again and again. */
async function sessions(isMore) {
  const topic = state.about && state.about.connected;
  if (!topic) return;
  const wanted = () => state.request || "top=rate&over=1&limit=30";
  const request = wanted();
  const after = isMore && state.after !== null ? "&after=" + state.after : "";
  state.reading += 1;
  try {
    const page = await get(`/api/v1/${topic}?${request}${after}`);
    if (request !== wanted()) return;
    by("found").textContent = state.request
      ? `${count(page.entries.length)} of ${count(page.total)} ${page.kind}${page.next === null ? "" : ", and perhaps more"}`
      : `${count(page.total)} ${page.kind}; those with the highest rates over a second`;
    state.after = page.next;
    by("more").hidden = !(state.request && page.next !== null);
    by("entries").replaceChildren(entries(page));
  } catch (error) {
    // Of a look-up that is not wanted any more.
    if (request !== wanted()) return;
    by("found").textContent = error.message;
    by("entries").replaceChildren();
  } finally {
    state.reading -= 1;
    state.looked = Date.now();
  }
}

function walk(lines, n) {
  const last = lines[lines.length - 1];
  const outcome = last.verdict === "drop" ? "dropped by " + last.stage : last.verdict === "punt" ? "to the slow path by " + last.stage : "sent on";
  const rows = lines.map((line, at) => ({ ...line, detail: at > 0 && lines[at - 1].detail === line.detail ? "…" : line.detail }));
  const columns = [
    ["stage", "name", (line) => line.stage],
    ["", "", (line) => alarm(line.verdict, line.verdict === "drop")],
    ["ns", "number", (line) => (line.stage_ns === null ? "" : line.stage_ns.toFixed(0))],
    ["packet", "words", (line) => line.detail],
  ];
  const hex = (text) => (text.match(/.{1,32}/g) || []).map((part, i) => (16 * i).toString(16).padStart(4, "0") + "  " + part.match(/.{1,2}/g).join(" ")).join("\n");
  const dump = el("details", {}, el("summary", {}, "bytes as received and as last seen"), el("pre", {}, hex(lines[0].bytes)), el("pre", {}, hex(last.bytes)));
  const time = new Date(last.unix_ns / 1e6).toISOString().slice(11, 23);
  return el("div", {}, el("h2", {}, `packet ${n} · worker ${last.worker} · ${time} UTC · ${outcome}`), table(columns, rows, ""), dump);
}

async function follow(event) {
  event.preventDefault();
  const value = (id) => encodeURIComponent(by(id).value.trim());
  by("trace-go").disabled = true;
  by("walks").replaceChildren();
  by("trace-state").textContent = "following …";
  try {
    const walks = await get(`/api/v1/trace?${by("trace-key").value}=${value("trace-value")}&packets=${value("trace-packets")}&seconds=${value("trace-seconds")}`);
    by("trace-state").textContent = walks.length ? `${walks.length} packets` : "no packet came in this time";
    by("walks").replaceChildren(...walks.map((lines, n) => walk(lines, n + 1)));
  } catch (error) {
    by("trace-state").textContent = error.message;
  } finally {
    by("trace-go").disabled = false;
  }
}

function show(tab) {
  state.tab = tab;
  for (const name of TABS) by(name.toLowerCase()).classList.toggle("shown", name === tab);
  for (const button of by("tabs").children) {
    if (button.textContent === tab) button.setAttribute("aria-current", "page");
    else button.removeAttribute("aria-current");
  }
  history.replaceState(null, "", "#" + tab.toLowerCase());
  if (tab === "Sessions") sessions();
}

function said(text, isAlarm) {
  by("state").textContent = text;
  by("state").className = isAlarm ? "alarm" : "dim";
}

/** One look after the other: a slow gateway is not asked again before it has answered. */
async function look() {
  const every = 1000 * Number(by("interval").value);
  if (!state.paused && !document.hidden) {
    try {
      if (!state.about) await begin();
      draw(await get("/api/v1/top"));
      said("", false);
      if (state.tab === "Sessions" && !state.request && state.reading === 0 && Date.now() - state.looked > 1000 * SESSIONS_EVERY) sessions();
    } catch (error) {
      said("connection lost, trying again: " + error.message, true);
      state.about = null;
    }
  }
  setTimeout(look, every);
}

/** What the gateway has. */
async function begin() {
  const about = await get("/api/v1/about");
  const option = (name, help) => { const made = el("option", { title: help }, name); made.value = name; return made; };
  const chosen = [by("key").value, by("trace-key").value];
  const filters = about.filters.map((key) => option(key.name, key.help));
  by("key").replaceChildren(...filters);
  const names = ["ue", "imsi", "msisdn", "teid", "seid", "modem", "subscriber", "mac"].filter((name) => about.filters.some((key) => key.name === name));
  by("trace-key").replaceChildren(...names.map((name) => option(name, about.filters.find((key) => key.name === name).help)));
  if (chosen[0]) [by("key").value, by("trace-key").value] = chosen;
  const topic = about.connected || "sessions";
  by("kind").textContent = topic[0].toUpperCase() + topic.slice(1);
  if (!about.connected) by("found").textContent = `This gateway is ${about.title}: it has no sessions.`;
  by("look-up").hidden = !about.connected;
  by("no-trace").hidden = about.trace;
  by("follow").hidden = !about.trace;
  state.about = about;
}

for (const tab of TABS) {
  const button = el("button", {}, tab);
  button.type = "button";
  button.addEventListener("click", () => show(tab));
  by("tabs").append(button);
}
by("pause").addEventListener("click", () => {
  state.paused = !state.paused;
  by("pause").setAttribute("aria-pressed", String(state.paused));
  by("pause").textContent = state.paused ? "Go on" : "Pause";
  said(state.paused ? "paused" : "", false);
});
by("look-up").addEventListener("submit", (event) => {
  event.preventDefault();
  const value = by("value").value.trim();
  state.request = value ? `${by("key").value}=${encodeURIComponent(value)}&limit=50` : "limit=50";
  state.after = null;
  sessions();
});
by("all").addEventListener("click", () => { state.request = null; by("value").value = ""; sessions(); });
by("more").addEventListener("click", () => sessions(true));
by("follow").addEventListener("submit", follow);
show(TABS.find((tab) => "#" + tab.toLowerCase() === location.hash) || "Overview");
look();
