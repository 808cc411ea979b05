"use strict";
// The page's own script: it fills Bokeh's empty charts with draws, and links them with the controls.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const byId = (id) => document.getElementById(id);
  const short = (x) => (Number.isFinite(x) ? String(Number(x.toPrecision(4))) : "none");

  function floats(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  }

  function start(page, doc) {
    const model = (name) => doc.get_model_by_name(name);
    const draws = model("draws");
    const seen = model("seen");
    const column = (i) => draws.get_column(`p${i}`);
    const series = draws.get_column("series");
    const mass = floats(page.mass);
    const shown = page.shown.slice();
    const visible = page.series.map(() => true);
    const PlainText = Bokeh.Models.get("PlainText");
    const ink = () => getComputedStyle(document.documentElement).getPropertyValue("--quiet").trim();
    const colour = (group) => (group.colour === "ink" ? page.palette[0] : group.colour);
    // a touch on a chart should scroll the page; the form brushes there
    const touch = matchMedia("(pointer: coarse)").matches;

    function density(group, i) {
      const sums = new Float64Array(page.bins);
      let total = 0;
      for (const s of group.series.filter((s) => visible[s])) {
        const at = (s * page.coordinates.length + i) * page.bins;
        for (let b = 0; b < page.bins; b++) { sums[b] += mass[at + b]; total += mass[at + b]; }
      }
      return { sums, total };
    }

    function fillMarginal(slot) {
      const i = shown[slot];
      const [low, high] = page.edges[i];
      const width = (high - low) / page.bins;
      const bars = { left: [], right: [], top: [], colour: [], who: [], share: [] };
      const outlines = { xs: [], ys: [], colour: [] };
      let highest = 0;
      for (const group of page.fills) {
        const { sums, total } = density(group, i);
        if (total === 0) continue;
        sums.forEach((sum, b) => {
          bars.left.push(low + b * width);
          bars.right.push(low + (b + 1) * width);
          bars.top.push(sum / total / width);
          bars.share.push(sum / total);
          bars.colour.push(colour(group));
          bars.who.push(group.label);
        });
      }
      for (const group of page.lines) {
        const { sums, total } = density(group, i);
        if (total === 0) continue;
        const xs = [low], ys = [0];
        sums.forEach((sum, b) => {
          const y = sum / total / width;
          highest = Math.max(highest, y);
          xs.push(low + b * width, low + (b + 1) * width);
          ys.push(y, y);
        });
        xs.push(high); ys.push(0);
        outlines.xs.push(xs); outlines.ys.push(ys); outlines.colour.push(colour(group));
      }
      model(`bars-${slot}`).data = bars;
      model(`outlines-${slot}`).data = outlines;
      const chart = model(`marginal-${slot}`);
      const truth = page.truth[i];
      const ends = truth === null ? [low, high] : [Math.min(low, truth), Math.max(high, truth)];
      const margin = 0.04 * (ends[1] - ends[0]);
      chart.x_range.setv({ start: ends[0] - margin, end: ends[1] + margin });
      chart.y_range.setv({ start: 0, end: highest * 1.08 || 1 });
      model(`truth-marginal-${slot}`).setv({ location: truth, visible: truth !== null });
      byId(`title-marginal-${slot}`).textContent = page.coordinates[i];
      byId(`caption-marginal-${slot}`).textContent = page.findings[i];
      byId(`marginal-${slot}`).setAttribute("aria-label", `Histogram of ${page.findings[i]}`);
    }

    function brushedHistogram(slot, chosen) {
      const i = shown[slot], x = column(i);
      const [low, high] = page.edges[i];
      const width = (high - low) / page.bins;
      const data = { left: [], right: [], top: [] };
      if (chosen.length) {
        const counts = new Float64Array(page.bins);
        for (const k of chosen) {
          if (Number.isFinite(x[k])) counts[Math.min(page.bins - 1, Math.max(0, Math.floor((x[k] - low) / width)))] += 1;
        }
        counts.forEach((count, b) => {
          data.left.push(low + b * width);
          data.right.push(low + (b + 1) * width);
          data.top.push(count / chosen.length / width);
        });
      }
      model(`brushed-${slot}`).data = data;
      const chart = model(`marginal-${slot}`);
      const outlines = model(`outlines-${slot}`).data.ys.flat();
      chart.y_range.end = 1.08 * Math.max(...data.top, ...outlines, 1e-300);
    }

    function correlation(i, j, group) {
      const x = column(i), y = column(j);
      let n = 0, sx = 0, sy = 0, sxx = 0, syy = 0, sxy = 0;
      const [x0, y0] = [page.edges[i][0], page.edges[j][0]];
      const among = new Set(group.series.filter((s) => visible[s]));
      for (let k = 0; k < x.length; k++) {
        if (!among.has(series[k]) || !Number.isFinite(x[k] + y[k])) continue;
        const a = x[k] - x0, b = y[k] - y0;
        n += 1; sx += a; sy += b; sxx += a * a; syy += b * b; sxy += a * b;
      }
      const r = (n * sxy - sx * sy) / Math.sqrt((n * sxx - sx * sx) * (n * syy - sy * sy));
      const who = page.fills.length > 1 ? ` (${group.label})` : "";
      return `${Number.isFinite(r) ? r.toFixed(2) : "not defined"}${who}`;
    }

    function fillPair(row, col) {
      const [up, across] = [shown[row], shown[col]];
      const name = `pair-${row}-${col}`;
      const chart = model(name);
      model(`points-${name}`).glyph.setv({ x: { field: `p${across}` }, y: { field: `p${up}` } });
      for (const [range, i] of [[chart.x_range, across], [chart.y_range, up]]) {
        const [low, high] = page.edges[i];
        const ends = page.truth[i] === null ? [low, high] : [Math.min(low, page.truth[i]), Math.max(high, page.truth[i])];
        const margin = 0.05 * (ends[1] - ends[0]);
        range.setv({ start: ends[0] - margin, end: ends[1] + margin });
      }
      chart.below[0].axis_label = new PlainText({ text: page.coordinates[across] });
      chart.left[0].axis_label = new PlainText({ text: page.coordinates[up] });
      for (const [end, i] of [["across", across], ["up", up]]) {
        model(`truth-${name}-${end}`).setv({ location: page.truth[i], visible: page.truth[i] !== null });
      }
      model(`hover-${name}`).setv({
        tooltips: [["", "@who"], ["draw", "@number{0,0}"],
          [page.coordinates[across], `@p${across}{%0.4g}`], [page.coordinates[up], `@p${up}{%0.4g}`]],
        formatters: { [`@p${across}`]: "printf", [`@p${up}`]: "printf" },
      });
      const words = `correlation ${page.fills.map((group) => correlation(across, up, group)).join(", ")}`;
      byId(name).setAttribute("aria-label",
        `Draws of ${page.coordinates[up]} (up) against ${page.coordinates[across]} (across): ${words}`);
      byId(`caption-${name}`).textContent = words;
    }

    function fillTrace(slot) {
      const i = shown[slot], x = column(i), number = draws.get_column("number");
      const data = { xs: [], ys: [], colour: [], who: [] };
      let at = 0;
      page.series.forEach((one, s) => {
        const end = at + one.size;
        if (visible[s]) {
          data.xs.push(Array.from(number.slice(at, end)));
          data.ys.push(Array.from(x.slice(at, end)));
          data.colour.push(seriesColour(s));
          data.who.push(one.label);
        }
        at = end;
      });
      model(`steps-${slot}`).data = data;
      const chart = model(`trace-${slot}`);
      const last = Math.max(1, ...data.xs.map((xs) => xs[xs.length - 1] ?? 0));
      const [low, high] = page.edges[i];
      const margin = 0.05 * (high - low);
      chart.x_range.setv({ start: 0, end: last, reset_start: 0, reset_end: last });
      chart.y_range.setv({ start: low - margin, end: high + margin, reset_start: low - margin, reset_end: high + margin });
      byId(`title-trace-${slot}`).textContent = page.coordinates[i];
      byId(`trace-${slot}`).setAttribute("aria-label",
        `Trace of ${page.coordinates[i]}, ${data.xs.length} chains, between ${short(low)} and ${short(high)}`);
    }

    function seriesColour(s) {
      return colour(page.lines.find((group) => group.series.includes(s)));
    }

    function show() {
      for (let slot = 0; slot < page.slots; slot++) {
        fillMarginal(slot);
        if (page.ordered) fillTrace(slot);
        for (let col = 0; col < slot; col++) fillPair(slot, col);
      }
      brushed();
    }

    function chainsChanged() {
      all("input[data-series]").forEach((box) => { visible[Number(box.dataset.series)] = box.checked; });
      seen.booleans = Array.from(series, (s) => visible[s]);
      draws.selected.indices = draws.selected.indices.filter((k) => visible[series[k]]);
      show();
    }

    // what the last brush was, in words; absent where points were boxed in a chart of pairs
    let brush = null;
    let ours = false;

    function brushed() {
      const chosen = draws.selected.indices;
      for (let slot = 0; slot < page.slots; slot++) brushedHistogram(slot, chosen);
      const total = series.reduce((n, s) => n + (visible[s] ? 1 : 0), 0);
      if (!chosen.length) {
        byId("brushed").textContent = brush === null ? page.hint : `No draw shown has ${brush}.`;
        return;
      }
      const means = shown.slice(0, page.slots).map((i) => {
        const x = column(i);
        const mean = (ks) => ks.reduce((sum, k) => sum + x[k], 0) / ks.length;
        const every = Array.from(x.keys()).filter((k) => visible[series[k]]);
        return `${page.coordinates[i]} ${short(mean(chosen))} (all: ${short(mean(every))})`;
      });
      byId("brushed").textContent =
        `${chosen.length} of ${total} draws shown${brush === null ? " are in the box" : ` have ${brush}`}. ` +
        `Means among them: ${means.join(", ")}.`;
    }

    function select(i, low, high) {
      const x = column(i), chosen = [];
      for (let k = 0; k < x.length; k++) {
        if (visible[series[k]] && x[k] >= low && x[k] <= high) chosen.push(k);
      }
      brush = `${page.coordinates[i]} between ${short(low)} and ${short(high)}`;
      setSelection(chosen);
    }

    function setSelection(chosen) {
      ours = true;
      draws.selected.indices = chosen;
      ours = false;
      brushed();
    }

    function brushForm() {
      const i = Number(byId("brush-parameter").value);
      const [low, high] = page.edges[i];
      const value = (id, otherwise) => (byId(id).value === "" ? otherwise : Number(byId(id).value));
      if (byId("brush-low").value === "" && byId("brush-high").value === "") return clear();
      select(i, value("brush-low", low), value("brush-high", high));
    }

    function clear() {
      brush = null;
      byId("brush-low").value = "";
      byId("brush-high").value = "";
      setSelection([]);
    }

    function listen() {
      all("input[data-series]").forEach((box) => box.addEventListener("change", chainsChanged));
      for (const id of ["brush-parameter", "brush-low", "brush-high"]) byId(id).addEventListener("change", brushForm);
      byId("brush-clear").addEventListener("click", clear);
      all("select[data-slot]").forEach((choice) => choice.addEventListener("change", () => {
        shown[Number(choice.dataset.slot)] = Number(choice.value);
        show();
      }));
      const worst = byId("show-worst");
      if (worst) worst.addEventListener("click", () => {
        page.worst.slice(0, page.slots).forEach((i, slot) => { shown[slot] = i; });
        all("select[data-slot]").forEach((choice) => { choice.value = String(shown[Number(choice.dataset.slot)]); });
        show();
      });
      draws.selected.properties.indices.change.connect(() => {
        if (ours) return;
        brush = null;
        brushed();
      });
      for (let slot = 0; slot < page.slots; slot++) {
        model(`marginal-${slot}`).on_event("selectiongeometry", (event) => {
          if (!event.final) return;
          const { x0, x1 } = event.geometry;
          const [low, high] = [Math.min(x0, x1), Math.max(x0, x1)];
          byId("brush-parameter").value = String(shown[slot]);
          byId("brush-low").value = short(low);
          byId("brush-high").value = short(high);
          select(shown[slot], low, high);
        });
      }
      for (const query of ["(prefers-color-scheme: dark)", "print"]) {
        matchMedia(query).addEventListener("change", paint);
      }
      addEventListener("beforeprint", paint);
      addEventListener("afterprint", paint);
    }

    function paint() {
      const text = ink();
      const line = getComputedStyle(document.documentElement).getPropertyValue("--line").trim();
      for (const chart of doc.roots()) {
        for (const axis of [...chart.below, ...chart.left]) {
          axis.setv({ axis_line_color: text, major_tick_line_color: text, major_label_text_color: text, axis_label_text_color: text });
        }
        for (const one of chart.center) {
          if ("grid_line_color" in one) one.grid_line_color = line;
          if ("line_dash" in one && "dimension" in one) one.line_color = text;
        }
        if (touch) chart.toolbar.active_drag = null;
      }
      for (let slot = 0; slot < page.slots; slot++) {
        model(`brushed-glyph-${slot}`).glyph.setv({ fill_color: text, line_color: text });
      }
    }

    const colours = page.series.map((_, s) => seriesColour(s));
    draws.data = { ...draws.data, colour: Array.from(series, (s) => colours[s]) };
    all("[data-swatch]").forEach((mark) => { mark.style.background = colours[Number(mark.dataset.swatch)]; });
    paint();
    show();
    listen();
    document.body.dataset.ready = "yes";
  }

  addEventListener("beforeprint", () => all("details").forEach((one) => { one.open = true; }));
  const page = read("page-data");
  if (page === null) { document.body.dataset.ready = "yes"; return; }
  const chart = read("chart-data");
  const item = { docid: "page", roots: chart.roots, root_ids: Object.keys(chart.roots) };
  Bokeh.embed.embed_items({ page: chart.document }, [item]).then(() => start(page, Bokeh.documents[Bokeh.documents.length - 1]));
})();
