// The front of several objectives: a table of its evaluations, and a chart of two objectives.

import { chart } from "./charts.js";
import { byId, element, ended, shown } from "./dom.js";

const RUN_COLOURS = 6;
let listed = null;

export function drawFrontTable({ objectives }, study) {
  const { names, rows, more, note } = objectives;
  const now = JSON.stringify([names, rows, more, note]);
  if (now === listed) return; // so that selections are kept
  listed = now;
  byId("best-title").textContent = "Front on any budget";
  const columns = [...names.map((name) => ended(name)), "budget", "bracket", "index", "rung"];
  const head = columns.map((name) => element("th", { scope: "col", class: "number" }, name));
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...rows.map((row) => rowOf(row, study))));
  const text = note || `${shown(rows.length + more)} evaluation${rows.length + more === 1 ? "" : "s"} `
    + `that no other one dominates${more ? `; the first ${shown(rows.length)}` : ""}`;
  byId("best").replaceChildren(element("p", { class: note ? "muted" : null }, text),
    ...(rows.length ? [element("div", { class: "scroll front", tabindex: 0, role: "region", "aria-labelledby": "best-title" }, table)] : []));
}

function rowOf(row, study) {
  const number = (text) => element("td", { class: "number" }, shown(text));
  const link = element("a", { href: `/studies/${study}/configs/${row.bracket}/${row.index}`,
    "aria-label": `bracket ${row.bracket}, index ${row.index}` }, String(row.index));
  return element("tr", {}, ...row.values.map(number), number(row.budget), number(row.bracket),
    element("td", { class: "number" }, link), number(row.rung));
}

export function drawFrontChart({ objectives, runs }) {
  const { chart: found } = objectives;
  byId("front-section").hidden = false;
  const better = (larger) => (larger ? "larger is better" : "smaller is better");
  const fronts = found.fronts.flatMap(({ run, points }) => {
    const kind = `front${run % RUN_COLOURS}`;
    const border = found.projected ? [] : staircase(points, found.larger[0]);
    return [{ points: border, kind }, { points, kind, dots: true, scattered: true }];
  });
  chart(byId("front"), {
    lines: [{ points: found.others, kind: "quiet", dots: true, scattered: true }, ...fronts],
    flags: [],
    x: `${found.x} (${better(found.larger[0])})`,
    y: `${found.y} (${better(found.larger[1])})`,
    caption: `${found.projected ? "Two of several objectives. " : ""}Grey: dominated. `,
    summary: `${objectives.rows.length + objectives.more} evaluations are on the front.`,
  });
  const swatch = ({ run }) => element("span", { class: `swatch front${run % RUN_COLOURS}` },
    `● after ${runs[run]?.name ?? `run ${run}`}`);
  byId("front").querySelector("figcaption")?.append(...found.fronts.flatMap((row) => [swatch(row), " "]));
}

// The border of what a front dominates, from left to right.
function staircase(points, larger) {
  const corners = points.slice(0, 1);
  for (const [x, y] of points.slice(1)) {
    const [left, before] = corners.at(-1);
    corners.push(larger ? [left, y] : [x, before], [x, y]);
  }
  return corners;
}
