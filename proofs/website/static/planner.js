// Draws the plots of the planner from CURVES: sliders that stop at the values of the grid, one picture, one table of its numbers.
"use strict";
(() => {
  const HIGH = 320, LEFT = 62, RIGHT = 14, TOP = 12, BOTTOM = 44;
  const element = (name, attributes, ...children) => {
    const svg = ["svg", "path", "line", "text", "g", "circle"].includes(name);
    const one = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
    Object.entries(attributes || {}).forEach(([key, value]) => one.setAttribute(key, value));
    one.append(...children);
    return one;
  };
  const shown = (value) => Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });

  // A logarithmic or a plain axis, with its ticks.
  const axis = (values, log, from, to) => {
    let low = Math.min(...values), high = Math.max(...values);
    if (log) {
      if (low === high) { low /= 2; high *= 2; }
      const at = (v) => from + (to - from) * Math.log(v / low) / Math.log(high / low);
      const ticks = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1)
        for (const digit of [1, 2, 5]) ticks.push(Number((digit * 10 ** power).toPrecision(3)));
      let kept = ticks.filter((v) => v >= low * 0.999 && v <= high * 1.001);
      if (kept.length > 8) kept = kept.filter((v) => /^1e|^10*$|^0?\.?0*1$/.test(String(v)));
      return { at, ticks: kept.length > 1 ? kept : [low, high] };
    }
    low = Math.min(low, 0);
    const step = 10 ** Math.floor(Math.log10((high - low) / 2));
    const unit = [1, 2, 5, 10].map((k) => k * step).find((one) => (high - low) / one <= 6);
    high = Math.ceil(high / unit - 1e-9) * unit;
    const ticks = [];
    for (let v = low; v <= high + unit / 2; v += unit) ticks.push(Number(v.toPrecision(6)));
    return { at: (v) => from + (to - from) * (v - low) / (high - low), ticks };
  };

  const picture = (plot, curves, WIDE) => {
    const [xName, xs] = plot.x;
    const x = axis(xs, plot.log.includes("x"), LEFT, WIDE - RIGHT);
    const y = axis(curves.flat(), plot.log.includes("y"), HIGH - BOTTOM, TOP);
    const svg = element("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `${plot.y} over ${xName}` });
    y.ticks.forEach((v) => svg.append(
      element("line", { x1: LEFT, x2: WIDE - RIGHT, y1: y.at(v), y2: y.at(v), class: "grid" }),
      element("text", { x: LEFT - 6, y: y.at(v) + 4, "text-anchor": "end" }, shown(v))));
    x.ticks.forEach((v) => svg.append(
      element("text", { x: x.at(v), y: HIGH - BOTTOM + 18, "text-anchor": "middle" }, shown(v))));
    svg.append(element("text", { x: (LEFT + WIDE - RIGHT) / 2, y: HIGH - 6, "text-anchor": "middle" }, xName));
    curves.forEach((values, i) => {
      const points = values.map((v, j) => [x.at(xs[j]), y.at(v)]);
      svg.append(element("path", { d: "M" + points.map((p) => p.join(" ")).join("L"), class: `curve curve-${i}` }));
      points.forEach(([cx, cy]) => svg.append(element("circle", { cx, cy, r: 2.5, class: `point curve-${i}` })));
    });
    return svg;
  };

  const table = (plot, curves) => {
    const head = element("tr", {}, element("th", {}, plot.x[0]),
      ...plot.curves.map((name, i) => element("th", { class: `curve-${i}` }, name)));
    const rows = plot.x[1].map((x, j) => element("tr", {}, element("td", {}, shown(x)),
      ...curves.map((values) => element("td", {}, shown(values[j])))));
    return element("div", { class: "table-wrapper" },
      element("table", { class: "docutils" }, element("thead", {}, head), element("tbody", {}, ...rows)));
  };

  const start = (place) => {
    const plot = CURVES[place.dataset.plot];
    const sliders = plot.sliders.map(([name, values]) => {
      const input = element("input", { type: "range", min: 0, max: values.length - 1, step: 1, value: Math.floor(values.length / 2) });
      const output = element("output");
      place.append(element("label", {}, element("span", {}, name, ": ", output), input));
      return { input, output, values };
    });
    const legend = element("p", { class: "legend" }, element("span", { class: "what" }, plot.y), ...plot.curves.map((name, i) =>
      element("span", { class: `curve-${i}` }, "— " + name)));
    const drawn = element("div");
    place.append(legend, drawn);
    const draw = () => {
      // the settings stand in the order of nested loops, the last slider the fastest
      const at = sliders.reduce((index, { input, values }) => index * values.length + Number(input.value), 0);
      sliders.forEach(({ input, output, values }) => {
        output.value = shown(values[input.value]);
        input.setAttribute("aria-valuetext", output.value);
      });
      const details = element("details", {}, element("summary", {}, "the numbers"), table(plot, plot.values[at]));
      details.open = Boolean(drawn.querySelector("details[open]"));
      drawn.replaceChildren(picture(plot, plot.values[at], drawn.clientWidth || 640), details);
    };
    sliders.forEach(({ input }) => input.addEventListener("input", draw));
    draw();
    window.addEventListener("resize", draw); // letters keep their size on a narrow screen
  };
  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".planner").forEach(start));
})();
