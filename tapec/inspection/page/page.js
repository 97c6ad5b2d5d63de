// What is clicked is followed: through what passes told of it (`tapec.ir.history`), stage by stage.
const about = document.getElementById("about");
const search = document.getElementById("search");
let chosen = null; // {value, index of the stage, element}

const union = (sets) => new Set(sets.flatMap((set) => [...set]));

// What the values of one stage are in the next one.
function onwards(names, stage) {
  const found = new Set();
  for (const name of names) {
    const change = stage.changes[name];
    if (!change) found.add(name);
    else if (change[0] !== null) found.add(change[0]);
    for (const element of stage.elements[name] || []) found.add(element);
  }
  return found;
}

// Of which values of the stage before these have come.
function backwards(names, stage) {
  const found = new Set(names);
  for (const [old, [instead]] of Object.entries(stage.changes)) if (names.has(instead)) found.add(old);
  for (const [old, elements] of Object.entries(stage.elements)) {
    if (elements.some((element) => names.has(element))) found.add(old);
  }
  return found;
}

// For each stage the names under which a value is there, beginning with its name in one stage.
function lives(names, start) {
  const sets = changed.map(() => new Set());
  sets[start] = new Set(names);
  for (let i = start + 1; i < changed.length; i++) sets[i] = onwards(sets[i - 1], changed[i]);
  for (let i = start; i > 0; i--) sets[i - 1] = backwards(sets[i], changed[i]);
  return sets;
}

// The same for its adjoints or, of an adjoint, for what it is the adjoint of.
function partners(own) {
  const found = changed.map(() => new Set());
  const join = (sets) => sets.forEach((set, i) => set.forEach((name) => found[i].add(name)));
  let isAdjoint = false;
  changed.forEach((stage, i) => {
    for (const [value, cotangents] of Object.entries(stage.cotangents)) {
      if (own[i].has(value)) join(lives(cotangents, i).map((set, j) => (j < i ? new Set() : set)));
      else if (cotangents.some((name) => own[i].has(name))) {
        isAdjoint = true;
        join(lives([value], i));
      }
    }
  });
  return { sets: found.map((set, i) => new Set([...set].filter((name) => !own[i].has(name)))), isAdjoint };
}

function clear() {
  for (const name of ["value", "adjoint", "at", "here"]) {
    for (const element of columns.querySelectorAll("." + name)) element.classList.remove(name);
  }
}

function paint(sets, style) {
  const shown = [];
  sets.forEach((names, i) => {
    for (const name of names) for (const element of byStage[i].get(name) || []) {
      element.classList.add(style);
      shown.push(element);
    }
  });
  const planned = changed.findIndex((stage) => stage.name === "plan");
  for (const name of planned < 0 ? [] : sets[planned]) for (const box of boxes.get(name) || []) box.classList.add(style);
  return shown;
}

function show(element, inline) {
  element.scrollIntoView({ block: "nearest", inline });
}

function choose(value, index, element, scroll) {
  clear();
  chosen = { value, index, element };
  const own = lives([value], index), other = partners(own);
  paint(other.sets, "adjoint");
  const shown = paint(own, "value");
  if (element) element.classList.add("at");
  const makers = shown.filter((e) => "defines" in e.dataset && e.dataset.value === value);
  const computed = shown.some((e) => e.closest("section.machine")); // else its line is all that is known
  for (const place of new Set(makers.map((e) => e.parentElement.dataset.place).filter(Boolean))) {
    for (const row of byPlace.get(place)) {
      if (row.closest(computed ? "section.python" : "section.python, section.machine")) row.classList.add("here");
    }
  }
  for (const section of columns.querySelectorAll("section.stage, section.python, section.machine")) {
    const first = section.querySelector(".at, .v.value[data-defines], .v.value, .here");
    if (first && (scroll || !element || section !== element.closest("section"))) centre(section, first);
  }
  if (scroll && element) show(element, "nearest");
  tell(value, own, other, makers[0]);
  history.replaceState(null, "", "#" + value);
}

// Scroll a column, and nothing around it.
function centre(section, element) {
  const row = element.closest("pre > div");
  section.scrollTop = row.offsetTop - section.offsetTop - section.clientHeight / 3;
}

function chip(name, style) {
  const code = make("code", "chip " + style, "%" + name);
  code.addEventListener("click", () => style === "adjoint" && leap());
  return code;
}

function tell(value, own, other, maker) {
  about.replaceChildren();
  const first = about.appendChild(make("div"));
  first.append(chip(value, "value"));
  if (maker) {
    const row = maker.parentElement;
    const text = row.textContent.slice(row.querySelector(".number").textContent.length).trim();
    first.append(" ", make("code", "", text.length > 110 ? text.slice(0, 110) + "…" : text));
    if (row.dataset.place) first.append(make("span", "step", "  " + row.dataset.place));
  }
  const names = union(other.sets);
  if (names.size) {
    const best = partner(value, own);
    first.append(other.isAdjoint ? "  adjoint of " : "  its adjoint: ", chip(best, "adjoint"));
  }
  const second = about.appendChild(make("div", "step"));
  const parts = story(value, own);
  parts.forEach(([stage, text], i) => second.append(i ? " · " : "", make("b", "", stage), " " + text));
  if (!parts.length) second.append("No pass removes it.");
}

