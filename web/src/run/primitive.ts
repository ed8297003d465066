// What a primitive is to the page: a way to its value. Derivatives it needs none, for a Program that it runs has
// them written out.

import type { NDArray } from "./array";

export type Metadata = Record<string, unknown>;

export type Primitive = (
  inputs: readonly NDArray[],
  metadata: Metadata,
  shape: readonly number[],
  dtype: string,
) => NDArray;

export type Table = Record<string, Primitive>;
