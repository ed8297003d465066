// The values of primitives, as src/backsolve/primitives defines them.

import { ALONG } from "./along";
import { ARITHMETIC } from "./arithmetic";
import { ATTENTION } from "./attention";
import { CONTRACT } from "./contract";
import { FUNCTIONS } from "./functions";
import { INDEXING } from "./indexing";
import { LOGIC } from "./logic";
import type { Table } from "./primitive";
import { REDUCE } from "./reduce";
import { SHAPE } from "./shape";
import { SPECIAL } from "./special";

export type { Primitive } from "./primitive";

export const PRIMITIVES: Table = {
  ...ARITHMETIC,
  ...FUNCTIONS,
  ...LOGIC,
  ...SPECIAL,
  ...REDUCE,
  ...ALONG,
  ...SHAPE,
  ...INDEXING,
  ...CONTRACT,
  ...ATTENTION,
};
