// The table of evaluations. The server filters, sorts and pages; this requests and shows rows.

import { apart, byId, element, ended, shown } from "./dom.js";

const FILTERS = ["bracket", "rung", "run", "outcome", "text"];
const PLAIN = [["bracket", "bracket"], ["index", "index"], ["rung", "rung"], [null, "budget"],
  ["run", "run"], ["value", "value"], ["seconds", "seconds"]].map((column) => [...column, "number"]);

export class Table {
  constructor(study) {
    this.study = study;
    this.asked = 0;
    const given = new URLSearchParams(location.search);
    this.sort = given.get("sort") ?? "bracket";
    this.descending = given.get("descending") === "1";
    this.page = Math.max(0, Math.floor(Number(given.get("page"))) || 0);
    this.filter = byId("filter");
    this.given = given;
    this.filter.addEventListener("submit", (event) => event.preventDefault());
    for (const event of ["input", "change"]) {
      this.filter.addEventListener(event, () => {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.turn(0), 200);
      });
    }
    byId("previous").addEventListener("click", () => this.turn(this.page - 1));
    byId("next").addEventListener("click", () => this.turn(this.page + 1));
    const text = given.get("text");
    if (text) this.filter.elements.text.value = text;
    if (given.get("outcome")) this.filter.elements.outcome.value = given.get("outcome");
  }

  offer(overview) {
    this.name = overview.maximize ? "value" : "loss";
    this.several = overview.objectives !== null;
    this.best = overview.best ? [overview.best] : overview.objectives?.rows ?? [];
    if (overview.judged) this.choices("outcome", ["good", "failed", "infeasible"]);
    for (const name of ["bracket", "rung"]) {
      this.choices(name, [...new Set(overview.cells.map((cell) => cell[name]))]);
    }
    this.choices("run", overview.runs.map((run) => run.run));
  }

  choices(name, values) {
    const select = this.filter.elements[name];
    if (select.options.length === values.length + 1) return;
    const chosen = select.value || this.given.get(name) || "";
    this.given.delete(name);
    select.replaceChildren(element("option", { value: "" }, "all"),
      ...values.map((value) => element("option", { value }, String(value))));
    select.value = chosen;
  }

  turn(page) {
    this.page = Math.max(0, page);
    return this.load();
  }

  query() {
    const query = new URLSearchParams();
    if (this.sort !== "bracket") query.set("sort", this.sort);
    if (this.descending) query.set("descending", "1");
    if (this.page) query.set("page", this.page);
    for (const name of FILTERS) {
      const value = this.filter.elements[name].value;
      if (value) query.set(name, value);
    }
    return query;
  }

  async load() {
    const asked = (this.asked += 1);
    const query = this.query();
    let answer;
    try {
      answer = await fetch(`/studies/${this.study}/evaluations?${query}`);
    } catch {
      byId("count").textContent = "The server does not answer.";
      return;
    }
    if (asked !== this.asked) return; // a later request is pending
    if (!answer.ok) {
      byId("count").textContent = await answer.text();
      return;
    }
    history.replaceState(null, "", query.size ? `?${query}` : location.pathname);
    const found = await answer.json();
    if (this.page && this.page >= found.pages) await this.turn(found.pages - 1);
    else this.show(found);
  }

  show(found) {
    byId("count").textContent = `${shown(found.total)} evaluation${found.total === 1 ? "" : "s"}`;
    byId("page").textContent = `page ${shown(this.page + 1)} of ${shown(Math.max(1, found.pages))}`;
    byId("previous").disabled = this.page === 0;
    byId("next").disabled = this.page + 1 >= found.pages;
    const table = byId("evaluations");
    this.head(table, found.metrics, found.parameters);
    this.body(table.tBodies[0], found.rows);
  }

  // Unchanged rows stay, so that focus and selection are kept.
  body(body, rows) {
    const now = JSON.stringify([rows, this.best]);
    if (this.shownBody === now) return;
    this.shownBody = now;
    const active = body.contains(document.activeElement) ? document.activeElement.pathname : null;
    body.replaceChildren(...rows.map((row) => this.row(row)));
    if (active) [...body.querySelectorAll("a")].find((link) => link.pathname === active)?.focus();
  }

  head(table, metrics, parameters) {
    const columns = [...PLAIN, ...metrics.map((name, number) => [`m${number}`, name, "number"]),
      ...parameters.map((name, number) => [`p${number}`, name])];
    const now = JSON.stringify([columns, this.sort, this.descending, this.name, this.several]);
    if (this.shownHead === now) return;
    this.shownHead = now;
    const active = document.activeElement?.dataset?.sort;
    table.tHead.replaceChildren(element("tr", {}, ...columns.map((column) => this.heading(...column))));
    if (active) table.tHead.querySelector(`[data-sort="${active}"]`)?.focus();
  }

  heading(sort, name, kind = null) {
    if (sort === "value" && this.several) return element("th", { scope: "col" }, "outcome");
    const text = sort === "value" ? this.name ?? name : name;
    if (sort === null) return element("th", { scope: "col", class: kind }, text);
    const chosen = sort === this.sort;
    const arrow = chosen ? (this.descending ? " ↓" : " ↑") : "";
    const button = element("button", { type: "button", "data-sort": sort }, ended(text), arrow);
    button.addEventListener("click", () => {
      this.descending = sort === this.sort && !this.descending; // not as shown: that may be older
      this.sort = sort;
      this.turn(0);
    });
    const order = chosen ? (this.descending ? "descending" : "ascending") : null;
    return element("th", { scope: "col", class: kind, "aria-sort": order }, button);
  }

  row(row) {
    const number = (text) => element("td", { class: "number" }, shown(text));
    const link = element("a", { href: `/studies/${this.study}/configs/${row.bracket}/${row.index}`,
      "aria-label": `bracket ${row.bracket}, index ${row.index}` }, String(row.index));
    const value = row.failed
      ? element("td", { class: "bad" }, apart(row.error ?? "failed"))
      : element("td", { class: this.several ? "value" : "number value" }, row.value ?? "",
        ...(row.verdict ? [element("small", {}, row.verdict)] : []));
    const metrics = row.metrics.map((text) => element("td", { class: "number" }, apart(text)));
    const cells = row.config.map((text) => element("td", {}, ended(text)));
    const isBest = this.best?.some((best) => ["bracket", "index", "rung"].every((key) => row[key] === best[key]));
    return element("tr", { class: isBest ? "best" : null }, number(row.bracket), element("td", { class: "number" }, link),
      number(row.rung), number(row.budget), number(row.run), value,
      number(row.seconds === null ? "" : Number(row.seconds.toPrecision(3))), ...metrics, ...cells);
  }
}
