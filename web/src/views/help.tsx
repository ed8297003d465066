// The keys.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

export const isHelping = signal(false);

const KEYS: [keys: string[], what: string][] = [
  [["space"], "play, pause"],
  [["→"], "one step on"],
  [["←"], "one step back"],
  [["Home"], "to the start: nothing is computed"],
  [["End"], "to the end of both substitutions"],
  [["Escape"], "show everything"],
  [["↓", "↑"], "in the graph: the next box, the one before"],
  [["↓", "↑", "→", "←"], "in the matrix: the next block, in a row or a column"],
  [["Enter"], "on a box or block: all about it; on a group: open or fold it"],
  [["+", "−", "0"], "zoom the graph in, out, fit"],
  [["?"], "these keys"],
];

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (isHelping.value) dialog.current!.showModal();
    else dialog.current!.close();
  }, [isHelping.value]);
  return (
    <dialog ref={dialog} aria-label="Keys" onClose={() => { isHelping.value = false; }}>
      <h2>Keys</h2>
      <dl>
        {KEYS.map(([keys, what]) => (
          <div key={what}><dt>{keys.map((k) => <kbd key={k}>{k}</kbd>)}</dt><dd>{what}</dd></div>
        ))}
      </dl>
      <p>
        Values are green, gradients red. A wire or a block under the pointer is lit in both views. What stands in a box of
        several rows opens with a click; drag and wheel, or two fingers, pan and zoom.
      </p>
      <form method="dialog"><button>close</button></form>
    </dialog>
  );
}
