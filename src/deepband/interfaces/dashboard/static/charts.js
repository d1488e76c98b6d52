// Charts: the best loss or the hypervolume against the budget spent, losses from rung to rung, and
// the losses that objectives reported during training.

import { byId, drawn, element, shown } from "./dom.js";

const LEAST_HEIGHT = 280, MOST_HEIGHT = 440, CAPTION = 60, RIGHT = 14, TOP = 14, BOTTOM = 42;
const NAME = 26, CHARACTER = 7.2, LINE = 14, MOST_ROWS = 4; // the width of a vertical name, and the size of a tick's text

const SPENDING = "Solid: each evaluation starts from scratch. Dashed: training continues from the rung below.";

export function drawIncumbent(overview) {
  const found = overview.incumbent;
  drawStairs(found, {
    y: `best ${overview.maximize ? "value" : "loss"} on any budget`,
    caption: SPENDING,
    summary: found.steps.length ? `The best on any budget is ${shown(found.steps.at(-1)[2])} after ${shown(found.spent)}.` : "",
  });
}

export function drawHypervolume({ objectives: { hypervolume } }) {
  byId("incumbent-title").textContent = "Hypervolume";
  drawStairs(hypervolume, {
    y: "hypervolume of the front",
    caption: `Up to ${hypervolume.reference}, the worst of run 0. ${SPENDING}`,
    summary: hypervolume.steps.length
      ? `The hypervolume is ${shown(hypervolume.steps.at(-1)[2])} after ${shown(hypervolume.spent)}.` : "",
  });
}

// A number that improves with the budget spent.
function drawStairs(found, what) {
  const staircase = (which, end) => {
    const steps = found.steps.map((step) => [step[which], step[2]]);
    if (!steps.length) return [];
    const points = [steps[0]];
    for (const [spent, value] of steps.slice(1)) points.push([spent, points.at(-1)[1]], [spent, value]);
    return [...points, [end, points.at(-1)[1]]];
  };
  chart(byId("incumbent"), {
    lines: [
      { points: staircase(0, found.spent), kind: "first bold", dots: found.steps.length === 1 },
      { points: staircase(1, found.spent_resumed), kind: "first dashed" },
    ],
    flags: found.extensions,
    x: "budget spent by all runs",
    ...what,
  });
}

export function drawCurves(overview) {
  const lines = bestLast(overview, overview.curves, (curve) => (curve.promoted ? "first" : "quiet"), true);
  const objective = overview.objectives?.names[0];
  const plural = objective ?? (overview.maximize ? "Values" : "Losses");
  byId("curves-title").textContent = `${plural} from rung to rung`;
  const budgets = [...new Set(overview.cells.map((cell) => cell.budget))].sort((a, b) => a - b);
  chart(byId("curves"), {
    lines, log: true, ticks: budgets, flags: [],
    x: "budget of the evaluation",
    y: objective ?? (overview.maximize ? "value" : "loss"),
    caption: "One line per config, at most a hundred: those that reached the highest rungs. Blue: promoted. ",
    best: !overview.objectives,
    summary: `${lines.length} config${lines.length === 1 ? "" : "s"}.`,
  });
}

export function drawReported(overview) {
  byId("reported-section").hidden = !overview.reported.length;
  if (!overview.reported.length) return;
  const lines = bestLast(overview, overview.reported, () => "first thin", false).flatMap(
    (line) => line.points.map((points) => ({ ...line, points })));
  chart(byId("reported"), {
    lines, flags: [],
    x: "step",
    y: overview.objectives ? "reported" : overview.maximize ? "value" : "loss",
    caption: "What objectives reported during training, of at most 50 configs, those that reached the highest rungs. ",
    best: !overview.objectives,
    summary: `${overview.reported.length} config${overview.reported.length === 1 ? "" : "s"}.`,
  });
}

// Lines in the order in which they are drawn: the best config last, so that nothing covers it.
function bestLast({ best }, rows, kindOf, dots) {
  const isBest = (row) => best !== null && row.bracket === best.bracket && row.index === best.index;
  const line = (row) => ({ points: row.points, kind: isBest(row) ? "best" : kindOf(row), dots });
  const ordered = [...rows.filter((row) => !isBest(row)).toReversed(), ...rows.filter(isBest)];
  return ordered.map(line);
}

