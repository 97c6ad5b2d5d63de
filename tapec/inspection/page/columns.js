"use strict";
// What is seen: a column for the source, for each pass that changed something, for memory and machine code.
// The program is as page/__init__.py packs it: a line is [text, number of its place, names defined, {name: value}].
const program = JSON.parse(document.getElementById("data").textContent);
const columns = document.getElementById("columns");
const rail = document.getElementById("rail");
const changed = program.stages.filter((stage) => stage.changed);
const byStage = changed.map(() => new Map()); // for each stage: value -> elements that name it
const boxes = new Map(); // value -> its rectangles in memory
const byPlace = new Map(); // "file:line" -> the rows that come from it

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function add(map, key, element) {
  if (!map.has(key)) map.set(key, []);
  map.get(key).push(element);
}

function column(title, className, right, summary) {
  const section = make("section", className);
  const head = section.appendChild(make("h2", "", title));
  if (right) head.append(make("span", "", right));
  if (summary) head.append(make("small", "", summary));
  columns.append(section);
  return section;
}

function station(title, section, hint) {
  if (rail.childElementCount) rail.append(make("i", "", "›"));
  const chip = rail.appendChild(make(section ? "a" : "span", section ? "" : "same", title));
  chip.title = hint;
  if (!section) return;
  chip.href = "#";
  chip.addEventListener("click", (event) => {
    event.preventDefault();
    const fixed = columns.querySelector("section.python");
    columns.scrollLeft = section.offsetLeft - columns.offsetLeft - (fixed ? fixed.offsetWidth : 0);
  });
}

// The number of the user's line in front of a row, and the row among those of that line.
function placed(row, number, shown) {
  const place = number ? program.places[number - 1] : "";
  row.append(make("span", "number", shown && place ? place.slice(place.lastIndexOf(":") + 1) : ""));
  if (!place) return;
  row.dataset.place = place;
  add(byPlace, place, row);
}

function sources() {
  for (const source of program.sources) {
    const pre = column(source.file, "python", "", "Your lines. Click one to see all that comes from it.").appendChild(make("pre"));
    for (const [number, text] of source.lines) {
      const row = pre.appendChild(make("div"));
      row.dataset.place = `${source.file}:${number}`;
      add(byPlace, row.dataset.place, row);
      row.append(make("span", "number", number), text);
    }
  }
}

const PIECES = /(%[A-Za-z0-9_.]+)|(\{[^{}]*=[^{}]*\})|(&?\b(?:[fiu]\d+|bf16|c\d+|bool|index)(?:x\d+)?\b(?:\[[^\]]*\])?)|("[^"]*")|(\/\/.*)/;
const KINDS = ["", "a", "t", "s", "c"];

function write(row, text, name) {
  const head = /^(\s*(?:%.*? = )?)([\w.]+)(.*)$/.exec(text);
  const parts = head ? [[head[1], false], [head[2], true], [head[3], false]] : [[text, false]];
  for (const [part, isOperation] of parts) {
    if (isOperation) {
      row.append(make("span", "o", part));
      continue;
    }
    let rest = part;
    for (let found; (found = PIECES.exec(rest)); rest = rest.slice(found.index + found[0].length)) {
      row.append(rest.slice(0, found.index));
      const kind = found.slice(1).findIndex((piece) => piece !== undefined);
      row.append(kind ? make("span", KINDS[kind], found[0]) : name(found[0]));
    }
    row.append(rest);
  }
}

// For the header of each function, what the names that are printed in it stand for.
function scopes(lines) {
  const found = new Map();
  let scope = new Map();
  for (const [text = "", , defines = [], renamed = {}] of lines) {
    if (/^(func|kernel) /.test(text)) found.set(text, (scope = new Map()));
    for (const name of defines) scope.set(name, renamed[name] || name);
  }
  return found;
}

