"use strict";
// The program as page/__init__.py packs it: a line is [text, names defined, {name: value}, "file:line"].
const program = JSON.parse(document.getElementById("data").textContent);
const columns = document.getElementById("columns");
const about = document.getElementById("about");
const search = document.getElementById("search");
const byValue = new Map(); // value -> elements that name it
const bySource = new Map(); // "file:line" -> the element of that line
let chosen = null; // {value, element}

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function column(title, className) {
  const section = make("section", className);
  section.append(make("h2", "", title));
  columns.append(section);
  return section;
}

function note(value, element) {
  element.dataset.value = value;
  if (!byValue.has(value)) byValue.set(value, []);
  byValue.get(value).push(element);
}

function sources() {
  for (const source of program.sources) {
    const section = column(source.file, "python");
    const pre = section.appendChild(make("pre"));
    for (const [number, text] of source.lines) {
      const row = pre.appendChild(make("div"));
      row.append(make("span", "number", number), text);
      row.dataset.place = source.file + ":" + number;
      bySource.set(row.dataset.place, row);
    }
  }
}

let before = new Set(); // the values of the stage before
function stage(data) {
  if (!data.changed) {
    const last = columns.lastElementChild;
    const folded = last && last.className === "folded" ? last : column("unchanged", "folded");
    folded.append(make("div", "", `${data.name} ✓ ${data.ms} ms`));
    return;
  }
  const section = column(`${data.name} · ${data.ops} ops · ${data.ms} ms`, "stage");
  section.dataset.stage = data.name;
  const pre = section.appendChild(make("pre"));
  const values = new Map(); // as a name is printed here -> the value
  for (const line of data.lines) {
    for (const name of line[1] || []) values.set(name, (line[2] || {})[name] || name);
  }
  for (const line of data.lines) {
    const row = pre.appendChild(make("div"));
    if (line[3]) row.dataset.place = line[3];
    const made = (line[1] || []).map((name) => values.get(name));
    if (before.size && made.length && made.every((value) => !before.has(value))) row.classList.add("new");
    for (const piece of line[0].split(/(%[A-Za-z0-9_.]+)/)) {
      const value = piece[0] === "%" ? values.get(piece.slice(1)) : undefined;
      if (value === undefined) {
        row.append(piece);
        continue;
      }
      const element = make("span", "v", piece);
      if ((line[1] || []).includes(piece.slice(1))) element.dataset.defines = "";
      note(value, element);
      row.append(element);
    }
  }
  before = new Set(values.values());
}

// The arena: operations from left to right, bytes from bottom to top.
function memory(data) {
  if (!data || !data.buffers.length) return;
  const section = column(`memory · ${data.arena} bytes, ${data.bound} alive at once`, "memory");
  const width = 540, height = 420, end = Math.max(...data.buffers.map((b) => b[4])) + 1;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  const x = (op) => (op / end) * width, y = (byte) => height - (byte / data.arena) * height;
  const add = (tag, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    svg.append(element);
    return element;
  };
  for (const [name, bytes, offset, first, last, type, maker] of data.buffers) {
    const box = add("rect", { x: x(first), y: y(offset + bytes), width: Math.max(x(last + 1) - x(first), 1), height: Math.max((bytes / data.arena) * height, 1) });
    const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
    title.textContent = `%${name} ${type}, ${bytes} bytes, made by ${maker}`;
    box.append(title);
    note(name, box);
    if ((bytes / data.arena) * height > 12) add("text", { x: x(first) + 3, y: y(offset) - 3 }, "%" + name);
  }
  add("line", { class: "bound", x1: 0, x2: width, y1: y(data.bound), y2: y(data.bound) });
  section.append(svg);
}

const adjointOf = (value) => (value.endsWith("_ct") ? value.slice(0, -3) : value + "_ct");

function clear() {
  for (const name of ["value", "adjoint", "at", "source"]) {
    for (const element of [...document.querySelectorAll("." + name)]) element.classList.remove(name);
  }
}

