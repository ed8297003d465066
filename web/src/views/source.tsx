// The user's function; lines lead to the rows that they made, and the row in question to its line.

import { useEffect, useRef } from "preact/hooks";
import { moment, scene, seen, select, selected } from "../state";
import { plural } from "./words";

interface Line {
  number: number;
  text: string;
  nodes: number[];
}

// A row belongs to a line if it has its number and its text: a number alone may be one of another file.
const lines: Line[] = (scene.source?.text.replace(/\n$/, "").split("\n") ?? []).map((text, k) => ({ number: scene.source!.first + k, text, nodes: [] }));
const elsewhere = new Map<string, Line>();
scene.nodes.forEach((node, id) => {
  if (!node.line || !node.code) return;
  const own = lines[node.line - (scene.source?.first ?? 0)];
  if (own && own.text.trim() === node.code) {
    own.nodes.push(id);
    return;
  }
  const key = `${node.line} ${node.code}`;
  const found = elsewhere.get(key);
  if (found) found.nodes.push(id);
  else elsewhere.set(key, { number: node.line, text: node.code, nodes: [id] });
});
const called = [...elsewhere.values()].sort((a, b) => a.number - b.number);

const NAMED = 8; // rows of a line that stand beside it

export function SourceView() {
  const frame = useRef<HTMLDivElement>(null);
  const { box } = moment.value;
  const looked = box === null ? selected.value : (seen.value.boxes.find((b) => b.id === box)?.first ?? null);
  useEffect(() => {
    frame.current?.querySelector(".now")?.scrollIntoView({ block: "nearest" });
  }, [looked]);
  if (!lines.length && !called.length) return <p>The text of this function is not known.</p>;
  return (
    <div class="source" ref={frame}>
      {lines.length > 0 && <Listing lines={lines} looked={looked} label={`Source of ${scene.title}`} />}
      {called.length > 0 && <><h3>in functions that it calls</h3><Listing lines={called} looked={looked} label="Source of what it calls" /></>}
    </div>
  );
}

function Listing({ lines, looked, label }: { lines: Line[]; looked: number | null; label: string }) {
  return (
    <ol class="listing" aria-label={label}>
      {lines.map((line, k) => (
        <li key={k} class={looked !== null && line.nodes.includes(looked) ? "now" : ""} data-line={line.number}>
          <span class="at">{line.number}</span>
          <code>{line.text || " "}</code>
          <span class="made">
            {line.nodes.slice(0, NAMED).map((id) => (
              <button type="button" key={id} aria-pressed={selected.value === id} onClick={() => select(id)}>{scene.nodes[id]!.name}</button>
            ))}
            {line.nodes.length > NAMED && ` of ${plural(line.nodes.length, "row")}`}
          </span>
        </li>
      ))}
    </ol>
  );
}
