// The table of brackets and rungs: one square per config, coloured by the run that evaluated it.

import { apart, byId, drawn, element, shown } from "./dom.js";

const PROMOTED = 1, FAILED = 2, RUNNING = 4;
const WIDTH = 128, HEIGHT = 72;
const RUN_COLOURS = 6;
const MOST_LARGE = 5; // with more rungs, cells are smaller
const seen = new Map(); // the data that each cell shows

export function drawBrackets(overview, study) {
  const table = byId("brackets");
  const shape = overview.cells.map((cell) => cell.budget).join();
  if (table.dataset.shape !== shape) {
    seen.clear();
    table.dataset.shape = shape;
    table.replaceChildren(...skeleton(overview.cells));
    table.classList.toggle("dense", new Set(overview.cells.map((cell) => cell.rung)).size > MOST_LARGE);
  }
  for (const cell of overview.cells) {
    const best = bestIn(cell, overview.best);
    const now = JSON.stringify([cell, best]);
    const key = `${cell.bracket}-${cell.rung}`;
    if (seen.get(key) === now) continue;
    seen.set(key, now);
    const place = byId(`cell-${key}`);
    place.replaceChildren(cell.marks ? squares(cell, study, best) : bar(cell), ...words(cell, best));
    place.dataset.evaluated = sum(cell.evaluated);
  }
  drawLegend(overview);
}

// The index of the best config if it has been in a cell, and whether its best result is there.
function bestIn(cell, best) {
  if (best === null || cell.bracket !== best.bracket) return null;
  const isIn = cell.marks?.some(([index]) => index === best.index) ?? cell.rung === best.rung;
  return isIn ? { index: best.index, here: cell.rung === best.rung } : null;
}

function skeleton(cells) {
  const budgets = new Map(cells.map((cell) => [cell.rung, cell.budget]));
  const count = (name) => [...Array(Math.max(...cells.map((cell) => cell[name])) + 1).keys()];
  const columns = count("rung");
  const head = columns.map((rung) =>
    element("th", { scope: "col" }, `rung ${rung}`, element("br"), `budget ${shown(budgets.get(rung))}`));
  const rows = count("bracket").map((bracket) => element("tr", {},
    element("th", { scope: "row" }, `bracket ${bracket}`),
    ...columns.map((rung) => rung < bracket ? element("td", { class: "none" })
      : element("td", { id: `cell-${bracket}-${rung}` }))));
  return [element("thead", {}, element("tr", {}, element("td", { class: "none" }), ...head)),
    element("tbody", {}, ...rows)];
}

function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}

function words(cell, best) {
  const lines = [`${shown(sum(cell.evaluated))} of ${shown(cell.configs)}`];
  const small = [];
  if (cell.failed) small.push(["bad", `${shown(cell.failed)} failed`]);
  if (cell.promoted) small.push(["promoted", `${shown(cell.promoted)} promoted →`]);
  if (best?.here) small.push(["star", "★ best"]);
  return [...lines.map((line) => element("span", {}, line)),
    ...small.map(([kind, line]) => element("small", { class: kind }, line))];
}

function squares(cell, study, best) {
  const columns = Math.max(1, Math.ceil(Math.sqrt((cell.configs * WIDTH) / HEIGHT)));
  const rows = Math.ceil(cell.configs / columns);
  const side = Math.min(WIDTH / columns, HEIGHT / rows, 24);
  const marks = cell.marks.map((mark, number) => {
    const [index, run, flags] = mark;
    const isBest = best?.index === index;
    const kind = classOf(run, flags) + (isBest ? " best" : "");
    const square = drawn("rect", {
      x: (number % columns) * side + side * 0.1, y: Math.floor(number / columns) * side + side * 0.1,
      width: side * 0.8, height: side * 0.8, rx: side * 0.15, class: kind,
    }, drawn("title", {}, `index ${index}: ${nameOf(run, flags)}${isBest ? ", the best config" : ""}`));
    const link = `/studies/${study}/configs/${cell.bracket}/${index}`;
    return drawn("a", { href: link, tabindex: -1 }, square);
  });
  return drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" }, ...marks);
}

function classOf(run, flags) {
  if (flags & FAILED) return "mark failed";
  if (run === null) return flags & RUNNING ? "mark running" : "mark wait";
  return `mark run${run % RUN_COLOURS}${flags & PROMOTED ? " promoted" : ""}`;
}

function nameOf(run, flags) {
  if (run === null) return flags & RUNNING ? "running" : "waiting";
  const how = flags & FAILED ? "failed" : "evaluated";
  return `${how} in run ${run}${flags & PROMOTED ? ", promoted" : ""}`;
}

function bar(cell) {
  let left = 0;
  const parts = cell.evaluated.flatMap((count, run) => {
    const promoted = cell.promoted_by_run[run];
    return [[promoted, " promoted"], [count - promoted, ""]].map(([some, kind]) => {
      const width = (WIDTH * some) / cell.configs;
      const part = drawn("rect", { x: left, y: 16, width, height: 40, class: `mark run${run % RUN_COLOURS}${kind}` });
      left += width;
      return part;
    });
  });
  const frame = drawn("rect", { x: 0.5, y: 16.5, width: WIDTH - 1, height: 39, class: "mark wait" });
  return drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" }, ...parts, frame);
}

function drawLegend(overview) {
  const swatch = (kind) => drawn("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" },
    drawn("rect", { x: 1, y: 1, width: 8, height: 8, class: kind }));
  const entries = overview.runs.map((run) =>
    [`mark promoted run${run.run % RUN_COLOURS}`, run.how ? `run ${run.run}: ${run.how}` : run.name]);
  if (!overview.objectives) entries.push(["mark promoted run0 best", "★ the best config"]);
  entries.push(["mark run0", "paler: not promoted"], ["mark wait", "waiting"],
    ["mark running", "running"], ["mark failed", "failed"]);
  const now = JSON.stringify(entries);
  if (seen.get("legend") === now) return;
  seen.set("legend", now);
  byId("legend").replaceChildren(
    ...entries.map(([kind, text]) => element("span", {}, swatch(kind), apart(text))));
}
