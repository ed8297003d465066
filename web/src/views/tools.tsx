// Buttons that fit and zoom a view.

export function Tools({ of, fit, by }: { of: "graph" | "matrix"; fit: () => void; by: (factor: number) => void }) {
  return (
    <div class="tools" role="group" aria-label={`Zoom of the ${of}`}>
      <button type="button" aria-label={`fit: the whole ${of}`} onClick={fit}>fit</button>
      <button type="button" aria-label={`${of}: zoom in`} onClick={() => by(1.3)}>+</button>
      <button type="button" aria-label={`${of}: zoom out`} onClick={() => by(1 / 1.3)}>−</button>
    </div>
  );
}
