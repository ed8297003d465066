// New lines of runs under way, asked for every second; lines of a log that was begun anew replace the old ones.

import { signal } from "@preact/signals";
import { given, news, runs, type Run } from "./runs";

export const isConnected = signal(given.live);
const SECOND = 1000;

interface Answer extends Run {
  at: string;
  anew: boolean;
}

const places = given.runs.map(() => "");

async function ask(k: number): Promise<void> {
  const answer = await fetch(`rows?run=${k}&at=${places[k]}`);
  if (!answer.ok) throw new Error(`${answer.status}`);
  const { at, anew, name, settings, rows, every, news: latest }: Answer = await answer.json();
  news.value = news.value.map((old, j) => (j === k ? latest : old));
  const before = runs.value[k]!;
  if (at === places[k] || (anew && !rows.length && !before.rows.length)) return;
  places[k] = at;
  const next = { name, settings, rows: anew ? rows : [...before.rows, ...rows], every: anew ? every : before.every, news: latest };
  runs.value = runs.value.map((run, j) => (j === k ? next : run));
}

async function follow(): Promise<void> {
  try {
    await Promise.all(places.map((_, k) => ask(k)));
    isConnected.value = true;
  } catch {
    isConnected.value = false; // the server has ended, or a run that served it: what was seen stays
  }
  setTimeout(follow, isConnected.value ? SECOND : 3 * SECOND);
}

if (given.live) void follow();
