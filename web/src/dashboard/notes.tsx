// What a run was, when it began and went on, and what went wrong.

import { runs, visible, type Row } from "./runs";

export function NotesView() {
  const shown = visible.value.map((k) => runs.value[k]!);
  const names = [...new Set(shown.flatMap((run) => Object.keys(run.settings)))];
  return (
    <>
      {names.length > 0 && (
        <div class="scroll" tabIndex={0}>
          <table class="settings">
            <caption>Settings{shown.length > 1 ? "; those that differ are marked" : ""}</caption>
            <thead><tr><th scope="col">setting</th>{shown.map((run) => <th scope="col" key={run.name}>{run.name}</th>)}</tr></thead>
            <tbody>
              {names.map((name) => {
                const values = shown.map((run) => run.settings[name] ?? "–");
                return <tr key={name} class={new Set(values).size > 1 ? "differs" : ""}><th scope="row">{name.replaceAll("_", " ")}</th>{values.map((v, k) => <td key={k}>{v}</td>)}</tr>;
              })}
            </tbody>
          </table>
        </div>
      )}
      {shown.map((run) => (
        <section key={run.name}>
          <h2>{run.name}</h2>
          <ul class="events">
            {run.rows.filter((r) => ["start", "end", "nan", "note"].includes(r.kind)).map((r, k) => <li key={k} class={r.kind}>{event(r)}</li>)}
            {Object.entries(run.every).map(([kind, k]) => <li key={kind}>of the lines “{kind}” each {k}th is on this page</li>)}
          </ul>
        </section>
      ))}
    </>
  );
}

function event(row: Row) {
  const step = `step ${row.step.toLocaleString("en")}`;
  if (row.kind === "start") {
    const when = row.time ? new Date(1000 * row.time).toLocaleString() : "";
    return `${row.step ? `goes on from ${step}` : "begins"}, ${when}`;
  }
  if (row.kind === "end") return `${step}: ${row.stopped ? `stopped: ${row.stopped}` : "ended"}`;
  return <>{step}: <pre>{row.text}</pre></>;
}