// What became of a value: by which pass and rule, and what stands for it since.
function story(value, own) {
  const parts = [];
  let name = value;
  changed.forEach((stage, i) => {
    if (i <= chosen.index) return;
    const change = stage.changes[name];
    const elements = stage.elements[name];
    if (!change) return;
    const rule = change[1] ? ` by ${change[1]}` : "";
    if (elements && change[0] === null) {
      const few = elements.slice(0, 4).map((e) => "%" + e).join(", ") + (elements.length > 4 ? ", …" : "");
      parts.push([stage.name.split("{")[0], `computes it in loops: ${few}`]);
    } else if (change[0] === name) parts.push([stage.name.split("{")[0], `rewrites it${rule}`]);
    else if (change[0] !== null) parts.push([stage.name.split("{")[0], `removes it${rule}; readers read %${change[0]}`]);
    else parts.push([stage.name.split("{")[0], `removes it${rule || ": nobody reads it"}`]);
    name = change[0] === null ? null : change[0];
  });
  return parts;
}

// The first of the partner's names, at the stage where it is made.
function partner(value, own) {
  for (const [i, stage] of changed.entries()) {
    for (const [primal, cotangents] of Object.entries(stage.cotangents)) {
      if (own[i].has(primal)) return cotangents[0];
      if (cotangents.some((name) => own[i].has(name))) return primal;
    }
  }
  return null;
}

// From a value to its adjoint, and back.
function leap() {
  const name = chosen && partner(chosen.value, lives([chosen.value], chosen.index));
  if (name === null || name === undefined) return;
  const index = byStage.findIndex((map, i) => i >= chosen.index && map.has(name));
  const at = index < 0 ? byStage.findIndex((map) => map.has(name)) : index;
  if (at < 0) return;
  const found = byStage[at].get(name);
  choose(name, at, found.find((e) => "defines" in e.dataset) || found[0], true);
}

function line(place) {
  clear();
  chosen = null;
  for (const row of byPlace.get(place) || []) row.classList.add("here");
  for (const section of columns.querySelectorAll("section.stage, section.machine")) {
    const first = section.querySelector(".here");
    if (first) centre(section, first);
  }
  about.replaceChildren();
  const first = about.appendChild(make("div"));
  const source = [...columns.querySelectorAll("section.python [data-place]")].find((row) => row.dataset.place === place);
  first.append(make("code", "", place), "  ", make("code", "", source ? source.lastChild.textContent.trim() : ""));
  const counts = [...columns.querySelectorAll("section.stage, section.machine")]
    .map((s) => [s.dataset.stage || "machine code", s.querySelectorAll(".here").length])
    .filter(([, n]) => n);
  about.append(make("div", "step", counts.length ? "lines from it: " + counts.map(([s, n]) => `${s.split("{")[0]} ${n}`).join(" · ") : "nothing comes from it"));
}

function step(by) {
  const section = chosen && chosen.element ? chosen.element.closest("section") : columns.querySelector("section.stage");
  const all = [...section.querySelectorAll("[data-defines]")];
  const now = all.findIndex((e) => chosen && e.dataset.value === chosen.value);
  const next = all[Math.min(Math.max(now + by, 0), all.length - 1)];
  if (next) choose(next.dataset.value, Number(next.dataset.index), next, true);
}

function across(by) {
  if (!chosen) return;
  const own = lives([chosen.value], chosen.index);
  for (let i = chosen.index + by; i >= 0 && i < changed.length; i += by) {
    const found = [...own[i]].flatMap((name) => byStage[i].get(name) || []);
    const maker = found.find((e) => "defines" in e.dataset) || found[0];
    if (maker) return choose(maker.dataset.value, i, maker, true);
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

function greet() {
  about.replaceChildren();
  const first = about.appendChild(make("div"));
  first.append("Each column is the program after one pass, from your lines to machine code. Click a value such as ");
  first.append(make("code", "", "%" + program.example), " to follow it, or one of your lines to see what becomes of it.");
  const second = about.appendChild(make("div", "step"));
  for (const [colour, text] of [["new", "new in this column"], ["gone", "gone in the next"]]) {
    const key = make("span", "key");
    key.style.background = `var(--${colour})`;
    second.append(key, text);
  }
  for (const [colour, text] of [["value", "the value"], ["adjoint", "its adjoint"]]) {
    const key = make("span", "key");
    key.style.cssText = `background: var(--${colour}); width: 1em`;
    second.append(key, text);
  }
}

function release() {
  clear();
  chosen = null;
  search.value = "";
  find();
  search.blur();
  greet();
  history.replaceState(null, "", location.pathname + location.search);
}

columns.addEventListener("click", (event) => {
  const element = event.target.closest("[data-value]");
  if (element) return choose(element.dataset.value, Number(element.dataset.index), element, false);
  const row = event.target.closest("section.python [data-place], .number");
  const place = row && (row.dataset.place || row.parentElement.dataset.place);
  if (place) line(place);
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
    a: leap,
    "?": () => document.getElementById("keys").showModal(),
  };
  if (keys[event.key]) {
    event.preventDefault();
    keys[event.key]();
  }
});
function linked() {
  const value = decodeURIComponent(location.hash.slice(1));
  const index = byStage.findIndex((map) => map.has(value));
  if (index >= 0) choose(value, index, byStage[index].get(value)[0], true);
}
window.addEventListener("hashchange", linked);

document.querySelector("h1").textContent = program.name;
sources();
program.stages.forEach(stage);
memory(program.memory);
machine(program.machine);
greet();
linked();
