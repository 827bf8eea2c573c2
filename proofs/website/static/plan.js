// Least noise for a budget at each batch size, as `dptheory plan` without a network. With M(z) = E exp(z L) of a step's privacy loss L,
//   delta(epsilon) = 1/(2 pi i) integral over Re z = t of M(z)^steps exp(-z epsilon) / (z (z + 1)) dz   for every t > 0,
// taken by the trapezoidal rule through the saddle point. A test holds the numbers against dptheory.planning.
"use strict";

// Weights and losses of one step at real z = t, tilted: at a point x of N(0, sigma^2), the ratio of the densities with and without a record.
const tilted = ({ noise, rate, removed }, t) => {
  const step = Math.min(noise, noise * noise) / 20, weights = [], losses = [];
  const power = removed ? t + 1 : -t;
  for (let x = -12 * noise; x < Math.max(power, 0) + 12 * noise; x += step) {
    const u = (2 * x - 1) / (2 * noise * noise);
    const ratio = u < 30 ? Math.log1p(rate * Math.expm1(u)) : u + Math.log(rate);
    losses.push(removed ? ratio : -ratio);
    weights.push(power * ratio - x * x / (2 * noise * noise));
  }
  const most = weights.reduce((a, b) => Math.max(a, b));
  const each = weights.map((one) => Math.exp(one - most));
  const total = each.reduce((a, b) => a + b);
  const mean = each.reduce((sum, one, j) => sum + one * losses[j], 0) / total;
  const variance = each.reduce((sum, one, j) => sum + one * (losses[j] - mean) ** 2, 0) / total;
  const log = most + Math.log(total * step / (noise * Math.sqrt(2 * Math.PI)));
  return { losses, shares: each.map((one) => one / total), mean, variance, log };
};

const deltaOneWay = (run, epsilon) => {
  let [low, high] = [1e-4, 1e4];
  for (let i = 0; i < 22; i++) {
    const t = Math.sqrt(low * high);
    if (run.steps * tilted(run, t).mean - epsilon - 1 / t - 1 / (1 + t) < 0) low = t; else high = t;
  }
  const t = Math.sqrt(low * high);
  const { losses, shares, variance, log } = tilted(run, t);
  const step = 1 / (6 * Math.sqrt(run.steps * variance + 1 / t ** 2 + 1 / (1 + t) ** 2));
  const turn = losses.map((loss) => [Math.cos(step * loss), Math.sin(step * loss)]);
  const now = shares.map((share) => [share, 0]);
  let sum = 0;
  for (let k = 0, small = 0; k < 20000 && small < 10; k++) {
    let [re, im] = [0, 0];
    now.forEach((one, j) => {
      const [a, b] = one, [c, d] = turn[j];
      re += a; im += b;
      one[0] = a * c - b * d; one[1] = a * d + b * c;
    });
    const s = k * step, size = Math.hypot(re, im) ** run.steps / (Math.hypot(t, s) * Math.hypot(1 + t, s));
    const angle = run.steps * Math.atan2(im, re) - s * epsilon - Math.atan2(s, t) - Math.atan2(s, 1 + t);
    sum += (k ? 1 : 0.5) * size * Math.cos(angle);
    small = size * t * (1 + t) < 1e-12 ? small + 1 : 0;
  }
  return Math.exp(run.steps * log - t * epsilon) * sum * step / Math.PI;
};

const delta = (run, epsilon) =>
  Math.max(...[true, false].map((removed) => deltaOneWay({ ...run, removed }, epsilon)));

const leastNoise = ({ rate, steps }, budget) => {
  const excess = (at) => Math.log(delta({ rate, steps, noise: Math.exp(at) }, budget.epsilon) / budget.delta);
  let [low, high] = [0, 0].map(() => [0, excess(0)]);
  while (high[1] > 0 && high[0] < 7) { low = high; high = [high[0] + 0.5, excess(high[0] + 0.5)]; }
  while (low[1] <= 0 && low[0] > -1.5) { high = low; low = [low[0] - 0.5, excess(low[0] - 0.5)]; }
  if (low[1] <= 0 || high[1] > 0) return NaN; // outside of 0.22 to 1096
  while (high[0] - low[0] > 1e-6) { // the straight line between the ends, and past it by a little, so that both ends move
    const width = high[0] - low[0], share = low[1] / (low[1] - high[1]);
    const at = low[0] + width * Math.min(Math.max(share + (share < 0.5 ? 1e-3 : -1e-3), 1e-3), 0.999);
    const found = [at, excess(at)];
    if (found[1] > 0) low = found; else high = found;
  }
  return Math.exp(high[0]);
};

const candidates = ({ examples, epsilon, delta, epochs, smallest, largest }) => {
  const found = [];
  for (let power = 0; power <= 10; power++) {
    const batch = Math.max(16, Math.round(examples / 2 ** power));
    const steps = Math.max(1, Math.round(epochs * examples / batch));
    const rate = batch / examples;
    if (batch < smallest || batch > largest || epochs < rate || steps > 50000 || found.some((one) => one.batch === batch)) continue;
    const noise = leastNoise({ rate, steps }, { epsilon, delta });
    if (noise > 0) found.push({ batch, steps, rate, noise });
  }
  return found;
};

document.addEventListener("DOMContentLoaded", () => {
  const form = document.getElementById("plan");
  const rows = document.querySelector("#plan-rows tbody"), said = document.getElementById("plan-said");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = Object.fromEntries([...new FormData(form)].map(([name, text]) => [name, Number(text)]));
    said.value = "computing ...";
    setTimeout(() => { // after the words above are drawn
      const found = candidates(given);
      rows.replaceChildren(...found.map(({ batch, steps, rate, noise }) => {
        const row = document.createElement("tr");
        const up = Math.ceil(noise * 1e4 + 0.01) / 1e4; // less than the least would break the budget
        for (const text of [batch, steps, rate.toPrecision(3), up.toFixed(4), (up / batch).toPrecision(3)]) {
          row.insertCell().textContent = text;
        }
        return row;
      }));
      said.value = found.length ? "" : "No batch size in this range keeps the budget with 1 to 50,000 steps and a noise multiplier of 0.22 to 1,000.";
    });
  });
});
