// Inputs to edit; everything follows.

import { edit, inputs, isEditable, isEdited, leavesPathAt, numbers, restore, scene } from "../state";

const SHOWN = 48;

export function InputsView() {
  if (!isEditable) {
    const why = "why" in scene.recompute ? scene.recompute.why : "";
    return <p>The numbers of this page stay as they are: {why}.</p>;
  }
  return (
    <form class="inputs" aria-label="Inputs" onSubmit={(e) => e.preventDefault()}>
      {inputs.value.map((a, k) => {
        const node = scene.nodes[k]!;
        const gradient = numbers.value[k]!.adjoint?.data;
        return (
          <fieldset key={k}>
            <legend>{node.name} <small>{a.dtype} ({a.shape.join(" × ") || "number"})</small></legend>
            {[...a.data.slice(0, SHOWN)].map((x, i) => (
              <label key={i}>
                <span>{a.shape.length ? `${node.name}[${at(i, a.shape)}]` : node.name}</span>
                <input type="number" step="any" value={x} onInput={(e) => {
                  const value = e.currentTarget.valueAsNumber;
                  if (!Number.isNaN(value)) edit(k, i, value);
                }} />
                <output class="adjoint">{gradient ? String(gradient[i]).slice(0, 10) : ""}</output>
              </label>
            ))}
            {a.data.length > SHOWN && <p>… and {a.data.length - SHOWN} more</p>}
          </fieldset>
        );
      })}
      {leavesPathAt.value !== null && (
        <p role="alert">
          With these inputs the program goes another way at line {leavesPathAt.value}. The numbers shown are those
          of the run: run it again in Python.
        </p>
      )}
      <button type="button" disabled={!isEdited.value} onClick={restore}>as they were</button>
    </form>
  );
}

function at(k: number, shape: readonly number[]): string {
  const place: number[] = [];
  for (const s of [...shape].reverse()) {
    place.unshift(k % s);
    k = Math.floor(k / s);
  }
  return place.join(", ");
}
