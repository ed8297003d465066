// Inputs and seeds to edit; results, gradients and findings follow.

import { useSignal } from "@preact/signals";
import type { NDArray } from "../run/array";
import { differsAt, edit, gradients, inputs, isEditable, isEdited, leavesPathAt, numbers, originals, restore, scene, seeded } from "../state";
import { shortly } from "../summary";
import { inFull, readLines, readNumber, stepped } from "../typing";

const ROWS = 8; // of a grid that are shown at once
const COLUMNS = 12;
const LINE = 8; // entries of a vector in one line
const parameters = originals.length - seeded.length;

export function InputsView() {
  if (!isEditable || differsAt.value !== null) {
    const other = `this browser finds other numbers than Python did, first of ${scene.nodes[differsAt.value ?? 0]?.name}`;
    const why = "why" in scene.recompute ? scene.recompute.why : other;
    return <p>The numbers of this page stay as they are: {why}.</p>;
  }
  return (
    <form class="inputs" aria-label="Inputs" onSubmit={(e) => e.preventDefault()}>
      <Results />
      {inputs.value.map((a, k) => <Entries key={k} input={k} array={a} />)}
      <p class="hint">↑ ↓ change a number, Page keys tenfold; rows of numbers can be pasted.</p>
    </form>
  );
}

function Results() {
  return (
    <div class="results">
      <p aria-live="polite">
        {[...new Set(scene.outputs)].map((k) => {
          const now = numbers.value[k]!.value.text;
          const before = scene.nodes[k]!.value.text;
          return <span key={k}>{scene.nodes[k]!.name} = <b class="value">{now}</b>{now === before ? "" : ` (was ${before})`}</span>;
        })}
      </p>
      <button type="button" disabled={!isEdited.value} onClick={restore}>as they were</button>
      {leavesPathAt.value !== null && (
        <p role="alert">
          With these inputs the program goes another way at line {leavesPathAt.value}. The numbers shown are those
          of the run: run it again in Python.
        </p>
      )}
    </div>
  );
}

interface Typed {
  entry: number;
  text: string;
}

