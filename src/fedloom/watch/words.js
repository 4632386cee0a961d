// Numbers and times in words, for the pages of runs and of plans.
const whole = (value) => (value ?? "–").toLocaleString("en");
const unitOf = (bytes) => (bytes >= 1e9 ? ["GB", 1e9] : bytes >= 1e6 ? ["MB", 1e6] : bytes >= 1e3 ? ["kB", 1e3] : ["B", 1]);
const size = (bytes) => {
  const [unit, factor] = unitOf(bytes);
  return `${Number((bytes / factor).toPrecision(3))} ${unit}`;
};
const long = (seconds) => {
  if (seconds < 9.95) return `${Number(seconds.toPrecision(2))} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
};
const say = (id, text) => {
  by(id).hidden = !text;
  if (by(id).textContent !== text) by(id).textContent = text;
};
const MARKS = { running: "▶", finished: "✓", waiting: "…" }; // of the window's title
