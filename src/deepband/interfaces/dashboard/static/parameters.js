// Two charts of parameters: configs across all of them, and which of them matter.

import { apart, byId, drawn, element, ended, shown } from "./dom.js";

const HEIGHT = 300, TOP = 46, BOTTOM = 20, LEFT = 24, RIGHT = 70, LEAST_WIDTH = 96;
const GROUPS = 5; // of configs, by rank
const MOST_NAME = 15; // characters of the name of an axis

export function drawParallel({ parallel, best, maximize, objectives }) {
  const figure = byId("parallel");
  const { axes, lines, note } = parallel;
  if (!lines.length) {
    figure.replaceChildren(element("p", { class: "muted" }, "No evaluation has a finite result yet."));
    return;
  }
  const room = figure.parentElement.clientWidth || 600;
  const width = Math.max(room, LEFT + RIGHT + LEAST_WIDTH * (axes.length - 1));
  const across = (number) => axes.length > 1
    ? LEFT + (number / (axes.length - 1)) * (width - LEFT - RIGHT) : (width - RIGHT) / 2;
  const up = (place) => HEIGHT - BOTTOM - place * (HEIGHT - BOTTOM - TOP);
  const image = drawn("svg", {
    viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img",
    "aria-label": `Parallel coordinates. ${note}.${objectives ? "" : ` The best config is ${lines[0].places.length ? "highlighted" : "drawn"}.`}`,
  });
  const isBest = (line) => best && line.bracket === best.bracket && line.index === best.index;
  lines.forEach((line, rank) => { line.rank = rank; });
  for (const line of lines.toReversed()) {
    const kind = isBest(line) ? "best" : `rank${Math.floor((GROUPS * line.rank) / lines.length)}`;
    for (const part of parts(line.places, across, up)) {
      image.append(drawn("polyline", { points: part, class: `series ${kind}` }));
    }
  }
  axes.forEach((axis, number) => image.append(...axisOf(axis, number, across(number), up, across(1) - across(0) < 130)));
  if (objectives) {
    figure.replaceChildren(image, element("figcaption", {}, `${note}. The stronger the colour, the better the rank.`));
    return;
  }
  figure.replaceChildren(image, element("figcaption", {},
    `${note}. The stronger the colour, the ${maximize ? "larger the value" : "smaller the loss"}. `,
    element("span", { class: "swatch-best" }, "★ the best on any budget"),
    lines.some(isBest) ? "" : " is not on this rung"));
}

// The stretches of a line between parameters that a config does not have.
function parts(places, across, up) {
  const found = [[]];
  places.forEach((place, number) => {
    if (place === null) found.push([]);
    else found.at(-1).push(`${across(number).toFixed(1)},${up(place).toFixed(1)}`);
  });
  return found.filter((part) => part.length > 1).map((part) => part.join(" "));
}

// The same as `ended`, for a text that cannot adapt to its place.
function short(name) {
  return name.length > MOST_NAME ? `${name.slice(0, MOST_NAME - 6)}…${name.slice(-5)}` : name;
}

function axisOf(axis, number, x, up, staggered) {
  const name = drawn("text", { x, y: staggered && number % 2 ? 14 : 30, "text-anchor": number ? "middle" : "start",
    class: "axis-name" }, short(axis.name), drawn("title", {}, axis.name));
  const labels = axis.ticks.map(([place, text]) =>
    drawn("text", { x: x + 5, y: up(place) + 4, class: "tick on-line" }, text));
  return [drawn("line", { x1: x, x2: x, y1: up(0), y2: up(1), class: "axis strong" }), name, ...labels];
}

export function drawImportance({ shares, note }) {
  const most = Math.max(...shares.map(([, share]) => share), 1e-9);
  const rows = shares.map(([name, share]) => element("tr", {},
    element("th", { scope: "row" }, ended(name)),
    element("td", {}, drawn("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      drawn("rect", { x: 0, y: 1, width: (100 * share) / most, height: 8, class: "run0" }))),
    element("td", { class: "number" }, share < 0.005 ? "< 1 %" : `${shown(Math.round(100 * share))} %`)));
  byId("importance").replaceChildren(
    ...(rows.length ? [element("table", { class: "shares" }, element("tbody", {}, ...rows))] : []),
    element("p", { class: "muted small" }, note));
}