// One array: a grid, whose columns are its last axis, and a slider for the entry that was last touched.
function Entries({ input, array }: { input: number; array: NDArray }) {
  const seed = seeded[input - parameters];
  const name = seed === undefined ? scene.nodes[input]!.name : `seed of ${scene.nodes[seed]!.name}`;
  const typed = useSignal<Typed | null>(null);
  const wrong = useSignal<string | null>(null);
  const active = useSignal(0);
  const corner = useSignal<[row: number, column: number]>([0, 0]);
  const { shape, dtype, data } = array;
  const isVector = shape.length < 2;
  const width = isVector ? Math.min(data.length, LINE) : shape[shape.length - 1]!;
  const height = width ? Math.ceil(data.length / width) : 0;
  const [top, left] = corner.value;
  const rows = range(top, Math.min(height, top + ROWS));
  const columns = range(left, Math.min(width, left + COLUMNS));
  const gradient = seed === undefined ? gradients.value?.[input] : undefined;
  const called = (k: number): string => (shape.length ? `${name}[${place(k, shape)}]` : name);

  // Handlers read what is there now: a key may come before the last one's numbers are drawn.
  const now = (entry: number): string => inFull(inputs.value[input]!.data[entry]!, dtype);
  const set = (changes: [entry: number, x: number][]): void => {
    wrong.value = null;
    edit(input, changes);
  };
  const type = (entry: number, text: string): void => {
    typed.value = { entry, text };
    const x = readNumber(text, dtype);
    if (typeof x === "string") wrong.value = `${x}: ${called(entry)} stays ${now(entry)}`;
    else set([[entry, x]]);
  };
  const press = (entry: number, e: KeyboardEvent): void => {
    const count = { ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[e.key];
    if (count !== undefined) type(entry, inFull(stepped(inputs.value[input]!.data[entry]!, count), dtype));
    else if (e.key === "Escape" || e.key === "Enter") enter(entry, e.currentTarget as HTMLInputElement);
    else return;
    e.preventDefault();
  };
  const enter = (entry: number, cell: HTMLInputElement): void => {
    active.value = entry;
    wrong.value = null;
    typed.value = { entry, text: (cell.value = now(entry)) }; // at once: the next key replaces it
    cell.select();
  };
  const leave = (): void => {
    typed.value = null;
    wrong.value = null;
  };
  const paste = (entry: number, e: ClipboardEvent): void => {
    const lines = readLines(e.clipboardData?.getData("text") ?? "", dtype);
    if (typeof lines !== "string" && lines.flat().length < 2) return;
    e.preventDefault();
    if (typeof lines === "string") {
      wrong.value = `${lines}: nothing was pasted`;
      return;
    }
    const [changes, lost] = spread(lines, entry, data.length, isVector ? null : width);
    typed.value = null;
    set(changes);
    if (lost) wrong.value = `${lost} of the numbers had no room`;
  };

  if (!data.length) return <fieldset><legend>{name} <small>{dtype} ({shape.join(" × ")})</small></legend>It is empty.</fieldset>;
  return (
    <fieldset>
      <legend>{name} <small>{dtype} {shape.length ? `(${shape.join(" × ")})` : ""}</small></legend>
      <table>
        {!isVector && <thead><tr><td />{columns.map((c) => <th key={c} scope="col">{c}</th>)}</tr></thead>}
        <tbody>
          {rows.map((r) => (
            <tr key={r}>
              {(height > 1 || !isVector) && <th scope="row">{place(r * width, shape, isVector ? 0 : 1)}</th>}
              {columns.map((c) => {
                const k = r * width + c;
                if (k >= data.length) return <td key={c} />;
                const x = data[k]!;
                const isTyped = typed.value?.entry === k;
                return (
                  <td key={c} class={Object.is(x, originals[input]!.data[k]) ? "" : "edited"}>
                    <input type="text" inputMode="decimal" role="spinbutton" autocomplete="off" aria-label={called(k)}
                      aria-valuenow={Number.isFinite(x) ? x : undefined} aria-valuetext={inFull(x, dtype)}
                      aria-invalid={isTyped && wrong.value !== null}
                      value={isTyped ? typed.value!.text : shortly(x)}
                      onFocus={(e) => enter(k, e.currentTarget)}
                      onBlur={leave}
                      onInput={(e) => type(k, e.currentTarget.value)}
                      onKeyDown={(e) => press(k, e)}
                      onPaste={(e) => paste(k, e)} />
                    {gradient && <span class="adjoint" title={`gradient of ${called(k)}`}>{shortly(gradient.data[k]!)}</span>}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
      {height > ROWS && <Pager what="rows" first={top} shown={ROWS} count={height} turn={(by) => { corner.value = [turned(corner.value[0], by, height), corner.value[1]]; }} />}
      {width > COLUMNS && <Pager what="columns" first={left} shown={COLUMNS} count={width} turn={(by) => { corner.value = [corner.value[0], turned(corner.value[1], by, width)]; }} />}
      <Slider name={called(active.value)} isNamed={data.length > 1} start={originals[input]!.data[active.value]!} x={data[active.value]!} slide={(x) => set([[active.value, x]])} />
      {wrong.value && <p class="wrong" role="status">{wrong.value}</p>}
    </fieldset>
  );
}

interface Slid {
  name: string;
  isNamed: boolean;
  start: number;
  x: number;
  slide: (x: number) => void;
}

function Slider({ name, isNamed, start, x, slide }: Slid) {
  const middle = Number.isFinite(start) ? start : 0;
  const reach = 2 * (Math.abs(middle) || 0.5);
  const here = Number.isFinite(x) ? x : middle;
  const least = Math.min(middle - reach, here);
  const most = Math.max(middle + reach, here);
  return (
    <label class="slider">
      {isNamed && <span>{name}</span>}
      <input type="range" aria-label={`slide ${name}`} min={least} max={most} step={(most - least) / 200} value={here}
        onInput={(e) => slide(Number(Number(e.currentTarget.value).toPrecision(6)))} />
    </label>
  );
}

const turned = (first: number, by: number, count: number): number => (first + by < count ? Math.max(0, first + by) : first);

function Pager({ what, first, shown, count, turn }: { what: string; first: number; shown: number; count: number; turn: (by: number) => void }) {
  return (
    <p class="pager">
      <button type="button" aria-label={`earlier ${what}`} disabled={first === 0} onClick={() => turn(-shown)}>‹</button>
      {` ${what} ${first} … ${Math.min(count, first + shown) - 1} of ${count} `}
      <button type="button" aria-label={`later ${what}`} disabled={first + shown >= count} onClick={() => turn(shown)}>›</button>
    </p>
  );
}

// Lines of numbers from an entry on; in a table each line stays in its row. And how many had no room.
function spread(lines: number[][], from: number, count: number, width: number | null): [changes: [number, number][], lost: number] {
  const changes: [number, number][] = [];
  let lost = 0;
  let at = from;
  lines.forEach((line, n) => {
    if (width !== null) at = from + n * width;
    const end = width === null ? count : Math.min(count, (Math.floor(at / width) + 1) * width);
    for (const x of line) {
      if (at < end) changes.push([at++, x]);
      else lost++;
    }
  });
  return [changes, lost];
}

function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from) }, (_, k) => from + k);
}

// The index of an entry, without its last `cut` numbers.
function place(k: number, shape: readonly number[], cut = 0): string {
  const found: number[] = [];
  for (const s of [...shape].reverse()) {
    found.unshift(k % s);
    k = Math.floor(k / s);
  }
  return found.slice(0, found.length - cut).join(", ");
}