export function chart(figure, what) {
  const points = what.lines.flatMap((line) => line.points);
  if (!points.length) {
    figure.replaceChildren(element("p", { class: "muted" }, "No evaluation has a finite result yet."));
    return;
  }
  const width = Math.max(280, figure.clientWidth || 560);
  const height = heightOf(figure);
  const rows = rowsOf(what.flags);
  const up = scale(extent(points.map((p) => p[1])), height - BOTTOM, TOP + LINE * rows, false);
  const left = NAME + CHARACTER * Math.max(...niceTicks(up, 6).map((value) => shown(value, 4).length));
  const across = scale(extent([...points.map((p) => p[0]), ...(what.ticks ?? [])]), left, width - RIGHT, what.log);
  const image = drawn("svg", {
    viewBox: `0 0 ${width} ${height}`, width: "100%", height, role: "img",
    "aria-label": `${what.y} against ${what.x}. ${what.summary}`,
  });
  image.append(...axes(across, up, left, width, height, what));
  what.flags.forEach(([at, text], number) => image.append(...flag(across(at), text, number % rows, width, height)));
  for (const line of what.lines) image.append(...drawLine(line, across, up));
  const best = what.best ? [element("span", { class: "swatch-best" }, "★ the best on any budget")] : [];
  figure.replaceChildren(image, element("figcaption", {}, what.caption, ...best));
}

// What is left of a section that is stretched to the height of its neighbour.
function heightOf(figure) {
  figure.replaceChildren();
  const { bottom } = figure.parentElement.getBoundingClientRect();
  const room = bottom - figure.getBoundingClientRect().top - CAPTION;
  return Math.round(Math.min(MOST_HEIGHT, Math.max(LEAST_HEIGHT, room)));
}

function extent(numbers) {
  return [Math.min(...numbers), Math.max(...numbers)];
}

function scale([low, high], start, end, log) {
  const of = log ? Math.log : (value) => value;
  const margin = log ? 0 : (high - low) * 0.05;
  const [from, to] = [of(low) - margin, of(high) + margin];
  const found = (value) => (to > from ? start + ((of(value) - from) / (to - from)) * (end - start) : (start + end) / 2);
  return Object.assign(found, { low, high });
}

function niceTicks({ low, high }, most) {
  if (high <= low) return [low];
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const ticks = [];
  for (let n = Math.ceil(low / step); n * step <= high + step * 1e-9 && ticks.length < 20; n += 1) ticks.push(n * step);
  return ticks;
}

function axes(across, up, left, width, height, what) {
  const parts = [];
  const bottom = height - BOTTOM;
  for (const value of what.ticks ?? niceTicks(across, Math.min(6, width / 80))) {
    const x = across(value);
    parts.push(drawn("line", { x1: x, x2: x, y1: bottom, y2: bottom + 4, class: "axis" }),
      drawn("text", { x, y: bottom + 17, "text-anchor": "middle", class: "tick" }, shown(value, 4)));
  }
  for (const value of niceTicks(up, 6)) {
    const y = up(value);
    parts.push(drawn("line", { x1: left, x2: width - RIGHT, y1: y, y2: y, class: "axis" }),
      drawn("text", { x: left - 6, y: y + 4, "text-anchor": "end", class: "tick" }, shown(value, 4)));
  }
  parts.push(drawn("text", { x: (left + width - RIGHT) / 2, y: height - 6, "text-anchor": "middle", class: "tick" }, what.x),
    drawn("text", { x: 12, y: TOP + (bottom - TOP) / 2, class: "tick", "text-anchor": "middle",
      transform: `rotate(-90 12 ${TOP + (bottom - TOP) / 2})` }, what.y));
  return parts;
}

// Extensions are often close to each other: the names of neighbours are on different rows.
function rowsOf(flags) {
  return Math.min(flags.length, MOST_ROWS);
}

function flag(x, text, row, width, height) {
  const fits = x + 4 + CHARACTER * text.length < width;
  return [drawn("line", { x1: x, x2: x, y1: TOP, y2: height - BOTTOM, class: "flag" }),
    drawn("text", { x: fits ? x + 4 : x - 4, y: TOP + 10 + LINE * row, "text-anchor": fits ? "start" : "end",
      class: "flag-text" }, text)];
}

function drawLine(line, across, up) {
  if (!line.points.length) return [];
  const places = line.points.map(([x, y]) => [across(x).toFixed(1), up(y).toFixed(1)]);
  const path = drawn("polyline", { points: places.map((p) => p.join(",")).join(" "), class: `series ${line.kind}` });
  if (!line.dots) return [path];
  return [...(line.scattered ? [] : [path]), ...places.map(([x, y]) => drawn("circle", { cx: x, cy: y, r: line.kind === "best" ? 3.5 : 2.2, class: `dot ${line.kind}` }))];
}