function choose(value, element, scroll) {
  clear();
  chosen = { value, element };
  if (element) element.classList.add("at");
  const places = new Set();
  for (const [name, style] of [[value, "value"], [adjointOf(value), "adjoint"]]) {
    for (const found of byValue.get(name) || []) {
      found.classList.add(style);
      if (style === "value" && "defines" in found.dataset && found.parentElement.dataset.place) {
        places.add(found.parentElement.dataset.place);
      }
    }
  }
  for (const place of places) {
    const row = bySource.get(place);
    if (row) {
      row.classList.add("source");
      row.scrollIntoView({ block: "nearest" });
    }
  }
  tell(value);
  if (scroll) {
    for (const section of columns.querySelectorAll("section.stage")) {
      const first = section.querySelector(`[data-value="${CSS.escape(value)}"]`);
      if (first) first.scrollIntoView({ block: "center", inline: "nearest" });
    }
    if (element) element.scrollIntoView({ block: "center", inline: "nearest" });
  }
  history.replaceState(null, "", "#" + value);
}

function tell(value) {
  const stages = [...columns.querySelectorAll("section.stage")]
    .filter((s) => s.querySelector(`[data-value="${CSS.escape(value)}"]`))
    .map((s) => s.dataset.stage);
  let text = `%${value}: in ${stages.join(", ") || "no column"}.`;
  const gone = program.gone[value];
  if (gone) text += ` Removed by ${gone[0]}${gone[1] ? `, which reads %${gone[1]} instead` : ""}.`;
  if (byValue.has(adjointOf(value))) text += ` ${value.endsWith("_ct") ? "Adjoint of" : "Adjoint:"} %${adjointOf(value)}.`;
  about.textContent = text;
}

function step(by) {
  const section = chosen && chosen.element ? chosen.element.closest("section") : columns.querySelector("section.stage");
  const all = [...section.querySelectorAll("[data-defines]")];
  const now = all.findIndex((e) => chosen && e.dataset.value === chosen.value);
  const next = all[Math.min(Math.max(now + by, 0), all.length - 1)];
  if (next) choose(next.dataset.value, next, true);
}

function across(by) {
  if (!chosen) return;
  const sections = [...columns.querySelectorAll("section.stage, section.memory")];
  let i = chosen.element ? sections.indexOf(chosen.element.closest("section")) : -1;
  for (i += by; i >= 0 && i < sections.length; i += by) {
    const found = sections[i].querySelector(`[data-value="${CSS.escape(chosen.value)}"]`);
    if (found) {
      choose(chosen.value, found, false);
      found.scrollIntoView({ block: "center", inline: "center" });
      return;
    }
  }
}

let hits = [], hit = -1;
function find() {
  for (const row of hits) row.classList.remove("found");
  const text = search.value.trim().toLowerCase();
  hits = text ? [...columns.querySelectorAll("pre > div")].filter((r) => r.textContent.toLowerCase().includes(text)) : [];
  for (const row of hits) row.classList.add("found");
  hit = -1;
  document.getElementById("count").textContent = text ? `${hits.length} lines` : "";
}

function release() {
  clear();
  chosen = null;
  search.value = "";
  find();
  search.blur();
  about.textContent = "Click a value to follow it.";
  history.replaceState(null, "", location.pathname + location.search);
}

columns.addEventListener("click", (event) => {
  const element = event.target.closest("[data-value]");
  if (element) choose(element.dataset.value, element, false);
});
search.addEventListener("input", find);
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && hits.length) {
    hit = (hit + (event.shiftKey ? hits.length - 1 : 1)) % hits.length;
    hits[hit].scrollIntoView({ block: "center", inline: "center" });
  }
});
document.getElementById("help").addEventListener("click", () => document.getElementById("keys").showModal());
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") return release();
  if (event.target === search || event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = {
    "/": () => search.focus(),
    j: () => step(1),
    k: () => step(-1),
    ArrowLeft: () => across(-1),
    ArrowRight: () => across(1),
    a: () => {
      const other = chosen && (byValue.get(adjointOf(chosen.value)) || [])[0];
      if (other) choose(other.dataset.value, other, true);
    },
    "?": () => document.getElementById("keys").showModal(),
  };
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});
function linked() {
  const value = decodeURIComponent(location.hash.slice(1));
  if (byValue.has(value)) choose(value, byValue.get(value)[0], true);
}
window.addEventListener("hashchange", linked);

document.querySelector("h1").textContent = program.name;
sources();
program.stages.forEach(stage);
memory(program.memory);
linked();
