// Runs Programs in Node as the page does: a list of {program, inputs} comes in as JSON, values and adjoints go out,
// or the message of an error. With `times` it runs that often again and says how long each run took.
import { build } from "esbuild";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const contents = 'export * from "./program"; export { fromData } from "./array"; export { PRIMITIVES } from "./primitives";';
const built = await build({
  stdin: { contents, resolveDir: join(here, "../src/run"), loader: "ts" },
  bundle: true,
  write: false,
  format: "esm",
  target: "es2022",
});
const code = Buffer.from(built.outputFiles[0].text).toString("base64");
const { run, fromData, PRIMITIVES } = await import(`data:text/javascript;base64,${code}`);

const plain = (x) => (Number.isFinite(x) ? x : Number.isNaN(x) ? "nan" : x > 0 ? "inf" : "-inf");
const listed = (a) => a && { shape: a.shape, dtype: a.dtype, data: Array.from(a.data, plain) };

function answer({ program, inputs, times }) {
  try {
    const arrays = inputs.map(fromData);
    const { values, adjoints, leaves } = run(program, arrays);
    const found = { leaves, values: values.map(listed), adjoints: adjoints.map(listed) };
    if (!times) return found;
    const taken = Array.from({ length: times }, () => {
      const start = performance.now();
      run(program, arrays);
      return performance.now() - start;
    });
    return { ...found, milliseconds: taken };
  } catch (error) {
    return { error: String(error) };
  }
}

const asked = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify({ primitives: Object.keys(PRIMITIVES).sort(), answers: asked.map(answer) }));
