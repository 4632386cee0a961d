// What the scripts of all pages share: elements whose text is always text, numbers for people, and the look of charts.
"use strict";
const by = (id) => document.getElementById(id);
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const pageData = () => JSON.parse(by("explore-data").textContent);

const element = (tag, text, attributes = {}) => {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};

const shown = (value, share) =>
  value === null || value === undefined ? "–" : share ? `${(100 * value).toFixed(1)} %` : String(Number(value.toPrecision(4)));

const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000]; // steps of an axis of rounds

const axisStyle = () => ({ stroke: css("--muted"), grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--grid"), width: 1 }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" });

const valueTicks = (share) => (u, ticks) => ticks.map((tick) => Number(((share ? 100 : 1) * tick).toPrecision(4)));

const valueRange = (share) => (u, low, high) => {
  if (low === null) return [0, 1];
  const least = share ? 0.1 : 0; // tiny differences shall not look large
  const margin = Math.max(0.04 * (high - low), (least - (high - low)) / 2, low === high ? Math.abs(low) * 0.05 || 0.5 : 0);
  return [low - margin, high + margin];
};