let before = new Set(); // the values of the stage before
function stage(data) {
  if (!data.changed) return station(data.name.split("{")[0], null, `${data.summary} It changed nothing, in ${data.ms} ms.`);
  const index = changed.indexOf(data), next = changed[index + 1];
  const section = column(data.name.split("{")[0], "stage", `${data.ops} ops · ${data.ms} ms`, data.summary);
  section.querySelector("h2").title = data.name;
  section.dataset.stage = data.name;
  station(data.name.split("{")[0], section, `${data.summary} ${data.ops} operations, ${data.ms} ms.`);
  const pre = section.appendChild(make("pre"));
  const values = scopes(data.lines), all = new Set();
  let last = 0, scope = new Map();
  for (const [text = "", place = 0, defines = []] of data.lines) {
    if (values.has(text)) scope = values.get(text);
    const row = pre.appendChild(make("div"));
    placed(row, place, place !== last);
    last = place || last; // what has no line stands among those of a line
    const made = defines.map((name) => scope.get(name));
    made.forEach((value) => all.add(value));
    if (before.size && made.length && made.every((value) => !before.has(value))) row.classList.add("new");
    if (next && made.length && made.every((value) => next.changes[value] && next.changes[value][0] !== value)) row.classList.add("gone");
    write(row, text, (piece) => {
      const value = scope.get(piece.slice(1));
      if (value === undefined) return piece;
      const element = make("span", "v", piece);
      element.dataset.value = value;
      element.dataset.index = index;
      if (defines.includes(piece.slice(1))) element.dataset.defines = "";
      add(byStage[index], value, element);
      return element;
    });
  }
  before = all;
}

// The arena: operations from left to right, bytes from bottom to top.
function memory(data) {
  if (!data || !data.buffers.length) return;
  const section = column("memory", "memory", `${data.arena} bytes`, `Operations from left to right, bytes upwards; dashed: ${data.bound} bytes are alive at once.`);
  station("memory", section, "Where values are in the memory of a call.");
  const width = 510, height = 420, end = Math.max(...data.buffers.map((b) => b[4])) + 1;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  const x = (op) => (op / end) * width, y = (byte) => height - (byte / data.arena) * height;
  const draw = (tag, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    svg.append(element);
    return element;
  };
  for (const [name, bytes, offset, first, last, type, maker] of data.buffers) {
    const box = draw("rect", { x: x(first), y: y(offset + bytes), width: Math.max(x(last + 1) - x(first), 1), height: Math.max((bytes / data.arena) * height, 1) });
    const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
    title.textContent = `%${name} ${type}, ${bytes} bytes, made by ${maker}`;
    box.append(title);
    box.dataset.value = name;
    box.dataset.index = changed.findIndex((s) => s.name === "plan");
    add(boxes, name, box);
    if ((bytes / data.arena) * height > 12) draw("text", { x: x(first) + 3, y: y(offset) - 3 }, "%" + name);
  }
  draw("line", { class: "bound", x1: 0, x2: width, y1: y(data.bound), y2: y(data.bound) });
  section.append(svg);
}

function machine(data) {
  if (!data.lines.length && !data.note) return;
  const section = column("machine code", "machine", `${data.lines.length} lines`, "What this processor runs, kernel by kernel.");
  station("machine code", section, "What this processor runs.");
  const pre = section.appendChild(make("pre"));
  let last = 0;
  const index = changed.length - 1;
  for (const [text, place, ...values] of data.lines) {
    const row = pre.appendChild(make("div"));
    placed(row, place, place !== last);
    last = place || last; // what has no line stands among those of a line
    const head = /^(\s*)([\w.]+:?)(.*)$/.exec(text);
    const word = make("span", "o", head[2]);
    row.append(head[1], word, head[3]);
    // An instruction stands for the values that it computes, as the last program calls them.
    for (const value of values) add(byStage[index], value, word);
    if (!values.length) continue;
    word.classList.add("v");
    word.dataset.value = values[values.length - 1]; // what the outermost loop has in the end
    word.dataset.index = index;
  }
  if (data.note) section.append(make("div", "note", data.note));
}
