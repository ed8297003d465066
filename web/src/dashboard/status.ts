// Where a run stands: under way, ended, or neither.

import { latest, type News, type Run } from "./runs";

export interface Status {
  text: string;
  kind: "running" | "ended" | "nan" | "lost";
}

export type Page = "live" | "cut" | "still"; // still: made once, and knows no later

const PATIENCE = 10; // seconds

export function status(run: Run, news: News | null, page: Page): Status {
  const last = latest(run, "start", "end", "nan");
  const epoch = latest(run, "epoch")?.epoch ?? 0;
  const all = latest(run, "start")?.epochs;
  const step = run.rows.at(-1)?.step ?? 0;
  const done = `epoch ${epoch}${all ? ` of ${all}` : ""}, step ${step.toLocaleString("en")}`;
  if (!run.rows.length) return { text: page === "live" ? "waiting for its first line" : "empty", kind: "ended" };
  if (last?.kind === "nan") return { text: `not finite after step ${last.step.toLocaleString("en")}`, kind: "nan" };
  if (last?.kind === "end") return { text: `${last.stopped ? `stopped (${last.stopped})` : "ended"}: ${done}`, kind: "ended" };
  if (page === "cut") return { text: `last heard of at ${done}`, kind: "lost" };
  const isHeld = news && last?.host === news.host ? news.held : null;
  if (isHeld === false) return { text: `did not end: ${done}; the process that wrote its log is gone`, kind: "lost" };
  const ago = lasting(news?.age ?? 0);
  if (page === "still") {
    return isHeld
      ? { text: `under way when this page was made: ${done}`, kind: "running" }
      : { text: `no end is logged: ${done}; the last line came ${ago} before this page was made`, kind: "lost" };
  }
  if ((news?.age ?? 0) <= Math.max(PATIENCE, 3 * longestGap(run))) return { text: `under way: ${done}`, kind: "running" };
  return { text: `no news for ${ago}, ${isHeld ? "but its process is there" : "killed?"}: ${done}`, kind: "lost" };
}

// Seconds between lines, lately: steps may be long, and so may what comes after epochs.
function longestGap(run: Run): number {
  const times = run.rows.flatMap((r) => (typeof r["seconds"] === "number" ? [r["seconds"]] : [])).slice(-50);
  return times.reduce((most, t, k) => (k ? Math.max(most, t - times[k - 1]!) : most), 0);
}

function lasting(seconds: number): string {
  if (seconds < 100) return `${Math.round(seconds)} s`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`;
}
